"""What `trajopt.animate` wrote: a path, which shows itself in notebooks."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from pathlib import PosixPath

FORMATS = {
    ".gif": '<img src="data:image/gif;base64,{data}" alt="{name}">',
    ".mp4": '<video src="data:video/mp4;base64,{data}" title="{name}" controls loop muted autoplay></video>',
}
"""Endings of the files, and how a page holds them in itself."""


class MovingPicture(PosixPath):
    """The path of a moving picture, as any other `pathlib.Path`; the last line of a notebook's cell, it is the picture
    itself, which then is a part of the notebook."""

    def _repr_html_(self) -> str | None:
        if self.suffix not in FORMATS or not self.is_file():
            return None  # what was made of the path, as its parent, or a picture that is gone
        return FORMATS[self.suffix].format(data=b64encode(self.read_bytes()).decode("ascii"), name=escape(self.name))
