"""Tutorials are scripts in the percent format: cells begin with `# %%`, those of text are comments."""

import json
import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "tutorials"
HEAD = re.compile(r"^# %%( \[markdown\])?(?: tags=(\[.*\]))?$", re.M)


class Cell(NamedTuple):
    """kind: "markdown" or "code"."""

    kind: str
    source: str
    tags: tuple[str, ...] = ()


def scripts() -> list[Path]:
    """All tutorials, in their order."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.py"))


def executed(script: Path) -> Path:
    """The notebook that keeps what a tutorial shows."""
    return FOLDER / "executed" / f"{script.stem}.ipynb"


def cells(text: str) -> list[Cell]:
    """Cells of a script.

    Raises ValueError for text before the first cell, and for a line of a text cell that is no comment.
    """
    heads = list(HEAD.finditer(text))
    if not heads or text[: heads[0].start()].strip():
        raise ValueError("a tutorial begins with '# %%' or '# %% [markdown]'")
    found = []
    for head, end in zip(heads, [*(h.start() for h in heads[1:]), len(text)], strict=True):
        source = text[head.end() : end].strip("\n")
        if head[1]:
            lines = source.split("\n")
            if not all(line == "#" or line.startswith("# ") for line in lines):
                raise ValueError(f"a text cell has a line that does not begin with '# ': {source[:60]!r}")
            source = "\n".join(line[2:] for line in lines)
        found.append(Cell("markdown" if head[1] else "code", source, tuple(json.loads(head[2] or "[]"))))
    return found
