"""What readers of files have to say of them: what is not read, and what is read otherwise than it stands there."""

from __future__ import annotations

from dynamics.simd.caller import warn

MOST = 20


class Remarks:
    """Remarks about one file, each with the names of what it is about.

    Parameters
    ----------
    origin : the file, as "MJCF model 'arm'"
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._names: dict[str, dict[str, int]] = {}  # by remark, how often each name

    def add(self, remark: str, name: str) -> None:
        """Note a remark about what has this name."""
        counts = self._names.setdefault(remark, {})
        counts[name] = counts.get(name, 0) + 1

    def warn(self) -> None:
        """One warning for each remark, which names what it is about, the first MOST if there are more."""
        for remark, counts in self._names.items():
            names = [name if count == 1 else f"{name} ({count} times)" for name, count in counts.items()]
            more = f", and {len(names) - MOST} more" if len(names) > MOST else ""
            warn(f"{self._origin}: {remark}: {', '.join(names[:MOST])}{more}")
