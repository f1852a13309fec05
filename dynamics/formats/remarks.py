"""Remarks of readers about files: unread parts, and parts that are read differently from the file."""

from __future__ import annotations

from dynamics.simd.caller import warn

MOST = 20


class Remarks:
    """Remarks about one file, each with the names of the parts that it concerns.

    Parameters
    ----------
    origin : the file, as "MJCF model 'arm'"
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._names: dict[str, dict[str, int]] = {}  # by remark, the count of each name

    def add(self, remark: str, name: str) -> None:
        """Record a remark about the part of this name."""
        counts = self._names.setdefault(remark, {})
        counts[name] = counts.get(name, 0) + 1

    def warn(self) -> None:
        """Issue one warning for each remark, with the names of its parts, the first MOST if there are more."""
        for remark, counts in self._names.items():
            names = [name if count == 1 else f"{name} ({count} times)" for name, count in counts.items()]
            more = f", and {len(names) - MOST} more" if len(names) > MOST else ""
            warn(f"{self._origin}: {remark}: {', '.join(names[:MOST])}{more}")
