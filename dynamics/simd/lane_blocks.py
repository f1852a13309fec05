"""Workspaces that kernels share: NamedTuples of lanes, each field declared with its size.

    class Workspace(NamedTuple):
        body: np.ndarray = lanes(nb * BODY)
        zeros: np.ndarray = lanes(nv, zero=True)

    slice_workspace, workspace_size = slicing(Workspace)

In compiled code `slice_workspace(m, work)` returns the block as slices of the scratch, and the rest of it; in Python
`workspace_size(m)` is the workspace size.  Both are generated from the sizes (`dynamics.simd.sizes`), and take the
arguments that the symbols of the sizes depend on, m first.

A field may also be another block, one of several blocks, or nothing, by the type of an argument
(`dynamics.simd.by_type`), or another name for lanes that a field before it has:

    class Step(NamedTuple):
        x: np.ndarray = lanes(nx)
        space: Workspace | ContactWorkspace = part_by_type("p.contacts", {None: Workspace, Contacts: ContactWorkspace},
                                                           contacts="p.contacts")
        a: np.ndarray = view("space.a")

Arguments of the other block have the same names in this one, unless expressions are given for them.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from textwrap import wrap
from types import ModuleType
from typing import Any, NamedTuple
from uuid import uuid4

from dynamics.simd.cache_folder import cache_root, make_folder
from dynamics.simd.sizes import Size


class Lanes(NamedTuple):
    """Size of a field per lane, and True for `zero` if it is zeroed when the block is sliced, else undefined."""

    size: Size | int
    zero: bool

    def __repr__(self) -> str:
        return f"{self.size!r}"


class Part(NamedTuple):
    """Declaration of a field that is another block: which one, by the type of the expression `case` or, if that is
    None, the only one; and expressions for those of its arguments that have other names."""

    cases: dict[type | None, type | None]
    case: str | None
    given: dict[str, str]

    def __repr__(self) -> str:
        return " or ".join(dict.fromkeys(getattr(block, "__name__", "None") for block in self.cases.values()))


def lanes(size: Size | int, zero: bool = False) -> Any:
    """Declaration of a field, in place of its default value."""
    return Lanes(size, zero)


def part(block: type, **given: str) -> Any:
    """Declaration of a field that is another block, with expressions for arguments of other names."""
    return Part({None: block}, None, given)


def part_by_type(case: str, cases: Mapping[type | None, type | None], **given: str) -> Any:
    """Declaration of a field that is one of several blocks, or None, by the type of an argument or of its field."""
    return Part(dict(cases), case, given)


def view(place: str) -> Any:
    """Declaration of a field that names lanes of a field before it, such as "space.a"."""
    return place


def lanes_of(block: type) -> dict[str, Any]:
    """Declaration of every field of a block, by name."""
    return block._field_defaults  # pyright: ignore[reportAttributeAccessIssue]


def slicing(block: type) -> tuple[Any, Callable[..., int]]:
    """Functions of a block: `slice_block(m, ..., work)` for compiled code, `workspace_size(m, ...)` for Python."""
    fields = lanes_of(block)
    parts = {name: _SlicedPart(name, x) for name, x in fields.items() if isinstance(x, Part)}
    sizes = [x.size for x in fields.values() if isinstance(x, Lanes)]
    names = dict.fromkeys([*free_names(sizes), *(name for x in parts.values() for name in x.names)])
    arguments = ", ".join(sorted(names, key=lambda name: name != "m"))
    used = [block for x in parts.values() for block in x.used]
    lines = f'"""Written by dynamics.simd.lane_blocks for {".".join(import_of(block))}."""', ""
    lines += *import_lines([block, *used], ("split", "kernel")), *(line for x in parts.values() for line in x.imports)
    lines += "", *(line for x in parts.values() for line in x.source), "", f"def workspace_size({arguments}):"
    lines += *origin_lines(sizes), *sum_lines([*map(str, sizes), *(f"{x.calls['size']})" for x in parts.values())])
    lines += "", "", "@kernel", f"def slice_block({arguments}, free):", *origin_lines(sizes)
    for name, x in fields.items():
        taken = f"{name}, free = "
        if isinstance(x, Part):
            lines += (f"    {taken}{parts[name].calls['slice']}, free)",)
        else:
            lines += (f"    {name} = {x}" if isinstance(x, str) else f"    {taken}split(free, {x.size})",)
    lines += tuple(f"    {name}[:] = 0.0" for name, x in fields.items() if isinstance(x, Lanes) and x.zero)
    lines += f"    return {block.__name__}({', '.join(fields)}), free", ""
    module = written_module(f"{'.'.join(import_of(block))}_block", "\n".join(lines))
    return module.slice_block, module.workspace_size


class _SlicedPart:
    """Source by which one block slices and counts another: for a field declared as a `Part`."""

    def __init__(self, name: str, declared: Part) -> None:
        blocks = [x for x in dict.fromkeys(declared.cases.values()) if x is not None]
        functions = {x: slicing(x) for x in blocks}
        given = {x: [declared.given.get(y, y) for y in parameters_of(size)] for x, (_, size) in functions.items()}
        arguments = _leading_names(y for x in given.values() for y in x)
        self.name, self.case = name, declared.case
        self.names = [*arguments, *_leading_names([self.case or ""])]
        self.used = [] if self.case is None else [*blocks, *filter(None, declared.cases)]
        self.source: list[str] = []
        self.imports: list[str] = []
        for x, (function, _) in functions.items():
            names = (f"{plain} as {what}_{self._of(x)}" for what, plain in _FUNCTIONS.items())
            self.imports.append(f"from {function.__module__} import {', '.join(names)}")
        self.calls = {what: f"{what}_{name}({', '.join([self.case or '', *arguments])}" for what in _FUNCTIONS}
        if self.case is None:
            only = blocks[0]
            self.calls = {what: f"{what}_{self._of(only)}({', '.join(given[only])}" for what in _FUNCTIONS}
            return
        self.imports.append("from dynamics.simd.by_type import by_type")
        pairs = [(getattr(key, "__name__", None), self._of(x)) for key, x in declared.cases.items()]
        for what, free, nothing in (("slice", ", free", "None, free"), ("size", "", "0")):
            for x in dict.fromkeys(declared.cases.values()):
                call = nothing if x is None else f"{what}_{self._of(x)}({', '.join(given[x])}{free})"
                self.source += ["", *["@kernel"] * (what == "slice")]
                self.source += [f"def {what}_case_{self._of(x)}({', '.join(['case', *arguments])}{free}):"]
                self.source += [f"    return {call}", ""]
            cases = ", ".join(f"{key}: {what}_case_{x}" for key, x in pairs)
            self.source += ["", f'{what}_{name} = by_type("case", {{{cases}}})', ""]

    def _of(self, block: type | None) -> str:
        return f"{self.name}_{getattr(block, '__name__', None)}"


_FUNCTIONS = {"slice": "slice_block", "size": "workspace_size"}
"""Functions of a block by what they do."""


def _leading_names(expressions: Iterable[str]) -> list[str]:
    """Names that the expressions begin with, each once; a number has none."""
    found = (re.match(r"[A-Za-z_]\w*", text) for text in expressions)
    return list(dict.fromkeys(x[0] for x in found if x))


def _sizes(declared: Any) -> list[Size | int]:
    """Sizes of a field: of its lanes, or of the blocks that it may be."""
    if isinstance(declared, Part):
        return [size_of(block, **declared.given) for block in declared.cases.values() if block is not None]
    return [declared.size] if isinstance(declared, Lanes) else []


def size_of(block: type, **given: str) -> Size:
    """Size of a block without parts by type, for lanes that a kernel slices by itself; with expressions for arguments
    that have other names where these lanes are declared."""
    total: Any = None
    for x in lanes_of(block).values():
        for size in _sizes(x):
            total = size if total is None else total + size
    return total.given(**given)


def free_names(sizes: Iterable[Size | int]) -> list[str]:
    """Names of the arguments that the symbols in the sizes depend on."""
    return _leading_names(origin for size in sizes for origin in getattr(size, "origins", {}).values())


def import_of(function: Any) -> tuple[str, str]:
    """Module and name of a compiled or plain function, or of a class."""
    plain = getattr(function, "py_func", function)
    return plain.__module__, plain.__qualname__


def parameters_of(function: Any) -> list[str]:
    """Names of the parameters of a compiled or plain function."""
    return [*signature(getattr(function, "py_func", function)).parameters]


def import_lines(functions: Iterable[Any], simd: Iterable[str]) -> list[str]:
    """Import statements for these functions, and for names from `dynamics.simd`."""
    found = {("dynamics.simd", name) for name in simd} | {import_of(x) for x in functions}
    modules = sorted({module for module, _ in found})
    return [f"from {x} import {', '.join(sorted(name for module, name in found if module == x))}" for x in modules]


def origin_lines(sizes: Iterable[Size | int]) -> list[str]:
    """Assignments of the symbols in the sizes, as source lines."""
    origins: dict[str, str] = {}
    for size in sizes:
        origins |= getattr(size, "origins", {})
    return [f"    {name} = {origin}" for name, origin in origins.items() if name != origin]


def sum_lines(terms: Sequence[str]) -> list[str]:
    """Return statement of a sum, as source lines."""
    return ["    return (", *wrap(" + ".join(terms), 110, initial_indent=8 * " ", subsequent_indent=8 * " "), "    )"]


# --------------------------------------------------------------------------------------------
# Generated source: kept as files beside the kernels compiled from it, so that it can be read and appears in
# tracebacks, and compiled by the decorators of `dynamics.simd.compilation` like any other source.


def written_module(name: str, text: str) -> ModuleType:
    """The module of this name and source.

    numba caches compiled functions by the name of the module, and imports the module by it.  Raises ValueError if
    another source has the name."""
    known = sys.modules.get(name)
    if known is not None:
        if known.__dict__.get("_text") != text:
            raise ValueError(f"{name}: got a second source of this name")
        return known
    module = ModuleType(name)
    path = _file(name, text)
    module.__file__, module.__dict__["_text"] = path, text
    code = compile(text, path, "exec")
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _file(name: str, text: str) -> str:
    """Path of the source: a file, if there is a cache folder, else a name under which tracebacks find it."""
    root = cache_root()
    if root is not None:
        folder = root / "written" / hashlib.sha256(text.encode()).hexdigest()[:16]
        path = folder / f"{name.rpartition('.')[2]}.py"
        with suppress(OSError):
            if not path.is_file() or path.read_bytes() != text.encode():
                _write(path, text)
            return str(path)
    place = f"<written {name}>"
    linecache.cache[place] = len(text), None, text.splitlines(keepends=True), place
    return place


def _write(path: Path, text: str) -> None:
    """Write the file atomically, for processes that read it at the same time."""
    make_folder(path.parent)
    new = path.with_name(f"{path.name}.{uuid4().hex}")
    new.write_bytes(text.encode())
    os.replace(new, path)
