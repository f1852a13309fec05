"""Reading SRDF files: which links need not be looked at together."""

from __future__ import annotations

from pathlib import Path

from dynamics.formats.xml import attribute_of, parse


def disabled_pairs(path_or_text: str | Path, argument: str = "path_or_text") -> dict[frozenset[str], str]:
    """Pairs of links of <disable_collisions link1 link2 reason>, and the reasons, "" where none is given.

    Raises ValueError for what is no such file, FileNotFoundError if there is none; `argument` is named in errors.
    """
    pairs = {}
    for element in parse(path_or_text, "SRDF", argument).findall("disable_collisions"):
        links = [attribute_of(element, key, f"{argument}: <disable_collisions>") for key in ("link1", "link2")]
        pairs[frozenset(links)] = element.get("reason", "")
    return pairs
