"""Every driver that tests launch is called by its address too, on copies of its arguments: the same bits come out.
Prepared functions of a system are made by their calls' addresses, and compared with what is not prepared."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba._dispatcher import compute_fingerprint

from dynamics.simd import scratch_guard, threads
from dynamics.simd.dispatchers import KeepingDispatcher
from dynamics.simd.prepared_calls import PreparedCall, calls_of, checks_of, enter
from dynamics.simd.vector import aligned_empty
from trajopt.backward.expansions import write_derivatives
from trajopt.interfaces.stepwise import METHODS, prepare, prepared_difference

MOST_CALLS = 3
"""Compared calls of a driver, of each combination of argument types: each costs as much as the call."""

compared: Counter = Counter()


def copied(value: Any, known: dict[tuple, np.ndarray]) -> Any:
    """Copies of all arrays in tuples of tuples, as writable as these; of an array that stands twice the same copy."""
    if isinstance(value, tuple):
        parts = [copied(x, known) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not isinstance(value, np.ndarray):
        return value
    place = value.ctypes.data, value.shape, value.dtype
    if value.size and place in known:
        return known[place]
    copy = known[place] = aligned_empty(*value.shape) if value.dtype == float else np.empty_like(value)
    copy[...] = value
    copy.flags.writeable = value.flags.writeable
    return copy


def kinds_of(args: tuple) -> Any:
    """What the types of arguments depend on, as numba finds it in C: all launches of all tests ask for it."""
    try:
        return compute_fingerprint(args)
    except NotImplementedError:  # a function among them, or text
        return tuple(map(type, args))


def bits(value: Any) -> Any:
    """Bytes of all arrays and numbers in tuples of tuples."""
    if isinstance(value, tuple):
        return tuple(bits(x) for x in value)
    return None if value is None else np.asarray(value).tobytes()


@contextmanager
def called_twice() -> Iterator[None]:
    """Within this context launches of compiled drivers are compared with prepared calls."""
    share_out = threads._share_out

    def twice(drive: Any, bounds: Sequence[tuple[int, int]], work: np.ndarray, args: tuple) -> Any:
        kinds = None
        if isinstance(drive, KeepingDispatcher) and len(bounds) == 1:
            kinds = drive, kinds_of(args)
            compared[kinds] += 1
        if kinds is None or compared[kinds] > MOST_CALLS:
            return share_out(drive, bounds, work, args)
        copies, (_, size, lanes) = copied(args, {}), work.shape
        rows = aligned_empty(size + scratch_guard.ROWS, lanes)  # for drivers, too, that write beyond their scratch
        rows[:size] = work[0]
        result = share_out(drive, bounds, work, args)
        again = PreparedCall(drive, *bounds[0], rows[:size], *copies)()
        assert type(again) is type(result), drive
        assert bits((again, copies)) == bits((result, args)), f"{scratch_guard.name_of(drive)}: other bits by address"
        return result

    threads._share_out = twice
    try:
        yield
    finally:
        threads._share_out = share_out


def replay(function: Callable[[], Any]) -> bool:
    """Make the calls of a prepared function by their addresses, without the function; returns what its checks say."""
    count = threads.num_threads()
    threads.set_num_threads(1)
    try:
        calls = calls_of(function)
        assert calls is not None
        for call in calls:
            call.check(enter(call.address))
    finally:
        threads.set_num_threads(count)
    return all([check() for check in checks_of(function)])


class PreparedSystem:
    """Prepared functions of a system along a trajectory, and arrays that they read and write.

    Parameters
    ----------
    system : System
    xs, us : (N+1, nx) and (N, nu) arrays
    rng : numpy Generator
    size : how large gains, gaps and changes of controls are
    methods : those of `trajopt.interfaces.stepwise.METHODS` that the system has
    """

    def __init__(
        self,
        system: Any,
        xs: np.ndarray,
        us: np.ndarray,
        rng: np.random.Generator,
        size: float,
        methods: Sequence[str] = tuple(METHODS),
    ) -> None:
        self.system, self._rng, self._size = system, rng, size
        N, n, m = len(us), system.ndx, system.nu
        self.xs, self.us, self.x0, self.lam = xs.copy(), us.copy(), xs[0].copy(), rng.standard_normal((N, n))
        self.policy = [size * rng.standard_normal(shape) for shape in ((N, m), (N, m, n))]
        self.alphas, self.gaps = np.append(0.5 ** np.arange(7), -0.5), 0.1 * size * rng.standard_normal((N + 1, n))
        self.limits = us - size * rng.random(us.shape), us + size * rng.random(us.shape)
        shapes = (N, n, n), (N, n, m), (N, n, n), (N, m, n), (N, m, m)
        self.first, self.both = ([np.zeros(shape) for shape in kind] for kind in (shapes[:2], shapes))
        self.following, self.dx, self.starts = np.zeros((N, system.nx)), np.zeros((N, n)), self.xs[1:]
        given = self.x0, self.xs, self.us, *self.policy, self.alphas
        self.loops = [given, (*given, self.gaps, *self.limits)] if "prepared_rollouts" in methods else []
        self.rolls: list[Any] = [prepare(system, "prepared_rollouts", *loop) for loop in self.loops]
        self.functions: list[Any] = [
            *self.rolls,
            prepare(system, "prepared_steps", self.xs[:-1], self.us, self.following),
            prepared_difference(system, self.starts, self.following, self.dx),
            prepare(system, "prepared_expansion", self.xs, self.us, *self.first),
            prepare(system, "prepared_expansion", self.xs, self.us, *self.both[:2], self.lam, *self.both[2:]),
        ]

    def move(self) -> None:
        """Change all arrays that are read."""
        for array in (self.us, self.lam, self.gaps, *self.policy):
            array += 0.1 * self._size * self._rng.standard_normal(array.shape)
        for x in (*self.xs, self.x0):
            x[...] = self.system.integrate(x, 0.1 * self._size * self._rng.standard_normal(self.system.ndx))

    def plain(self) -> list[np.ndarray]:
        """Results of the methods that are not prepared."""
        system, both = self.system, [np.full(block.shape, np.nan) for block in self.both]
        write_derivatives(system, self.xs, self.us, *both[:2], self.lam, *both[2:])
        following = system.step(self.xs[:-1], self.us)
        return [
            *[array for loop in self.loops for array in system.closed_loop_rollout(*loop)],
            following,
            system.difference(self.starts, following),
            *system.linearize(self.xs, self.us),
            *both,
        ]

    def check(self) -> None:
        """Assert that prepared functions find what plain methods do, and that their calls do without them."""
        views = [view for roll in self.rolls for view in roll()]
        for function in self.functions[len(self.rolls) :]:
            function()
        self._assert_same(views)
        self.move()
        for block in (*self.first, *self.both):
            block.fill(np.nan)
        assert all(map(replay, self.functions))
        self._assert_same(views)

    def _assert_same(self, views: list[np.ndarray]) -> None:
        found = *views, self.following, self.dx, *self.first, *self.both
        for i, (got, wanted) in enumerate(zip(found, self.plain(), strict=True)):
            assert np.isfinite(wanted).all() and np.array_equal(got, wanted), i
