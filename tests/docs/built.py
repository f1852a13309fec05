"""Built pages, as a browser would find them: links, anchors, what they load, and their text."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "link": "href", "source": "src", "video": "src", "iframe": "src"}
"""Attributes whose files a page loads."""
SILENT = ("script", "style", "nav", "header", "footer", "aside")
"""Elements whose text is no part of what a page says."""


class Page(HTMLParser):
    """A page: `links` and `loaded` (element, address), `anchors`, and the `text` of its article."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors, self.words, self.silent = [], [], set(), [], []
        self.inside = 0
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in LOADS and found.get(LOADS[tag]) and found.get("rel") not in ("canonical", "license"):
            self.loaded.append((tag, found[LOADS[tag]]))
        if tag == "article":
            self.inside += 1
        if tag in SILENT:
            self.silent.append(tag)

    def handle_endtag(self, tag):
        if tag == "article":
            self.inside -= 1
        if self.silent and tag == self.silent[-1]:
            self.silent.pop()

    def handle_data(self, data):
        if self.inside and not self.silent:
            self.words.append(data)


@cache
def page(path):
    return Page(path)


def pages(site):
    """All pages but those that the search and the index of names fill in a browser."""
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts)


def foreign(address):
    """Whether an address leads out of the site."""
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc)


def target(path, address):
    """The file and the anchor that an address on a page leads to."""
    parts = urlsplit(address)
    file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    return file, unquote(parts.fragment)


def neighbours(path):
    """Pages one click away from a page's article, without what surrounds every page."""
    return {target(path, link)[0] for link in page(path).links if not foreign(link)}


def as_path(site, name):
    return Path(site, name).resolve()
