"""Residuals of robots with joints that follow others: those of the tree, expanded in the coordinates that lead."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from dynamics.geometry.world_shape import WorldShape
from dynamics.model.subject import Subject
from dynamics.residuals.robot_residual import NO_BLOCKS, NO_ROWS, NO_TARGET, Blocks, RobotResidual, Rows, knots


class LedResidual(RobotResidual):
    """r(x_full, u) at x_full = E x + e: values as they are, Jacobians r_x G, Hessians G'H G.

    Parameters
    ----------
    inner : residual of the tree
    model : of which `model.full` is the tree
    made_for : what it is about, in place of the tree
    """

    kernels = None
    _inner: RobotResidual
    _made_for: Subject
    _G: np.ndarray

    def __init__(self, inner: RobotResidual, model: Any, made_for: Subject) -> None:
        super().__init__(model, inner.name)
        known = {name: value for name, value in inner.__dict__.items() if name not in self.__dict__ and name[0] != "_"}
        whole, n = model.full.nv, model.nv
        G = np.zeros((2 * whole, 2 * n))
        G[:whole, :n] = G[whole:, n:] = model.mimic_map.G
        self._set(**known | {"nr": inner.nr, "nu": inner.nu, "curved_in_controls": inner.curved_in_controls})
        self._set(reads_dynamics=inner.reads_dynamics)
        self._set(_inner=inner, _made_for=made_for, _G=G)

    @property
    def made_for(self) -> Subject:
        """The robot, not its tree."""
        return self._made_for

    def _kind_of_target(self) -> str:
        return self._inner._kind_of_target()

    @property
    def adjustable(self) -> tuple[str, ...]:
        """As of the tree's."""
        return self._inner.adjustable

    def adjusted(self, **values: Any) -> Self:
        """See `RobotResidual`."""
        return type(self)(self._inner.adjusted(**values), self.model, self._made_for)

    def scenery(self, xs: np.ndarray) -> tuple[WorldShape, ...]:
        """What the tree's is about; nothing if it does not say."""
        seen = getattr(self._inner, "scenery", None)
        return () if seen is None else seen(self.model.mimic_map.full_x(knots("xs", xs, self.nx)))

    def at_times(self, times: np.ndarray) -> Self:
        """See `RobotResidual`."""
        return self._with(self._inner.at_times(times))

    def at_knots(self, knots: np.ndarray) -> Self:
        """See `RobotResidual`."""
        return self._with(self._inner.at_knots(knots))

    def _with(self, inner: RobotResidual) -> Self:
        return self if inner is self._inner else type(self)(inner, self.model, self._made_for)

    def _summed(self, gradients: np.ndarray) -> np.ndarray:
        return self._inner._summed(gradients)

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get("_inner")
        if name not in getattr(type(inner), "of_states", ()):
            raise AttributeError(f"{type(inner).__name__} has no attribute {name!r}")

        def of_states(xs: Any) -> Any:
            found = getattr(inner, name)(self.model.mimic_map.full_x(knots("xs", xs, self.nx)))
            return type(self)(found, self.model, self._made_for) if isinstance(found, RobotResidual) else found

        return of_states

    def _control_jacobians(self, K, nu):
        return self._inner._control_jacobians(K, nu)

    def _expand(self, weights, start, stop, order, xs, us, rows, target, curvature):
        G, whole = self._G, len(self._G)
        x = self.model.mimic_map.full_x(xs)
        rx = np.zeros((len(rows.rx), self.nr, whole)) if rows.rx.size else NO_BLOCKS
        wide = Rows(rows.r, rx, rows.ru)
        into, bent = self._widened(target), self._widened(curvature)
        if curvature is target:
            bent = into
        value = self._inner._expand(weights, start, stop, order, x, us, wide, into, bent)
        if rows.rx.size:
            rows.rx[...] = rx @ G
        self._add(into, target)
        if curvature is not target:
            self._add(bent, curvature)
        return value

    def _widened(self, blocks: Blocks) -> Blocks:
        """Arrays of the tree's size for those that are given."""
        if blocks is NO_TARGET:
            return blocks
        whole = len(self._G)
        lx, lu, lxx, lux, luu = blocks
        return (
            np.zeros((len(lx), whole)) if lx.size else NO_ROWS,
            np.zeros_like(lu),
            np.zeros((len(lxx), whole, whole)) if lxx.size else NO_BLOCKS,
            np.zeros((*lux.shape[:2], whole)) if lux.size else NO_BLOCKS,
            np.zeros_like(luu),
        )

    def _add(self, found: Blocks, blocks: Blocks) -> None:
        if blocks is NO_TARGET:
            return
        G = self._G
        for array, block, left, right in zip(found, blocks, (0, 0, 1, 0, 0), (1, 0, 1, 1, 0), strict=True):
            if block.size:
                folded = array @ G if right else array
                block += G.T @ folded if left else folded


def led(kind: type[RobotResidual], owner: Any, *args: Any, **kwargs: Any) -> LedResidual:
    """The residual of a robot, or of a system, with joints that follow others."""
    if not kind.follows:
        raise ValueError(f"model: {owner.name!r} has joints that follow others, which {kind.__name__} does not take")
    inner = kind(owner.tree, *args, **kwargs)
    if hasattr(owner, "model"):
        return LedResidual(inner, owner.model, owner.serves[owner.tree.serves.index(inner.made_for)])
    return LedResidual(inner, owner, Subject(owner))
