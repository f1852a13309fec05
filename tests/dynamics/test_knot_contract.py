"""What every function promises that computes knot by knot: no knot depends on its company, on threads, or on how arrays
lie in memory; arguments are left alone; what is wrong is named."""

from itertools import product

import numpy as np
import pytest

import dynamics
from dynamics.simd import LANES, threads
from tests.reference.knot_functions import FUNCTIONS, Knots
from tests.reference.knot_methods import METHODS

K = 3 * LANES + 3


@pytest.fixture(scope="module", params=[*FUNCTIONS, *METHODS])
def knots(request) -> Knots:
    return request.param(K, np.random.default_rng(2026))


@pytest.fixture(scope="module")
def together(knots) -> list[np.ndarray]:
    return called(knots, knots.given)


def flat(result) -> list[np.ndarray]:
    """The arrays of a result, in whatever tuples and mappings they come."""
    if isinstance(result, tuple):
        return [array for part in result for array in flat(part)]
    return [] if result is None else [result]


def called(knots, given) -> list[np.ndarray]:
    return flat(knots.call(**given))


def chosen(given, rows) -> dict[str, np.ndarray]:
    return {name: x[rows] for name, x in given.items()}


def assert_same(found, expected) -> None:
    for x, y in zip(found, expected, strict=True):
        assert np.shape(x) == np.shape(y) and np.array_equal(x, y)


# ------------------------------------------------------------------------------------------------ knots
def test_every_knot_is_as_if_alone(knots, together):
    """Whether one point or a batch of one, and at the start of a batch of any length, also of none."""
    for k in range(0, K, 3):  # in all lanes
        assert_same(called(knots, chosen(knots.given, slice(k, k + 1))), [x[k : k + 1] for x in together])
        if set(knots.points) == set(knots.given):
            assert_same(called(knots, chosen(knots.given, k)), [x[k] for x in together])
    for count in (0, LANES - 1, LANES, LANES + 1)[not knots.none :]:
        assert_same(called(knots, chosen(knots.given, slice(count))), [x[:count] for x in together])


def test_one_point_stands_for_a_batch(knots):
    """Or a batch of one, beside batches; and one batch beside points."""
    if not knots.points or len(knots.given) == 1:
        pytest.skip("nothing beside batches")
    for name in knots.points:
        x = knots.given[name]
        expected = called(knots, knots.given | {name: np.broadcast_to(x[2], x.shape)})
        for point in (x[2], x[2:3])[: 1 + (x.ndim == 2)]:
            assert_same(called(knots, knots.given | {name: point}), expected)
        if name not in knots.follow and set(knots.points) == set(knots.given):
            found = called(knots, chosen(knots.given, 2) | {name: x})
            tiled = {other: np.broadcast_to(y[2], y.shape) for other, y in knots.given.items()}
            assert_same(found, called(knots, tiled | {name: x}))


# ------------------------------------------------------------------------------------------------ threads
@pytest.fixture
def teams(monkeypatch):
    """Sizes of the teams that did the work; the smallest call may be split, and the number of threads is restored."""
    before, sizes = dynamics.num_threads(), []

    def scratch(numbers, count=1):
        sizes.append(count)
        return original(numbers, count)

    original = threads.scratch
    monkeypatch.setattr(threads, "scratch", scratch)
    monkeypatch.setattr(threads, "MINIMUM_WORK", 1)
    yield sizes
    dynamics.set_num_threads(before)


def test_same_bits_for_any_number_of_threads(knots, together, teams):
    """Whatever earlier calls have left in the workspaces."""
    for count in (1, 2, 3):
        for block in threads._state.blocks.values():
            block.fill(np.nan)
        teams.clear()
        dynamics.set_num_threads(count)
        assert_same(called(knots, knots.given), together)
        assert max(teams, default=count) == (count if knots.split else 1), "the work was split"


# ------------------------------------------------------------------------------------------------ arrays
LAYOUTS = {
    "Fortran's order": np.asfortranarray,
    "part of another": lambda x: np.pad(x, 2, constant_values=np.nan)[(slice(2, -2),) * x.ndim],
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "lists": np.ndarray.tolist,
}


def test_arrays_of_any_layout(knots, together):
    for change in LAYOUTS.values():
        assert_same(called(knots, {name: change(x) for name, x in knots.given.items()}), together)


STATES = ("q", "q0", "q1", "x", "x0", "x1", "xs", "x_ref")


def test_whole_numbers(knots):
    """Those that are no configurations or states may be integers."""
    rounded = {name: np.rint(x) for name, x in knots.given.items() if name not in STATES}
    integers = {name: x.astype(int) for name, x in rounded.items()}
    assert_same(called(knots, knots.given | integers), called(knots, knots.given | rounded))


def test_arguments_are_left_alone(knots, together):
    """Results are arrays of their own, every time."""
    given = {name: x.copy() for name, x in knots.given.items()}
    found = called(knots, given)
    assert_same(found, together)
    assert_same(given.values(), knots.given.values())
    for x in found:
        assert not any(np.shares_memory(x, y) for y in (*given.values(), *(y for y in together if y.flags.writeable)))


def compiled_again(rows) -> list:
    """A few rows: arrays that are read-only are another type to the compiler."""
    some = [f"parameter_derivatives-hyq-{mode}" for mode in ("inverse", "forward", "hybrid")]
    return [row for row in rows if row.id in ("inverse_dynamics-hyq", *some) or row.id.startswith("residual-")]


@pytest.mark.parametrize("make", compiled_again([*FUNCTIONS, *METHODS]))
def test_arrays_may_be_read_only(make, rng):
    knots = make(3, rng)
    expected = called(knots, knots.given)
    for x in knots.given.values():
        x.flags.writeable = False
    assert_same(called(knots, knots.given), expected)


# ------------------------------------------------------------------------------------------------ what is wrong
def assert_refused(knots, changes, *words) -> None:
    """A ValueError that says these words, in this order."""
    with pytest.raises(ValueError) as caught:
        knots.call(**{**chosen(knots.given, slice(3)), **changes})
    message, at = str(caught.value), 0
    for word in words:
        at = message.find(word, at) + 1
        assert at, (word, message)


def test_wrong_shapes(knots):
    """Are named with what came, and what was expected."""
    for name, x in chosen(knots.given, slice(3)).items():
        if x.ndim == 1:
            continue
        for bad in (x[..., 1:], np.concatenate([x, x[..., :1]], axis=-1), x[None]):
            assert_refused(knots, {name: bad}, name, str(bad.shape), "expected", str(x.shape[-1]))
        if not knots.points:
            assert_refused(knots, {name: x[0]}, name, str(x.shape[1:]), "expected")


def test_different_numbers_of_knots(knots):
    if len(knots.given) == 1:
        pytest.skip("one argument")
    for name, x in chosen(knots.given, slice(3)).items():
        for number in "35":
            assert_refused(knots, {name: np.concatenate([x, x[:2]])}, number)


def test_what_is_no_number(knots):
    for name, x in chosen(knots.given, slice(3)).items():
        for bad in (x + 1j, x > 0.0, x.astype(str)):
            assert_refused(knots, {name: bad}, name, "expected an array of real numbers")


def test_what_is_not_finite(knots, together):
    """It is refused by its place; or spoils its own knot, and no other, without a word."""
    if knots.finite is None:
        pytest.skip("nothing is said")
    others = np.arange(K) != 4
    for (name, x), bad in product(knots.given.items(), (np.nan, np.inf, -np.inf)):
        broken = x.copy()
        if knots.finite:
            column = knots.seen.get(name, 0)
            broken[(1, *np.zeros(x.ndim - 2, int), column)] = bad
            at = f"{name}[1, {column}" if x.ndim == 2 else f"{name}[1, 0"
            assert_refused(knots, {name: broken[:3]}, at, f"got {bad}", "expected finite numbers")
            continue
        broken[4] = bad
        found = called(knots, knots.given | {name: broken})
        assert_same([y[others] for y in found], [y[others] for y in together])
        if knots.spoilt and name == "xs":
            assert not np.isfinite(found[0][4]).any()
            assert not any(np.isfinite(y[4]).all() for y in (found[1], found[-1]))


def of_quaternions(rows) -> list:
    """The rows of functions that look at configurations, for robots that have quaternions."""
    return [row for row in rows if "hyq" in row.id or "joint_zoo" in row.id]


@pytest.mark.parametrize("make", of_quaternions(FUNCTIONS))
def test_quaternions(make, rng):
    """Of another length are refused, with the row where they are."""
    knots = make(3, rng)
    for name in knots.given.keys() & {"q", "q0", "q1"}:
        for scale in (0.0, 0.9, 1.1):
            q = knots.given[name].copy()
            q[1] *= scale
            assert_refused(knots, {name: q}, f"{name}[", "in row 1 has norm", "expected a unit quaternion")
            assert_refused(knots, {name: q[1]}, f"{name}[", "has norm", "expected a unit quaternion")


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None])
def test_number_of_threads_must_be_positive(count):
    with pytest.raises(ValueError, match=r"count: got .*, expected an integer >= 1"):
        dynamics.set_num_threads(count)
