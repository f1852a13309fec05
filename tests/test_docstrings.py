"""What the docstrings of public objects cite can be had: classes by name from a public package, the rest by any way."""

import builtins
import inspect
import keyword
import pkgutil
import re
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec

import pytest

import dynamics
import problems
import trajopt
from dynamics import rods

PACKAGES = (trajopt, dynamics, rods, problems)
CITED = re.compile(r"(?<!`)(`{1,2})([A-Za-z_][\w.]*)(?:\([^`]*\))?\1(?!`)")
CLASS_NAME = re.compile(r"(?<![\w.`])(?:[A-Z][a-z]+){2,}\b")
FRAMEWORKS = {"trajopt.jax": "jax", "trajopt.torch": "torch"}
"""Modules that need a library which may not be there."""
FOREIGN = {"LinAlgError", "MuJoCo"}
"""Names of others, cited without their module."""


def public(package):
    """Name -> object."""
    names = getattr(package, "__all__", None)
    if names is None:
        names = [name for name, value in vars(package).items() if inspect.isfunction(value) and name[0] != "_"]
    return {name: getattr(package, name) for name in names}


def ours(cls):
    return [base for base in cls.__mro__ if base.__module__.partition(".")[0] in ("trajopt", "dynamics", "problems")]


def members(cls):
    """Name -> method or property of a public class, its own or inherited from a class of the project."""
    found = {}
    for base in reversed(ours(cls)):
        found |= {name: getattr(value, "__func__", value) for name, value in vars(base).items() if name[0] != "_"}
    kinds = property, cached_property
    return {name: value for name, value in found.items() if inspect.isfunction(value) or isinstance(value, kinds)}


def documented():
    """(where, docstring, class or None) of every public object and its methods."""
    for package in PACKAGES:
        yield package.__name__, package.__doc__, None
        for name, value in public(package).items():
            cls = value if inspect.isclass(value) else None
            yield f"{package.__name__}.{name}", inspect.getdoc(value), cls
            for member, function in members(value).items() if cls else ():
                yield f"{package.__name__}.{name}.{member}", inspect.getdoc(function), cls


@cache
def lower_case_names():
    """Names of public functions, members, fields, parameters, and attributes that a method of their class sets."""
    values = [value for package in PACKAGES for value in public(package).values()]
    names = {name for package in PACKAGES for name in dir(package)}
    for value in values:
        for base in ours(value) if inspect.isclass(value) else ():
            names |= {*vars(base), *inspect.get_annotations(base)}
            names |= {*re.findall(r"self\.(\w+)\b.* = ", inspect.getsource(base))}
        functions = [value, *members(value).values()] if inspect.isclass(value) else [value]
        for function in filter(callable, [*functions, getattr(value, "__init__", None)]):
            names |= {*inspect.signature(function).parameters} if inspect.isroutine(function) else set()
    return names


def can_be_imported(name):
    """A module, or what lies in one."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:split]))
        except ImportError:
            continue
        return has(found, parts[split:])
    return False


def has(value, path):
    for name in path:
        fields = {field for base in getattr(value, "__mro__", ()) for field in inspect.get_annotations(base)}
        if not hasattr(value, name) and name not in fields:
            return False
        value = getattr(value, name, None)
    return True


def resolves(name, cls):
    head, *path = name.split(".")
    if head[0].isupper() or head[0] == "_":
        homes = [value for package in PACKAGES for key, value in public(package).items() if key == head]
        homes += [base for base in ours(cls) if base.__name__ == head] if cls else []
        return hasattr(builtins, head) or any(has(home, path) for home in homes)
    known = lower_case_names()
    return keyword.iskeyword(head) or hasattr(builtins, head) or (path or [head])[-1] in known or can_be_imported(name)


def test_what_docstrings_cite_can_be_had():
    missing = []
    for where, text, cls in documented():
        cited = {match[2] for match in CITED.finditer(text or "")}
        cited |= {*CLASS_NAME.findall(text or "")} - FOREIGN
        missing += [f"{where}: {name}" for name in sorted(cited) if not resolves(name, cls)]
    assert missing == []


def in_modules():
    """(where, docstring) of the modules, and of the functions, classes and members that they define without a leading
    underscore; those of symbols are called as numpy's functions."""
    for package in (trajopt, dynamics, problems):
        for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if name.endswith("__main__") or name.startswith(("dynamics.simd.", "dynamics.tape.symbol")):
                continue
            if find_spec(FRAMEWORKS.get(name, "numpy")) is None:
                continue
            module = import_module(name)
            yield name, module.__doc__
            for key, value in vars(module).items():
                if key[0] == "_" or getattr(value, "__module__", None) != name:
                    continue
                if inspect.isclass(value):
                    yield from ((f"{name}.{key}.{each}", inspect.getdoc(x)) for each, x in members(value).items())
                if inspect.isclass(value) or inspect.isfunction(value):
                    yield f"{name}.{key}", inspect.getdoc(value)


def test_everything_public_has_a_docstring():
    found = [(where, text) for where, text, _ in documented()] + list(in_modules())
    assert len(found) > 3000  # most have been found
    assert not sorted({where for where, text in found if not (text or "").strip()})


@pytest.mark.parametrize(
    "name, found",
    [
        ("Problem", True), ("Problm", False), ("Problem.horizon", True), ("Problem.horizn", False),
        ("trajopt.animate", True), ("trajopt.animat", False), ("functools.partial", True), ("load_urdf", True),
        ("solution.shifted", True), ("load_udf", False), ("_stage", False),
    ],
)  # fmt: skip
def test_citations_are_told_apart(name, found):
    assert resolves(name, None) is found


def test_what_public_functions_return_is_public():
    """Named tuples of results are there for annotations and isinstance."""
    for package in (dynamics, rods):
        names = public(package)
        for name, function in names.items():
            result = inspect.isfunction(function) and inspect.signature(function).return_annotation
            if inspect.isclass(result) and ours(result):
                assert names.get(result.__name__) is result, name
