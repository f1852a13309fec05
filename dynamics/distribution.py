"""The installed distribution of these packages: its version, and the commands that install its extras.

It is found by its content and its folder, not by a package's name: other projects own these names on the package
index.
"""

import json
import re
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

PACKAGES = frozenset({"trajopt", "dynamics", "problems"})
ROOT = Path(__file__).resolve().parents[1]
"""Folder with the packages side by side: site-packages, or the folder of a checkout."""


def _packages_of(found: Distribution) -> frozenset[str]:
    """Names in PACKAGES that a distribution declares to install."""
    return PACKAGES.intersection((found.read_text("top_level.txt") or "").split())


def _folder(found: Distribution) -> Path:
    """Folder of its packages: beside its metadata, or the target of an editable installation."""
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        return Path(unquote(urlsplit(origin["url"]).path)).resolve()
    return Path(str(found.locate_file(""))).resolve()


@cache
def distribution() -> Distribution | None:
    """The distribution of these files; None for a folder that was never installed."""
    found = (d for d in distributions() if _packages_of(d) == PACKAGES and _folder(d) == ROOT)
    return next(found, None)


def intruders() -> list[str]:
    """Name and version of other projects' distributions that install a package of the same name."""
    found = [d for d in distributions() if 0 < len(_packages_of(d)) < len(PACKAGES)]
    found += [d for name in PACKAGES for d in distributions(name=name) if d.read_text("top_level.txt") is None]
    return sorted({f"{d.metadata['Name']} {d.version}" for d in found})


@cache
def version() -> str:
    """The version; for a checkout that was never installed, the one in its pyproject.toml."""
    found = distribution()
    if found is not None:
        return found.version
    import tomllib  # takes long, and only a checkout needs it

    try:
        return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    except (OSError, KeyError, ValueError):
        return "unknown"


def how_to_install(extra: str) -> str:
    """The command that installs the packages of an extra.

    It names the packages themselves: this project is on no index, and its name there may belong to somebody else.
    """
    found = distribution()
    if found is None:
        return f"pip install '{ROOT}[{extra}]'"
    condition = re.compile(rf"""\s*;\s*extra\s*==\s*["']{re.escape(extra)}["']\s*$""")
    needed = [condition.sub("", text) for text in found.requires or () if condition.search(text)]
    return "pip install " + " ".join(f"'{text}'" for text in needed)
