"""Optimal control as a module of PyTorch: trajectories of batches of parameters, with exact gradients.

The way back multiplies by the exact derivatives of solutions (`trajopt.sensitivity`), once; trajectories are computed
on the processor, in float64, whatever device p is on.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from dynamics.distribution import how_to_install
from trajopt.layers import Covectors, LayerHost
from trajopt.problem.problem import Problem

try:
    torch: Any = import_module("torch")
except ImportError as error:
    raise ImportError(f"trajopt.torch needs torch: {how_to_install('torch')}") from error


class OptimalControl(torch.nn.Module):
    """A differentiable function of parameters: ``xs, us, cost = layer(p)``, optimal trajectories and their costs.

    Parameters
    ----------
    make_problem : function of p (P,), a numpy array, that returns a Problem, as for `trajopt.sensitivity`: horizon and
        sizes stay the same; of p alone, for solutions are remembered by p; at the top level of a module if there are
        workers
    solver : `ILQR`, `DDP`, or what has their ``solve(problem, warm_start=)``
    workers : processes that share the problems of a batch, forward by `solve_many`, and back; None: this one alone
    memory : how many of the last points are kept: each solve begins from the nearest of those of earlier calls; with 0
        from nothing, so that equal p have equal answers whatever came before

    Attributes
    ----------
    failed : of the last call, (B,) or (), bool: where there is no solution
    reasons : of the last call, why, one text for each problem, empty where there is a solution

    Raises
    ------
    TypeError, ValueError : naming the argument.

    Notes
    -----
    Solutions are polished by Newton steps.  Where make_problem or the solve raises ValueError, does not converge, or
    ends at no strict minimum, all numbers are NaN, and so are gradients of losses that depend on them, with a warning
    that says why.  Select before anything is computed from such numbers, ``xs[~layer.failed]``: then nothing depends on
    them, and gradients are zero.  Where limits are just touched, gradients are those of one side; a warning says so.
    """

    def __init__(
        self, make_problem: Callable[[np.ndarray], Problem], solver: Any, workers: int | None = None, memory: int = 64
    ) -> None:
        super().__init__()
        self.host = LayerHost(make_problem, solver, workers, memory)
        self.failed, self.reasons = torch.zeros(0, dtype=torch.bool), ()

    def clear(self) -> None:
        """Forget all points, as where what make_problem reads besides p has changed."""
        self.host.clear()

    def forward(self, p: Any) -> tuple[Any, Any, Any]:
        """xs (B, N+1, nx), us (B, N, nu) and cost (B,) of p (B, P), float64; without B for p (P,).

        Raises: TypeError for what is no tensor of float64, ValueError for another shape or an empty batch.
        """
        if not isinstance(p, torch.Tensor) or p.dtype != torch.float64:
            raise TypeError(f"p: got {getattr(p, 'dtype', type(p).__name__)}, wanted a tensor of torch.float64")
        if p.ndim not in (1, 2) or not p.numel():
            raise ValueError(f"p: got shape {tuple(p.shape)}, wanted (P,) or (B, P)")
        points = self.host.points(np.ascontiguousarray(p.detach().cpu().numpy()).reshape(-1, p.shape[-1]))
        self.reasons = tuple(point.reason for point in points)
        self.failed = torch.tensor([point.solution is None for point in points]).reshape(p.shape[:-1])
        return _Solutions.apply(p, self.host, points)


class _Solutions(torch.autograd.Function):
    """Points as tensors that depend on p."""

    @staticmethod
    def forward(ctx: Any, p: Any, host: LayerHost, points: Any) -> Any:
        ctx.save_for_backward(p)
        ctx.host, ctx.points = host, points
        batch = host.numbers(points)
        return tuple(p.new_tensor(part).reshape((*p.shape[:-1], *part.shape[1:])) for part in batch)

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        (p,), B = ctx.saved_tensors, len(ctx.points)
        parts = [bar.detach().cpu().numpy().reshape((B, *bar.shape[p.ndim - 1 :])) for bar in bars]
        each = [Covectors(xs, us, float(cost)) for xs, us, cost in zip(*parts, strict=True)]
        gradient = p.new_tensor(ctx.host.vjp(ctx.points, each)).reshape(p.shape)
        return (_Once.apply(gradient, p) if torch.is_grad_enabled() else gradient), None, None


class _Once(torch.autograd.Function):
    """A gradient that depends on p, in a way that is not known: torch's own `once_differentiable` takes it for constant
    where the loss is linear."""

    @staticmethod
    def forward(ctx: Any, gradient: Any, p: Any) -> Any:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        raise RuntimeError("OptimalControl: got second derivatives asked for, wanted first ones")
