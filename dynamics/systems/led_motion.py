"""Motion of robots with joints that follow others: that of a system of the whole tree, in the coordinates that lead.

The tree's joints are tied to each other by constraints of its contact dynamics, so that from a state x_full = E x + e
it steps to another such state.  Of the tree's step the leaders' rows are the robot's,

    x+ = S x_full+      fx = S fx_full G      fu = S fu_full      H = G' H_full[S'lam] G

with G for [G 0; 0 G] and S likewise, whatever the integrator and the contacts.
"""

from __future__ import annotations

import numpy as np

from dynamics.model.mimic import MimicMap
from dynamics.model.model import RigidBodyModel
from dynamics.simd import aligned_arrays
from dynamics.systems.discrete_system import ClosedLoops, DiscreteSystem


class LedMotion:
    """What a system does by way of that of the tree.

    Parameters
    ----------
    model : RigidBodyModel with joints that follow others
    tree : the same system of `model.full`
    """

    def __init__(self, model: RigidBodyModel, tree: DiscreteSystem) -> None:
        seen: MimicMap = model.mimic_map
        n, whole = model.nv, tree.nv
        self.tree, self.full_x = tree, seen.full_x
        self.kept_x = np.concatenate([seen.kept_q, tree.nq + seen.kept_v])
        self.kept_dx = np.concatenate([seen.kept_v, whole + seen.kept_v])
        self.G = np.zeros((2 * whole, 2 * n))
        self.G[:whole, :n] = self.G[whole:, n:] = seen.G

    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """Next states into out (K, nx)."""
        full = np.empty((len(out), self.tree.nx))
        self.tree.write_steps(self.full_x(xs), us, full)
        out[...] = full[:, self.kept_x]

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops from knot start to knot stop, into states X and controls U."""
        K = np.zeros((*loops.K.shape[:2], self.tree.ndx if loops.K.shape[2] else 0))
        if loops.K.shape[2]:
            K[..., self.kept_dx] = loops.K
        gaps = None if loops.gaps is None else loops.gaps @ self.G.T
        x0 = None if loops.x0 is None else self.full_x(loops.x0)
        whole = loops._replace(x0=x0, xs=self.full_x(loops.xs), K=K, gaps=gaps, before=self._before(loops.before))
        (full,) = aligned_arrays((*X.shape[:2], self.tree.nx, X.shape[3]))
        if x0 is None or start > 0:  # else X has nothing yet
            for t in range(max(start - 1, 0), start + 1):
                full[:, t] = np.moveaxis(self.full_x(np.moveaxis(X[:, t], 1, -1)), -1, 1)
        self.tree.roll(whole, start, stop, full, U)
        X[:, start : stop + 1] = full[:, start : stop + 1, self.kept_x]

    def _before(self, before: np.ndarray | None) -> np.ndarray | None:
        """Gains of the velocities and controls of the knot before, of all velocities of the tree."""
        n = 0 if before is None else before.shape[2] - before.shape[1]
        if before is None or n == 0:
            return before
        wide = np.zeros((*before.shape[:2], self.tree.nv + before.shape[1]))
        wide[:, :, self.kept_dx[-n:] - self.tree.nv] = before[:, :, :n]
        wide[:, :, self.tree.nv :] = before[:, :, n:]
        return wide

    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """fx and fu at knots."""
        Fx, Fu = self._first_order(len(us))
        self.tree.write_linearization(self.full_x(xs), us, Fx, Fu)
        self._keep(Fx, Fu, fx, fu)

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """Hxx, Hux, Huu of lam'f at knots."""
        whole = self._second_order(us)
        self.tree.write_hessian_products(self.full_x(xs), us, self.full_multipliers(lam), *whole)
        self._fold(whole, H)

    def write_expansion(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, fx: np.ndarray, fu: np.ndarray, *H: np.ndarray
    ) -> None:
        """Both at once."""
        (Fx, Fu), whole = self._first_order(len(us)), self._second_order(us)
        self.tree.write_expansion(self.full_x(xs), us, self.full_multipliers(lam), Fx, Fu, *whole)
        self._keep(Fx, Fu, fx, fu)
        self._fold(whole, H)

    def _first_order(self, N: int) -> tuple[np.ndarray, np.ndarray]:
        ndx = self.tree.ndx
        return np.empty((N, ndx, ndx)), np.empty((N, ndx, self.tree.nu))

    def _second_order(self, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        (N, nu), ndx = us.shape, self.tree.ndx
        return np.empty((N, ndx, ndx)), np.empty((N, nu, ndx)), np.empty((N, nu, nu))

    def full_multipliers(self, lam: np.ndarray) -> np.ndarray:
        """S'lam (N, ndx of the tree)."""
        full = np.zeros((len(lam), self.tree.ndx))
        full[:, self.kept_dx] = lam
        return full

    def _keep(self, Fx: np.ndarray, Fu: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        fx[...] = Fx[:, self.kept_dx] @ self.G
        fu[...] = Fu[:, self.kept_dx]

    def _fold(self, whole: tuple[np.ndarray, ...], H: tuple[np.ndarray, ...]) -> None:
        (Wxx, Wux, Wuu), (Hxx, Hux, Huu) = whole, H
        Hxx[...], Hux[...], Huu[...] = self.G.T @ Wxx @ self.G, Wux @ self.G, Wuu
