"""A frame on a link, anywhere along a rod: the common part of its residuals.

Only the links between the base and the frame matter, without mass and gravity: the model is the chain of the segments
on this path, the last of them a Magnus step that ends at the frame, so that at the model's nodes the frame is where the
model has it.  The Jacobian's columns are those of the chain's end.  Wrenches of constant components there, in axes of
the world or of the frame, have the generalised forces J'f, so that second derivatives of J are first or second
derivatives of ID.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from dynamics.residuals.kernel_residual import KernelResidual
from dynamics.rods.kinematics.forward_pass import TANGENT, forward_pass
from dynamics.rods.loads.external_loads import LoadList
from dynamics.rods.model.arrays import END, FAMILIES, LOADS, ROD, SEGMENT, WRENCH, LoadArrays, RodArrays, no_closures
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.backward_pass import backward_size
from dynamics.rods.recursion.blocks import BLOCKS, n
from dynamics.simd import helper, load, split, store
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import load3, load9
from dynamics.validation import as_array, as_kind, as_placement

segments_count = Size("segments_count", "external.start.size - 1")
WORK = segments_count * (SEGMENT + LOADS) + n * FAMILIES + max(288 + 2 * TANGENT, backward_size())
"""Scratch size of inverse dynamics, and of the forward pass alone."""
TARGET = 0.06
"""Length of the arms of the cross that marks a target in pictures, relative to the longest rod."""
SCRATCH = {"state": 4 * n, "scratch": 6 + n + n * n * BLOCKS, "room": WORK}


# ------------------------------------------------------------------------------------------------ kernels
@helper
def massless(block):
    """The model itself: the residuals of links store its arrays without mass."""
    return block


@helper
def load_configuration(m, x, state):
    """Load q of a state x = (q, v) into `state`, with zero rates."""
    n = m.counts[0]
    state[n:] = 0.0
    for i in range(n):
        store(state, i, load(x, i))


@helper
def swept(m, level, state, room):
    """Segments and columns after a forward pass; they lie at the start of the scratch."""
    segments, columns, w = sliced(m, room)
    forward_pass(m, level, state, segments, columns, w)
    return segments, columns


@helper
def sliced(m, room):
    """The scratch split into segments, columns, and the rest."""
    segments, w = split(room, m.parent.size * SEGMENT)
    columns, w = split(w, FAMILIES * m.counts[0])
    return segments, columns, w


@helper
def end_pose(m, segments):
    """R and p at the end of the chain."""
    o = (m.parent.size - 1) * SEGMENT + END
    return load9(segments, o), load3(segments, o + 9)


# ------------------------------------------------------------------------------------------------ models
class LinkResidual(KernelResidual):
    """Base of residuals of a frame on a link."""

    link: str
    s: float
    placement: tuple[np.ndarray, np.ndarray]

    def _attach(
        self, model: RodModel, link: str, s: float, placement: Any, what: str, kind: int = WRENCH
    ) -> tuple[np.ndarray, RodArrays, dict[str, Any]]:
        """Coordinates on the path to the frame, the chain, and the further arguments of kernels; parameters as for
        `LinkTranslation`."""
        as_kind("model", model, RodModel)
        s, placement = as_share(model, link, s), as_placement("placement", placement)
        for part in placement:
            part.flags.writeable = False
        super().__init__(cast(Any, model), f"{what} of {link}" + ("" if s == 1.0 else f" at s = {s:g}"))
        self._set(link=link, s=s, placement=placement)
        chain = chain_to(model, link, s, placement)
        path = chain.path[chain.path_start[-2] :]
        return path, chain, {"external": load_at_end(chain, kind), "closures": no_closures()}


def target_size(model: RodModel) -> float:
    """Length of the arms of the cross that marks a target in pictures, m."""
    return TARGET * max((rod.length for rod in model.rods.values()), default=1.0)


def as_share(model: RodModel, link: str, s: float) -> float:
    """A position on a link, X / length between 0 and 1; ValueError otherwise."""
    model.segment_of(link)
    s = float(as_array("s", s, ()))
    if not 0.0 <= s <= 1.0:
        raise ValueError(f"s: got {s}, expected X / length between 0 and 1")
    if s != 1.0 and link not in model.rods:
        raise ValueError(f"s: got {s} of the body {link!r}, expected 1; only rods have other places")
    return s


def chain_to(model: RodModel, link: str, s: float, placement: tuple[np.ndarray, np.ndarray]) -> RodArrays:
    """The segments up to X = s length of a rod, or up to a body, without mass and gravity; the last ends at the
    frame."""
    m, last = model.arrays, model.segment_of(link)
    modes, step, reference = m.modes, m.step.copy(), m.reference.copy()
    if link in model.rods:
        rod = model.rods[link]
        k = min(max(int(np.searchsorted(rod.nodes, s * rod.length)) - 1, 0), len(rod.nodes) - 2)
        last = rod.segments.start + k
        h, b, at_rest, of_basis = rod.step(rod.nodes[k], s * rod.length - rod.nodes[k])
        modes, step[last], reference[last] = np.concatenate([modes, of_basis]), (h, b), at_rest.ravel()
    chain = [last]
    while m.parent[chain[0]] >= 0:
        chain.insert(0, int(m.parent[chain[0]]))
    paths = [m.path[m.path_start[k] : m.path_start[k + 1]] for k in chain]
    after, first_mode, L = m.after[chain], m.first_mode[chain], len(chain)
    R, p = after[-1, :9].reshape(3, 3), after[-1, 9:]
    after[-1] = np.concatenate([(R @ placement[0]).ravel(), p + R @ placement[1]])
    if m.kind[last] == ROD:
        first_mode[-1] = len(m.modes)
    return RodArrays(
        np.arange(-1, L - 1), m.kind[chain], m.rows[chain], step[chain], reference[chain], first_mode, modes,
        m.before[chain], after, np.zeros((L, 10)), np.cumsum([0, *map(len, paths)]), np.concatenate(paths),
        np.zeros(L + 1, np.int64), np.zeros(0, np.int64), m.base, np.zeros(3), m.counts,
    )  # fmt: skip


def load_at_end(m: RodArrays, kind: int) -> LoadArrays:
    """Arrays with a wrench at the end of the last segment as the only load."""
    loads = LoadList()
    loads.add_wrench(len(m.parent) - 1, kind, "force", np.zeros(3))
    return loads.arrays(m)
