"""What compiles for which kind of problem: functions and the types of their arguments, as data of the package.

Robots, horizons and users' functions are data of compiled functions, so that problems of one kind need the same ones.
`manifest.json`, which `python -m experiments.manifest` writes, has for each function with the types of its arguments

    module, name, types        names in the project, and numba's types as nested lists
    seconds                    processor time of its compilation, without that of other functions of the list
    needs                      lists of features: those who have all features of one of these lists need it

in an order in which each one comes after those that it calls.  Features of a problem are the classes of the project
that its parts are of, the names of its integrators (`features_of`), and what is done with it: solvers, and `STAGES`.
"""

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import chain, permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types

from dynamics.compilation import SOLVERS, STAGES
from dynamics.model.kernel_model import KernelModel
from dynamics.model.knot_driver import DRIVERS
from dynamics.residuals.kernel_residual import RESIDUALS
from dynamics.simd.dispatchers import KeepingDispatcher
from dynamics.simd.span import Reference, Span
from dynamics.simd.vector import COMPLEX_VEC, LANES, VEC

FILE = Path(__file__).with_name("manifest.json")
PACKAGES = "dynamics", "trajopt", "problems"
"""Packages whose functions are listed; other ones compile theirs as they are used."""
DEPTH = 6
"""How far the parts of a problem are followed to their own parts."""


# --------------------------------------------------------------------------------------------
# numba's types as nested lists of names and numbers, whatever the number of lanes and the sources are.


class UnlistedTypeError(TypeError):
    """A type of arguments that a manifest has no words for."""

    def __init__(self, kind: Any) -> None:
        super().__init__(f"{kind}: not a type that the list of functions has words for")


def encode_type(kind: types.Type) -> Any:
    """A type as nested lists; raises UnlistedTypeError for one of users, as of their functions."""
    if isinstance(kind, types.Array):
        dtype = ["record", _record_path(kind.dtype)] if isinstance(kind.dtype, types.Record) else str(kind.dtype)
        return ["array", dtype, kind.ndim, kind.layout, *([] if kind.mutable else ["readonly"])]
    if isinstance(kind, types.BaseTuple):
        parts: Any = kind
        named = [_path_of(parts.instance_class)] if isinstance(kind, types.BaseNamedTuple) else []
        return ["named" if named else "tuple", *named, *map(encode_type, parts.types)]
    if isinstance(kind, types.BooleanLiteral):
        return ["literal", kind.literal_value]
    if isinstance(kind, Span):
        return ["span", encode_type(kind.dtype), *("lanes" if size == LANES else size for size in kind.row)]
    if isinstance(kind, Reference):
        return ["reference", encode_type(kind.block)]
    if isinstance(kind, types.Integer | types.Float | types.Complex | types.Boolean | types.NoneType):
        return str(kind)
    names = {VEC: "lanes", COMPLEX_VEC: "complex lanes"}
    if kind in names:
        return names[kind]
    if isinstance(kind, KernelModel):
        return "model"
    raise UnlistedTypeError(kind)


def decode_type(text: Any) -> types.Type:
    """The type of nested lists of `encode_type`."""
    if isinstance(text, str):
        known = {"lanes": VEC, "complex lanes": COMPLEX_VEC, "bool": types.boolean}
        return KernelModel() if text == "model" else known.get(text) or getattr(types, text)
    what, *rest = text
    if what == "array":
        dtype, ndim, layout, *readonly = rest
        return types.Array(decode_type(dtype), ndim, layout, readonly=bool(readonly))
    if what == "record":
        return from_dtype(_named(rest[0]))
    if what == "named":
        return types.BaseTuple.from_types([decode_type(x) for x in rest[1:]], _named(rest[0]))
    if what == "tuple":
        return types.BaseTuple.from_types([decode_type(x) for x in rest])
    if what == "literal":
        return types.literal(rest[0])
    if what == "span":
        return Span(decode_type(rest[0]), tuple(LANES if size == "lanes" else size for size in rest[1:]))
    if what == "reference":
        return Reference(decode_type(rest[0]))
    raise ValueError(f"{FILE}: got a type {text}")


def _path_of(kind: type) -> str:
    if kind.__module__.partition(".")[0] not in PACKAGES or "<locals>" in kind.__qualname__:
        raise UnlistedTypeError(kind)
    return f"{kind.__module__}:{kind.__qualname__}"


def _record_path(kind: types.Record) -> str:
    """Where the project keeps the layout of a record, as that of a solve's state."""
    modules = {name: vars(x) for name, x in sorted(sys.modules.items()) if name.partition(".")[0] in PACKAGES}
    for module, values in modules.items():
        for name, value in values.items():
            if isinstance(value, np.dtype) and value.names and from_dtype(value) == kind:
                return f"{module}:{name}"
    raise UnlistedTypeError(kind)


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(_module(module), name)


# ------------------------------------------------------------------------------------------------ functions by name
def _declarations() -> dict[str, Any]:
    """Of modules imported so far, declarations of written modules by the names of these."""
    return {x.module_name: x for x in (*DRIVERS, *RESIDUALS)}


def declared_in() -> dict[str, str]:
    """Modules with declarations of written modules, by the names of these; imports all of `dynamics` for it."""
    package = importlib.import_module("dynamics")
    names = [found.name for found in pkgutil.walk_packages(package.__path__, "dynamics.")]
    modules = [importlib.import_module(name) for name in names if name != "dynamics.plain"]
    declared, places = {id(x): name for name, x in _declarations().items()}, {}
    for module in modules:
        classes = [vars(x).values() for x in vars(module).values() if isinstance(x, type)]
        for value in chain(vars(module).values(), *classes):
            if id(value) in declared:
                places.setdefault(declared[id(value)], module.__name__)
    return places


def _module(name: str) -> Any:
    """The module of this name, imported, or written where it is one of those (`written_module`)."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        place = manifest().written.get(name)
        if place is None:
            raise
        importlib.import_module(place)
        return _declarations()[name].module


class Entry(NamedTuple):
    """A function with the types of its arguments, as nested lists."""

    module: str
    name: str
    kinds: tuple[Any, ...]
    seconds: float
    needs: tuple[frozenset[str], ...]

    def needed(self, features: frozenset[str]) -> bool:
        """Whether a problem of these features needs it."""
        return any(needs <= features for needs in self.needs)

    @property
    def function(self) -> KeepingDispatcher:
        """The function; raises AttributeError or ImportError where there is none of this name any more."""
        module, (factory, _, name) = _module(self.module), self.name.partition(".<locals>.")
        if not name:
            return getattr(module, self.name)
        numbers = [int(x) for x in name.split("_")[1:]]  # those that the function closes over, by their names
        for order in permutations(numbers):
            made = getattr(module, factory)(*order)
            if made.py_func.__qualname__ == self.name:
                return made
        raise AttributeError(f"{self.module}: {factory} makes no {name}")

    @property
    def arguments(self) -> tuple[types.Type, ...]:
        """numba's types."""
        return tuple(map(decode_type, self.kinds))


class Manifest(NamedTuple):
    """What `manifest.json` says: functions, the features of each problem and example that was looked at, by its name,
    and the module that declares each written one (`written_module`)."""

    entries: list[Entry]
    jobs: dict[str, frozenset[str]]
    written: dict[str, str]

    def needed(self, features: Iterable[str]) -> list[Entry]:
        """Functions that a problem of these features needs."""
        return [entry for _, entry in self.numbered(features)]

    def numbered(self, features: Iterable[str]) -> list[tuple[int, Entry]]:
        """These functions with their places in the list."""
        found = frozenset(features)
        return [(i, entry) for i, entry in enumerate(self.entries) if entry.needed(found)]

    def kind_of(self, module: str, name: str) -> frozenset[str]:
        """Features that all problems have, of those that were solved for the list, that need a function, without what
        is done with them."""
        of = [entry for entry in self.entries if (entry.module, entry.name) == (module, name)]
        solved = (features for features in self.jobs.values() if features >= STAGES)
        jobs = [features for features in solved if any(entry.needed(features) for entry in of)]
        return frozenset.intersection(*jobs) - SOLVERS - STAGES if jobs else frozenset()


@cache
def manifest(file: Path = FILE) -> Manifest:
    """The package's manifest, without entries where there is no file."""
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Manifest([], {}, {})
    kinds, features = read["types"], read["features"]

    def named(at: Iterable[int]) -> frozenset[str]:
        return frozenset(features[i] for i in at)

    entries = [
        Entry(module, name, tuple(kinds[i] for i in at), seconds, tuple(map(named, needs)))
        for module, name, at, seconds, needs in read["functions"]
    ]
    jobs = {name: named(at) for name, at in read["jobs"].items()}
    return Manifest(entries, jobs, read["written"])


# ------------------------------------------------------------------------------------------------ features
def features_of(*subjects: Any) -> frozenset[str]:
    """Names of the project's classes that these objects and their parts are of, and of those that these derive from;
    with names of integrators, without what is computed only once it is asked for."""
    found, seen = set(), set()

    def parts(x: Any) -> Iterator[Any]:
        if isinstance(x, dict):
            yield from x.values()
        elif isinstance(x, list | tuple | set | frozenset):
            yield from x
        slots = (name for kind in type(x).__mro__ for name in getattr(kind, "__slots__", ()))
        yield from (getattr(x, name, None) for name in slots)
        own = getattr(x, "__dict__", {})
        if isinstance(own.get("integrator"), str):
            found.add(own["integrator"])
        lazily = {name for name in own if isinstance(getattr(type(x), name, None), cached_property)}
        yield from (value for name, value in own.items() if name not in lazily)

    def visit(x: Any, depth: int) -> None:
        if id(x) in seen:
            return
        seen.add(id(x))
        own = [kind.__name__ for kind in type(x).__mro__ if kind.__module__.partition(".")[0] in PACKAGES]
        found.update(own)
        ours = type(x).__module__.partition(".")[0] in PACKAGES
        if depth and (ours or isinstance(x, dict | list | tuple | set | frozenset)):
            for part in parts(x):
                visit(part, depth - 1)

    for subject in subjects:
        visit(subject, DEPTH)
    return frozenset(found)
