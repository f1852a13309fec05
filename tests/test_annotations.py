"""Public functions and methods are annotated, and `help` prints their signatures about as they are written."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import dynamics
import dynamics.simd
import problems
import trajopt

ROOT = Path(dynamics.__file__).resolve().parents[1]
PACKAGES = (trajopt, dynamics, problems)
FRAMEWORKS = {"trajopt.jax": "jax", "trajopt.torch": "torch"}
"""Modules that can be imported only beside these."""
SPECIAL = ("__init__", "__call__", "__getitem__", "__setattr__", "__reduce__")
LONGEST_ANNOTATION, LONGEST, PER_PARAMETER = 80, 400, 45
"""Characters of an annotation, and of a signature, which may have more of them if it has many parameters."""


def of_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] in [package.__name__ for package in PACKAGES]


def public_names() -> Iterator[tuple[str, Any]]:
    """Functions, classes and kernels under their full names; of the code generator `dynamics.simd` what it exports:
    the rest is called by numba."""
    found = [module for p in PACKAGES for _, module, _ in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]
    generator = [name for name in found if name.startswith("dynamics.simd.")]
    absent = [name for name, needed in FRAMEWORKS.items() if find_spec(needed) is None]
    left_out = {*generator, *absent}
    others = [importlib.import_module(name) for name in found if name not in left_out and "__main__" not in name]
    for module in (*PACKAGES, *others):
        for name, thing in vars(module).items():
            home = getattr(thing, "__module__", None)
            if not name.startswith("_") and home in (generator if module is dynamics.simd else [module.__name__]):
                yield f"{home}.{name}", thing


def written(thing: Any) -> Any:
    """The function behind a property, a method or a cache; None for kernels and for what Python generates."""
    for attribute in ("fget", "func", "__func__"):  # of properties, cached ones, class and static methods
        thing = getattr(thing, attribute, thing)
    if not isinstance(thing, (FunctionType, functools._lru_cache_wrapper)):
        return None
    return thing if ROOT in Path(inspect.unwrap(thing).__code__.co_filename).parents else None


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods of a class and of those of its bases that are ours, be they public or not."""
    for base in filter(of_ours, kind.__mro__):
        for name, member in vars(base).items():
            if not name.startswith("_") or name in SPECIAL:
                yield f"{base.__module__}.{base.__qualname__}.{name}", member


@pytest.fixture(scope="module")
def functions() -> dict[str, inspect.Signature]:
    """Of public functions and methods."""
    found = {}
    for name, thing in public_names():
        for at, function in members(thing) if isinstance(thing, type) else [(name, thing)]:
            if (function := written(function)) is not None:
                found[at] = inspect.signature(function)
    return found


@pytest.fixture(scope="module")
def constructors() -> dict[str, inspect.Signature]:
    """Of public classes, as `help` shows them; warnings have none."""
    kinds = {
        name: thing for name, thing in public_names() if isinstance(thing, type) and not issubclass(thing, Warning)
    }
    return {name: inspect.signature(kind) for name, kind in kinds.items()}


def annotations(signature: inspect.Signature) -> dict[str, Any]:
    given = {p.name: p.annotation for p in signature.parameters.values() if p.name not in ("self", "cls")}
    return {**given, "return": signature.return_annotation}


def test_everything_public_is_annotated(functions):
    assert len(functions) > 900  # most of them have been found
    assert not [
        f"{name}: {what}"
        for name, signature in functions.items()
        for what, annotation in annotations(signature).items()
        if annotation is inspect.Parameter.empty
    ]


def test_signatures_are_short(functions, constructors):
    """numpy's ArrayLike is a union, which Python writes out where a module does not leave annotations as they are."""
    signatures = {**functions, **constructors}
    printed = {name: str(signature) for name, signature in signatures.items()}
    assert not [name for name, text in printed.items() if "_typing" in text or "Union[" in text]
    assert not [
        f"{name}: {what}"
        for name, signature in signatures.items()
        for what, annotation in annotations(signature).items()
        if len(inspect.formatannotation(annotation)) > LONGEST_ANNOTATION
    ]
    most = {name: max(LONGEST, PER_PARAMETER * len(signature.parameters)) for name, signature in signatures.items()}
    assert not [name for name, text in printed.items() if len(text) > most[name]]
