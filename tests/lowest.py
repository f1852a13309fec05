"""`python tests/lowest.py` prints the lowest versions that pyproject.toml allows; `make test-lowest` installs them."""

import re
import tomllib
from pathlib import Path


def pins() -> list[str]:
    """name==version of every dependency."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [re.sub(r">=([\w.]+).*", r"==\1", dependency) for dependency in project["dependencies"]]


if __name__ == "__main__":
    print(*pins())
