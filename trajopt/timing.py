"""Wall-clock split of a solve."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

PARTS = ("derivatives", "backward_pass", "rollouts")


class Stopwatch:
    """Seconds since it was made, and how many of them were spent in each part."""

    def __init__(self):
        self._start = time.perf_counter()
        self._seconds = dict.fromkeys(PARTS, 0.0)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Count the time inside the with-block towards this part."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[part] += time.perf_counter() - begin

    def split(self) -> dict[str, float]:
        """total, derivatives, backward_pass, rollouts, other; seconds, and the last four add up to the first."""
        total = self.elapsed
        return {"total": total, **self._seconds, "other": total - sum(self._seconds.values())}
