"""A soft robot as kernels read it: elasticity, tendons, chambers, driven joints, and the order of elimination of its
mass matrix."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics.rods.loads.drives import DriveArrays, drive_arrays
from dynamics.rods.loads.tendons import TendonArrays
from dynamics.rods.model.arrays import ClosureArrays, LoadArrays, closure_size, input_size
from dynamics.rods.model.rod_model import RodModel


class RobotArrays(NamedTuple):
    """Arrays of a robot with n coordinates, W external wrenches, and nu controls: of tendons, chambers, driven joints,
    and laws, in this order."""

    counts: np.ndarray  # (3,) nu; number of entries of a state after u; number of results for closed chains and laws
    external: LoadArrays  # with the reactions of closed chains
    closures: ClosureArrays
    band: np.ndarray  # (n, 2) columns band[i, 0] ... band[i, 1] - 1 of row i of K and D may differ from zero
    stiffness: np.ndarray  # (n, n)
    damping: np.ndarray  # (n, n)
    tendons: TendonArrays
    drives: DriveArrays  # of the controls before those of laws
    # degrees of freedom in the form of `branch_factor`
    dof_body: np.ndarray  # (n,) not read
    dof_parent: np.ndarray  # (n,)
    subtree_end: np.ndarray  # (n,)


def robot_arrays(model: RodModel, tendons: TendonArrays, count: int, driven: Sequence[slice]) -> RobotArrays:
    """The arrays of a robot with `count` tendons and chambers, and driven joints of these coordinates."""
    parent, end = _elimination_order(model)
    n, laws, inputs = model.nq, len(model.load_controls), 6 * model.wrench_count + input_size(model.closures)
    torques = sum(own.stop - own.start for own in driven)
    results = closure_size(model.closures, n) + 2 * n * laws
    return RobotArrays(
        np.array([count + torques + laws, inputs, results], np.int64), model.reaction_loads, model.closures,
        _band(model.stiffness, model.damping), model.stiffness.copy(), model.damping.copy(), tendons,
        drive_arrays(model, driven, count), np.arange(n), parent, end,
    )  # fmt: skip


def _band(K: np.ndarray, D: np.ndarray) -> np.ndarray:
    band = np.zeros((len(K), 2), np.int64)
    for i, row in enumerate((K != 0.0) | (D != 0.0)):
        columns = np.flatnonzero(row)
        if len(columns):
            band[i] = columns[0], columns[-1] + 1
    return band


def _elimination_order(model: RodModel) -> tuple[np.ndarray, np.ndarray]:
    """The coordinate before each on its path, and one past the last that it moves, for zeros of M between branches.

    Where coordinates are not numbered depth-first, such as those of branches added in turn, all are taken as one chain.
    """
    m, n = model.arrays, model.nq
    parent = np.full(n, -1, np.int64)
    moved: list[set[int]] = [set() for _ in range(n)]  # i and the coordinates that it moves
    for s in range(len(m.parent)):
        path = [int(i) for i in m.path[m.path_start[s] : m.path_start[s + 1]]]
        own = range(m.rows[s, 0], m.rows[s, 6])
        for before, i in zip([-1, *path], path, strict=False):
            if i in own:
                parent[i] = before
            moved[i].update(j for j in own if j >= i)
    end = np.array([max(below) + 1 for below in moved], np.int64)
    if any(len(below) < last - i for i, (below, last) in enumerate(zip(moved, end, strict=True))):
        return np.arange(n) - 1, np.full(n, n, np.int64)
    return parent, end
