"""HTML from text: all text is escaped except the results of these functions."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import Self

from matplotlib.figure import Figure

from trajopt.plotting.style import DPI


class Html(str):
    """Text that is markup."""

    def __new__(cls, text: str) -> Self:
        return super().__new__(cls, text)


def tag(name: str, *content: str, **attributes: str) -> Html:
    """An element; a trailing underscore of an attribute that is a Python keyword, such as `class_`, is removed, other
    underscores become hyphens."""
    named = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{named}>{joined(content)}</{name}>")


def joined(content: Iterable[str]) -> Html:
    """Markup of all, one after another."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in content))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> Html:
    """A table, wider ones in a box that scrolls; all but the first `words` columns are numbers, aligned right."""
    kinds = ["words" if k < words else "number" for k in range(len(headings))]
    head = tag("tr", *(tag("th", text, class_=kind, scope="col") for text, kind in zip(headings, kinds, strict=True)))
    body = [tag("tr", *(tag("td", x, class_=kind) for x, kind in zip(row, kinds, strict=True))) for row in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="wide", tabindex="0")


def section(name: str, title: str, *content: str) -> Html:
    """A section that links can point at."""
    return tag("section", tag("h2", title), *content, id=name)


def folded(title: str, *content: str) -> Html:
    """Content that is shown when it is opened."""
    return tag("details", tag("summary", title), *content)


def picture(figure: Figure, description: str) -> Html:
    """A figure embedded in the page, in a box that scrolls where the page is narrow."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=DPI)
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    image = Html(f'<img alt="{escape(description)}" src="data:image/png;base64,{data}">')
    return tag("div", image, class_="wide picture", tabindex="0")
