"""Drivers, blocks of lanes and residuals that are written from declarations."""

import traceback
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import dynamics
import problems
from dynamics import FrameTranslation
from dynamics.algorithms.frames import FRAME, frame_numbers, frame_pose, last_dof
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, place_bodies
from dynamics.model.knot_driver import KnotDriver, knot_driver, nb, nv
from dynamics.residuals.frame_translation import position_curvature
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import path_dofs
from dynamics.simd import LANES, align_stack, driver, kernel, lane_blocks, launch, load, splat, store
from dynamics.simd.lane_blocks import lanes, part, part_by_type, slicing, view
from dynamics.simd.sizes import Size
from dynamics.simd.squares import KnotSum, ResidualWeights
from dynamics.spatial.spatial import add_cross, load6
from tests.reference.random_robots import random_tree
from tests.tolerances import IDENTITY, relative_error

two = Size("two", "given.size")


class Pair(NamedTuple):
    """A block."""

    y: np.ndarray = lanes(nv)
    total: np.ndarray = lanes(1)
    zeros: np.ndarray = lanes(two, zero=True)


slice_pair, pair_size = slicing(Pair)


@kernel
def sums(m, q, given, packed, x, out, pair, count):
    """out = q + x + y + packed + given, pair.total their sum; count how often it was called."""
    align_stack(q)
    total = splat(q, 0.0)
    store(count, 0, load(count, 0) + splat(count, 1.0))
    for i in range(m.dof_body.size):
        s = load(q, i) + load(x, i) + load(pair.y, i) + load(packed, i) + load(pair.zeros, 0) + splat(q, given[1])
        store(out, i, s)
        total += s
    store(pair.total, 0, total)


declared = knot_driver(
    sums,
    inputs="q x? y=pair.y",
    scratch={"pair": Pair},
    outputs={"out": nv, "count": 1, "totals": "pair.total"},
    zeroed="count x",
    per_chunk="packed",
)


@pytest.fixture
def arguments(rng):
    model = dynamics.load_urdf(problems.model_path("arm6"))
    K = 2 * LANES + 3
    q, x, y = rng.standard_normal((3, K, model.nv))
    packed = rng.standard_normal((3, model.nv, LANES))
    out = np.empty((K, model.nv)), np.empty((K, 1)), np.empty((K, 1))
    return model, q, np.array([1.0, 2.0]), packed, x, *out[:2], y, out[2]


@pytest.mark.parametrize("with_x", [True, False])
def test_knots_go_through_the_kernel(arguments, with_x):
    model, q, given, packed, x, out, count, y, totals = arguments
    knots = packed.transpose(0, 2, 1).reshape(-1, model.nv)[: len(q)]
    declared(model, q, given, packed, x if with_x else x[:0], out, count, y, totals)
    expected = q + y + knots + 2.0 + (x if with_x else 0.0)
    assert relative_error(out, expected) <= IDENTITY
    assert relative_error(totals[:, 0], expected.sum(axis=1)) <= IDENTITY
    assert set(count[:, 0]) <= {1.0, 2.0, 3.0} and count[0, 0] == 1.0  # zero when a thread starts


def test_arrays_of_no_knots_are_left(arguments):
    *rest, out, count, y, totals = arguments
    declared(*rest, out, count, y, totals)
    expected = out.copy(), totals.copy()
    out[:], count[:], totals[:] = np.nan, -1.0, np.nan
    declared(*rest, out, count[:0], y, totals)
    assert np.array_equal(out, expected[0]) and np.array_equal(totals, expected[1]) and (count == -1.0).all()
    out[:] = np.nan
    declared(*rest, out[:0], count[:0], y, totals)
    assert np.isnan(out).all() and np.array_equal(totals, expected[1])


def test_what_is_written_can_be_read(arguments):
    source = declared.source
    file = Path(declared.module.__file__)
    assert file.name == "sums.py" and file.read_text(encoding="utf-8") == source
    for line in (
        "from tests.dynamics.test_knot_driver import Pair, sums",
        "    two = given.size",
        "    q_, free = split(free, q.shape[1])",
        "    pair = Pair(pair_y, pair_total, pair_zeros)",
        "        if x.shape[0] > 0: gather(x, chunk * LANES, x_)",
        "        sums(m, q_, given, span(packed[chunk]), x_, out_, pair, count_)",
        "        scatter(pair.total, chunk * LANES, totals)",
    ):
        assert line in source.splitlines()
    assert max(map(len, source.splitlines())) <= 120
    model, q, *_ = arguments
    with pytest.raises(AttributeError) as caught:
        declared.workspace_size(model, q, None, None, q, q, q, q, q)
    assert traceback.extract_tb(caught.tb)[-1].line == "two = given.size"


def test_scratch_is_counted(arguments):
    model, q, given, *rest = arguments
    assert declared.workspace_size(model, q, given, *rest) == 4 * model.nv + 1 + 1 + 2
    assert pair_size(model.arrays, given) == model.nv + 1 + 2


@driver
def slice_one(first, last, work, arrays, given, out):
    pair, rest = slice_pair(arrays, given, work)
    out[0], out[1], out[2] = pair.y.shape[0], rest.shape[0], pair.zeros[1, 0]


def test_blocks_are_sliced(arguments):
    model, given, out = arguments[0], arguments[2], np.empty(3)
    launch(slice_one, 1, pair_size(model.arrays, given) + 5, model.arrays, given, out)
    assert list(out) == [model.nv, 5, 0.0]


class One(NamedTuple):
    """An argument of this type selects `Pair`."""

    given: np.ndarray


class Two(NamedTuple):
    """An argument of this type selects `Single`."""

    given: np.ndarray


class Single(NamedTuple):
    """A block that needs no model."""

    total: np.ndarray = lanes(two, zero=True)


class Nest(NamedTuple):
    """Blocks in a block."""

    first: np.ndarray = lanes(Size("width", "width"))
    single: Single = part(Single, given="x.given")
    chosen: Pair | Single = part_by_type("x", {One: Pair, Two: Single}, given="x.given")
    total: np.ndarray = view("single.total")


class Outer(NamedTuple):
    """A block that holds nothing of its own but another one, by another name of its argument."""

    nest: Nest = part(Nest, x="both")


class Optional(NamedTuple):
    """A block that may lack its only part."""

    chosen: Pair | None = part_by_type("x", {One: Pair, None: None}, given="x.given")


slice_nest, nest_size = slicing(Outer)
slice_optional, optional_size = slicing(Optional)


@driver
def slice_nested(first, last, work, arrays, both, out):
    block, rest = slice_nest(arrays, 4, both, work)
    out[0], out[1] = block.nest.chosen.total.shape[0], rest.shape[0]
    out[2], out[3] = block.nest.first.shape[0], block.nest.total.shape[0]
    block.nest.total[1, 0] = 5.0
    out[4] = block.nest.single.total[1, 0]


@pytest.mark.parametrize(("kind", "chosen"), [(One, 1), (Two, 2)])
def test_blocks_lie_in_blocks(arguments, kind, chosen):
    model, both, out = arguments[0], kind(arguments[2]), np.empty(5)
    size = nest_size(model.arrays, 4, both)
    assert size == 4 + 2 + (model.nv + 1 + 2 if kind is One else 2)
    launch(slice_nested, 1, size + 5, model.arrays, both, out)
    assert list(out) == [chosen, 5, 4, 2, 5.0]


@driver
def slice_missing(first, last, work, arrays, x, out):
    block, rest = slice_optional(arrays, x, work)
    out[0], out[1] = block.chosen is None, rest.shape[0]


def test_a_part_may_be_missing(arguments):
    model, given, out = arguments[0], arguments[2], np.empty(2)
    assert optional_size(model.arrays, None) == 0
    assert optional_size(model.arrays, One(given)) == pair_size(model.arrays, given)
    launch(slice_missing, 1, 3, model.arrays, None, out)
    assert list(out) == [True, 3]


def test_names_that_the_kernel_does_not_have():
    with pytest.raises(TypeError, match="sums: has no parameters other, third"):
        KnotDriver(sums, ["q"], {"other": nv}, {"third": nv}, [], [], {}, None)
    with pytest.raises(TypeError, match="taken: has parameters like a driver's: work"):
        knot_driver(taken, "q", {"work": nv}, {})


@kernel
def taken(m, q, work):
    pass


def test_sizes():
    assert [str(size) for size in (2 * nv + 1, (nv + 1) * nb, nv * (nb + 2) * 3, 3 * nv.at_least(nb + 1))] == [
        "2 * nv + 1", "(nv + 1) * nb", "nv * (nb + 2) * 3", "3 * max(nv, nb + 1)",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"nv: got two meanings, m\.dof_body\.size and B\.size"):
        nv * Size("nv", "B.size")


def test_sources_without_a_folder(monkeypatch):
    """Are compiled in memory, and found by tracebacks."""
    monkeypatch.setattr(lane_blocks, "cache_root", lambda: None)
    text = "from dynamics.simd import driver\n\n\n@driver\ndef drive(first, last, work, out):\n    out[0] = 1 / last\n"
    module = lane_blocks.written_module("tests.dynamics.nowhere", text)
    out = np.zeros(1)
    launch(module.drive, 2 * LANES, 1, out)
    assert out[0] == 0.5 and lane_blocks.written_module("tests.dynamics.nowhere", text) is module
    with pytest.raises(ValueError, match=r"tests\.dynamics\.nowhere: got a second source"):
        lane_blocks.written_module("tests.dynamics.nowhere", text + "\n")


@pytest.mark.parametrize("damaged", [b"", b"x = 2\n", b"\xff\xfe\x00"])
def test_a_source_that_is_damaged_is_written_again(tmp_path, monkeypatch, damaged):
    monkeypatch.setattr(lane_blocks, "cache_root", lambda: tmp_path)
    path = Path(lane_blocks._file("tests.dynamics.nothing", "x = 1\n"))
    path.write_bytes(damaged)
    assert lane_blocks._file("tests.dynamics.nothing", "x = 1\n") == str(path)
    assert path.read_text(encoding="utf-8") == "x = 1\n"


# ------------------------------------------------------------------------------------------------ a new residual
@kernel
def _height(m, i, data, x, body, dof, r):
    align_stack(body)
    place_bodies(m, x, body, dof)
    _, p = frame_pose(i, data, body)
    store(r, 0, p[2] - data[FRAME])


@kernel
def _height_jacobian(m, i, data, body, dof, J):
    align_stack(body)
    _, p = frame_pose(i, data, body)
    J[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        s = load6(dof, k * DOF + COLUMN)
        store(J, k, add_cross((s[3], s[4], s[5]), (s[0], s[1], s[2]), p)[2])
        k = m.dof_parent[k]


@kernel
def _height_hessian(m, i, data, mu, body, dof, columns, H):
    """The third row of a position's, (0, 0, mu) in place of its multiplier."""
    align_stack(H)
    _, p = frame_pose(i, data, body)
    H[:], columns[:] = 0.0, 0.0
    n, k = m.dof_body.size, last_dof(m, i)
    while k >= 0:
        s = load6(dof, k * DOF + COLUMN)
        for row, e in enumerate(add_cross((s[3], s[4], s[5]), (s[0], s[1], s[2]), p)):
            store(columns, row * n + k, e)
        k = m.dof_parent[k]
    k, zero = last_dof(m, i), splat(H, 0.0)
    while k >= 0:
        position_curvature(m, k, (zero, zero, load(mu, 0)), columns, dof, H)
        k = m.dof_parent[k]


class FrameHeight(KernelResidual):
    """Height of a frame's origin less a target, m."""

    nr = 1
    kernels = residual_kernels(
        _height, _height_jacobian, _height_hessian, 1, nv, {"body": nb * BODY, "dof": nv * DOF, "columns": 3 * nv}
    )

    def __init__(self, model, frame, target):
        body, placement = frame_numbers(model, frame)
        super().__init__(model, f"height of {frame}")
        self._finish(path_dofs(model, body), i=body, data=np.r_[placement, target])


def test_a_new_residual(rng):
    """Is the third number of a position in all that a residual gives."""
    model = random_tree(["free flyer", "spherical", "revolute", "planar"], [-1, 0, 1, 2], rng)
    frame = model.frame_names[-1]
    height, position = FrameHeight(model, frame, 0.3), FrameTranslation(model, frame, [0.0, 0.0, 0.3])
    K = LANES + 2
    q = np.array([dynamics.random_configuration(model, rng) for _ in range(K)])
    xs, us = np.hstack([q, rng.standard_normal((K, model.nv))]), np.zeros((K - 1, 1))
    (r, rx, _), (R, Rx, _) = height.evaluate_with_jacobians(xs), position.evaluate_with_jacobians(xs)
    assert relative_error(r[:, 0], R[:, 2]) <= IDENTITY and relative_error(rx[:, 0], Rx[:, 2]) <= IDENTITY
    mu = rng.standard_normal((K, 1)) * [0.0, 0.0, 1.0]
    H, expected = height.hessian_products(xs, None, mu[:, 2:])[0], position.hessian_products(xs, None, mu)[0]
    assert relative_error(H, expected) <= IDENTITY
    n = 2 * model.nv
    results = []
    for residual, weights in ((height, [[2.0]]), (position, [[0.0, 0.0, 2.0]])):
        blocks = [np.zeros(shape) for shape in ((K, n), (K - 1, 1), (K, n, n), (K - 1, 1, n), (K - 1, 1, 1))]
        total = residual.add_expansion(KnotSum((0, K), xs, us, ResidualWeights(np.array(weights)), blocks, blocks))
        results.append((np.array(total), blocks[0], blocks[2]))
    for a, b in zip(*results, strict=True):
        assert relative_error(a, b) <= IDENTITY
    with pytest.raises(TypeError, match="data: got i, expected i, data"):
        height._finish(path_dofs(model, 0), i=0)
