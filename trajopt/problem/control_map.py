"""Where the controls of a system inside come from, of one around it with longer states.

With z = (x, p) and controls w around, u inside, index sets C and P of u, and a factor s,

    u_C = first of w        u_P = s times the first of p

so derivatives of a function of (x, u) by z and w are its own, placed: those by u_C by w, s times those by u_P by p.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trajopt.interfaces.terms import Tangents


class ControlMap(NamedTuple):
    """The map from (z, w) to (x, u), and derivatives by (x, u) as those by (z, w).

    nx, ndx, nu : numbers of a state x, of its tangent, and of the controls u
    controls : C, in order
    parameters : P
    scale : s
    """

    nx: int
    ndx: int
    nu: int
    controls: np.ndarray
    parameters: np.ndarray = np.zeros(0, dtype=np.intp)
    scale: float = 1.0

    def inside(self, zs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """States (K, nx) and controls (K, nu), None for None, at points (z, w)."""
        zs = np.asarray(zs)
        return np.ascontiguousarray(zs[..., : self.nx]), None if us is None else self.controls_inside(zs, us)

    def controls_inside(self, zs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Controls (K, nu) at points (z, w)."""
        if not len(self.parameters):
            return np.ascontiguousarray(us[..., : self.nu])
        whole = np.empty((len(us), self.nu))
        whole[:, self.own] = us[:, : len(self.controls)]
        whole[:, self.parameters] = self.scale * zs[:, self.nx : self.nx + len(self.parameters)]
        return whole

    def along(self, dz: np.ndarray, dw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Changes dx (K, ndx, ...) and du (K, nu, ...) along dz (K, ndx, ...) and dw (K, nu, ...)."""
        du = np.empty((len(dw), self.nu, *dw.shape[2:]))
        du[:, self.controls] = dw[:, : len(self.controls)]
        du[:, self.parameters] = self.scale * dz[:, self.ndx : self.ndx + len(self.parameters)]
        return np.ascontiguousarray(dz[:, : self.ndx]), du

    def tangents(self, at: Tangents) -> Tangents:
        """Points (x, u) and changes there."""
        xs, us = self.inside(at.xs, at.us)
        if at.du is None:
            return Tangents(xs, us, np.ascontiguousarray(at.dx[:, : self.ndx]), None)
        return Tangents(xs, us, *self.along(at.dx, at.du))

    def place_first(
        self, rx: np.ndarray, ru: np.ndarray | None, of_states: np.ndarray, of_controls: Any, add: bool = False
    ) -> None:
        """Write derivatives (K, ..., ndx) by x and (K, ..., nu) by u, or None, as those by z and w, or add them."""
        n, P = self.ndx, len(self.parameters)
        _into(of_states[..., :n], rx, add)
        if ru is not None:
            _into(of_controls[..., : len(self.controls)], ru[..., self.own], add)
            if P:
                _into(of_states[..., n : n + P], self.scale * ru[..., self.parameters], add)

    def place_hessian(
        self, Hxx: Any, Hux: Any, Huu: Any, Hzz: np.ndarray, Hwz: Any, Hww: Any, add: bool = False
    ) -> None:
        """Write Hessians by x and u, None for those that are zero, as those by z and w, or add them."""
        n, m, s, p, own = self.ndx, len(self.controls), self.scale, self.parameters, self.own
        at = slice(n, n + len(p))
        if Hxx is not None:
            _into(Hzz[:, :n, :n], Hxx, add)
        if Hux is not None:
            _into(Hwz[:, :m, :n], Hux[:, own], add)
            if len(p):
                mixed = s * Hux[:, p]
                _into(Hzz[:, at, :n], mixed, add)
                _into(Hzz[:, :n, at], mixed.swapaxes(1, 2), add)
        if Huu is not None:
            _into(Hww[:, :m, :m], Huu[:, own][:, :, own], add)
            if len(p):
                _into(Hzz[:, at, at], s * s * Huu[:, p][:, :, p], add)
                _into(Hwz[:, :m, at], s * Huu[:, own][:, :, p], add)

    @property
    def of_states(self) -> ControlMap:
        """The same of functions of states alone."""
        nothing = np.zeros(0, dtype=np.intp)
        return self._replace(controls=nothing, parameters=nothing)

    @property
    def own(self) -> Any:
        """C as an index, a slice where these are the first of u."""
        m = len(self.controls)
        return slice(m) if m == 0 or self.controls[-1] == m - 1 else self.controls


def _into(target: np.ndarray, value: np.ndarray, add: bool) -> None:
    if add:
        target += value
    else:
        target[...] = value
