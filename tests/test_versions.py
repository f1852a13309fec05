"""The versions that pyproject.toml allows are those that were tested."""

import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement

import dynamics
import problems
import trajopt
from tests.lowest import pins

ROOT = Path(__file__).parents[1]


def dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {found.name: found.specifier for found in map(Requirement, project["dependencies"])}


def test_what_is_installed_is_allowed():
    """And can be imported, as can what is built on it."""
    for name, specifier in dependencies().items():
        assert version(name) in specifier, name
        import_module(name)
    for package in (dynamics, problems, trajopt):
        assert all(hasattr(package, name) for name in dir(package))


def test_numba_has_an_upper_bound_and_the_lowest_versions_are_those_of_make_test_lowest():
    allowed = dependencies()
    assert "<" in {bound.operator for bound in allowed["numba"]}
    lowest = {name: next(bound.version for bound in s if bound.operator == ">=") for name, s in allowed.items()}
    assert pins() == [f"{name}=={version}" for name, version in lowest.items()]
    assert "tests/lowest.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
