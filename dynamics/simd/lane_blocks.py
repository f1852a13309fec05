"""Workspaces that kernels share: NamedTuples of lanes, each field declared with its size.

    class Workspace(NamedTuple):
        body: np.ndarray = lanes(nb * BODY)
        zeros: np.ndarray = lanes(nv, zero=True)

    slice_workspace, workspace_size = slicing(Workspace)

In compiled code `slice_workspace(m, work)` returns the block as slices of the scratch, and the rest of it; in Python
`workspace_size(m)` is the workspace size.  Both are generated from the sizes (`dynamics.simd.sizes`); where a symbol
depends on another argument than m, both take that argument too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from textwrap import wrap
from typing import Any, NamedTuple

from dynamics.simd.sizes import Size
from dynamics.simd.written import written_module


class Lanes(NamedTuple):
    """Size of a field per lane, and True for `zero` if it is zeroed when the block is sliced, else undefined."""

    size: Size | int
    zero: bool

    def __repr__(self) -> str:
        return f"{self.size}"


def lanes(size: Size | int, zero: bool = False) -> Any:
    """Declaration of a field, in place of its default value."""
    return Lanes(size, zero)


def lanes_of(block: type) -> dict[str, Lanes]:
    """Declaration of every field of a block, by name."""
    return block._field_defaults  # pyright: ignore[reportAttributeAccessIssue]


def slicing(block: type) -> tuple[Any, Callable[..., int]]:
    """Functions of a block: `slice_block(m, ..., work)` for compiled code, `workspace_size(m, ...)` for Python."""
    fields = lanes_of(block)
    sizes = [x.size for x in fields.values()]
    arguments = ", ".join(["m", *(name for name in free_names(sizes) if name != "m")])
    lines = f'"""Written by dynamics.simd.lane_blocks for {".".join(import_of(block))}."""', ""
    lines += *import_lines([block], ("split", "kernel")), "", ""
    lines += f"def workspace_size({arguments}):", *origin_lines(sizes)
    lines += *sum_lines([str(size) for size in sizes]), "", "", "@kernel", f"def slice_block({arguments}, free):"
    lines += *origin_lines(sizes), *(f"    {name}, free = split(free, {x.size})" for name, x in fields.items())
    lines += tuple(f"    {name}[:] = 0.0" for name, x in fields.items() if x.zero)
    lines += f"    return {block.__name__}({', '.join(fields)}), free", ""
    module = written_module(f"{'.'.join(import_of(block))}_block", "\n".join(lines))
    return module.slice_block, module.workspace_size


def free_names(sizes: Iterable[Size | int]) -> list[str]:
    """Names of the arguments that the symbols in the sizes depend on."""
    names = [re.match(r"\w+", origin) for size in sizes for origin in getattr(size, "origins", {}).values()]
    return list(dict.fromkeys(found[0] for found in names if found))


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
