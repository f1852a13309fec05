"""Wall-clock split of a solve."""

import time

PARTS = ("derivatives", "backward_pass", "rollouts")


class _Part:
    """Seconds spent in with-blocks, which may not be nested."""

    __slots__ = ("_begin", "seconds")

    def __init__(self):
        self.seconds = self._begin = 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        self.seconds += time.perf_counter() - self._begin


class Stopwatch:
    """Seconds since it was made, and how many of them were spent in each part; `limit`: how many there are, None for
    any."""

    def __init__(self, limit: float | None = None) -> None:
        self._start, self.limit = time.perf_counter(), limit
        self._parts = {part: _Part() for part in PARTS}

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def over(self) -> bool:
        """Whether the limit has passed."""
        return self.limit is not None and self.elapsed >= self.limit

    def measure(self, part: str) -> "_Part":
        """Count the time inside the with-block towards this part."""
        return self._parts[part]

    def split(self) -> dict[str, float]:
        """total, derivatives, backward_pass, rollouts, other; seconds, and the last four add up to the first."""
        total = self.elapsed
        seconds = {name: part.seconds for name, part in self._parts.items()}
        return {"total": total, **seconds, "other": total - sum(seconds.values())}
