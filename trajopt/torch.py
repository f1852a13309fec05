"""Optimal control as a module of PyTorch: trajectories of batches of parameters, with exact gradients.

Both modes multiply by the exact derivatives of solutions (`trajopt.sensitivity`), by functions of their own, so that
`torch.func` maps and differentiates them as it does others; trajectories are computed on the processor, in float64,
whatever device p is on.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from dynamics.distribution import how_to_install
from trajopt.layers import Covectors, LayerHost, SolvedPoint, warm_starts_of
from trajopt.problem.problem import Problem

try:
    torch: Any = import_module("torch")
except ImportError as error:
    raise ImportError(f"trajopt.torch needs torch: {how_to_install('torch')}") from error

SECOND = (
    "OptimalControl: got second derivatives asked for, expected first ones (backward, torch.func.grad, jacrev, "
    "jacfwd); second ones are differences of these, or Gauss-Newton's J'J of residuals with J by torch.func.jacrev"
)
"""What is said of derivatives of derivatives."""


class OptimalControl(torch.nn.Module):
    """A differentiable function of parameters: ``xs, us, cost = layer(p)``, optimal trajectories and their costs.

    Parameters
    ----------
    make_problem : function of p (P,), a numpy array, that returns a Problem, as for `trajopt.sensitivity`: horizon and
        sizes stay the same; of p alone, for solutions are remembered by p; at the top level of a module if there are
        workers
    solver : `ILQR`, `DDP`, or what has their ``solve(problem, warm_start=)``
    workers : processes that share the problems of a batch, forward by `solve_many`, and back; None: this one alone
    memory : how many of the last points are kept: a solve without a warm start begins from the nearest of those of
        earlier calls; with 0 from nothing, so that equal p and warm starts have equal answers whatever came before

    Attributes
    ----------
    failed : of the last call, (B,) or (), bool: where there is no solution
    reasons : of the last call, why, one text for each problem, empty where there is a solution

    Raises
    ------
    TypeError, ValueError : naming the argument.
    NotImplementedError : where second derivatives are asked for, or a batch of autograd (``vectorize=True``).

    Notes
    -----
    ``layer(p, warm_start=solution)`` says where solves begin, see `forward`.  Of `torch.func`, `grad`, `vjp`, `jvp`,
    `jacrev`, `jacfwd` and `vmap` take the layer, and so does autograd in both modes.  What a warm start leads to is
    remembered by p and its numbers, and a solve that fails from there has no solution.
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
        self.failed = torch.zeros(0, dtype=torch.bool)
        self.reasons: tuple[str, ...] = ()

    def clear(self) -> None:
        """Forget all points, as where what make_problem reads besides p has changed."""
        self.host.clear()

    @torch.compiler.disable  # a compiled function breaks off here, instead of tracing solvers
    def forward(self, p: Any, warm_start: Any = None) -> tuple[Any, Any, Any]:
        """xs (B, N+1, nx), us (B, N, nu) and cost (B,) of p (B, P), float64; without B for p (P,).

        Solves begin at the warm start, a `Solution` or a `WarmStart` for all problems, or a sequence of one for each
        of the batch; where there is None, at the nearest known point.

        Raises: TypeError for what is no tensor of float64 and for a warm start that is none; ValueError for another
        shape or an empty batch, for warm starts that are not as many as problems or of another system.
        """
        if not isinstance(p, torch.Tensor) or p.dtype != torch.float64:
            raise TypeError(f"p: got {getattr(p, 'dtype', type(p).__name__)}, wanted a tensor of torch.float64")
        if p.ndim not in (1, 2) or not p.numel():
            raise ValueError(f"p: got shape {tuple(p.shape)}, wanted (P,) or (B, P)")
        return _Solutions.apply(p, _Call(self, warm_start))[:3]


class _Call:
    """A call of the layer: where its solves begin, and the points that they led to."""

    def __init__(self, layer: OptimalControl, warm_start: Any) -> None:
        self.layer, self.warm_start = layer, warm_start
        self.points: list[SolvedPoint] = []

    def solve(self, p: Any) -> tuple[Any, ...]:
        """xs, us, cost and the place among the points, of p with any number of axes in front, and the layer told."""
        lead, layer = p.shape[:-1], self.layer
        ps = np.ascontiguousarray(_numbers(p)).reshape(-1, p.shape[-1])
        starts = warm_starts_of(self.warm_start, len(ps) if lead else None)
        self.points = layer.host.points(ps, starts)
        layer.reasons = tuple(point.reason for point in self.points)
        layer.failed = torch.tensor([point.solution is None for point in self.points]).reshape(lead)
        places = torch.arange(len(ps), device=p.device).reshape(lead)
        return *self.tensors(layer.host.numbers(self.points), p), places

    def at(self, places: Any) -> list[SolvedPoint]:
        """The points at these places."""
        return [self.points[i] for i in _numbers(places).ravel()]

    @staticmethod
    def tensors(arrays: Any, like: Any) -> tuple[Any, ...]:
        """Arrays with one axis in front as tensors with those of p."""
        return tuple(like.new_tensor(part).reshape((*like.shape[:-1], *part.shape[1:])) for part in arrays)


def _numbers(tensor: Any) -> np.ndarray:
    try:
        return tensor.detach().cpu().numpy()
    except RuntimeError as error:  # autograd's own batches know no functions of others
        raise NotImplementedError(
            "OptimalControl: got a batch of autograd (vectorize=True, is_grads_batched=True), expected "
            "torch.func.jacrev or jacfwd"
        ) from error


# ------------------------------------------------------------------------------------------------ functions of torch
class _MappedFunction(torch.autograd.Function):
    """A function of tensors with any number of axes in front, and of a call: `torch.vmap` adds one in front of all."""

    @classmethod
    def vmap(cls, info: Any, axes: Any, *given: Any) -> tuple[Any, Any]:
        """The function of all with the new axis in front."""
        moved = [
            tensor.movedim(axis, 0) if axis is not None else tensor.expand((info.batch_size, *tensor.shape))
            for tensor, axis in zip(given[:-1], axes[:-1], strict=True)
        ]
        found = cls.apply(*moved, given[-1])
        return found, tuple(0 for _ in found) if isinstance(found, tuple) else 0


class _Solutions(_MappedFunction):
    """Points as tensors that depend on p, and their places in the call."""

    @staticmethod
    def forward(p: Any, call: _Call) -> Any:
        return call.solve(p)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        p, ctx.call = inputs
        ctx.mark_non_differentiable(output[3])
        ctx.save_for_backward(p, output[3])
        ctx.save_for_forward(p, output[3])

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        return _Pull.apply(*ctx.saved_tensors, *bars[:3], ctx.call), None

    @staticmethod
    def jvp(ctx: Any, dp: Any, _: Any) -> Any:
        return *tuple(_Push.apply(*ctx.saved_tensors, dp, ctx.call)), None


class _Product(_MappedFunction):
    """A product with derivatives at points, which depends on p in a way that is not known, and says so."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        raise NotImplementedError(SECOND)

    @staticmethod
    def jvp(ctx: Any, *along: Any) -> Any:
        raise NotImplementedError(SECOND)


class _Pull(_Product):
    """The derivative of a loss by p, from those by xs, us and cost."""

    @staticmethod
    def forward(p: Any, places: Any, xs: Any, us: Any, cost: Any, call: _Call) -> Any:
        points = call.at(places)
        bars = [_numbers(bar).reshape((len(points), *bar.shape[p.ndim - 1 :])) for bar in (xs, us, cost)]
        each = [Covectors(dx, du, float(dJ)) for dx, du, dJ in zip(*bars, strict=True)]
        return call.tensors([call.layer.host.vjp(points, each)], p)[0]


class _Push(_Product):
    """Changes of xs, us and cost with p along dp."""

    @staticmethod
    def forward(p: Any, places: Any, dp: Any, call: _Call) -> Any:
        points = call.at(places)
        return call.tensors(call.layer.host.jvp(points, _numbers(dp).reshape(len(points), -1)), p)
