"""Drivers from declarations: knots gathered into lanes, scratch carved, one kernel called, results scattered.

    drive = knot_driver(kernel, inputs="q v", scratch={"body": nb * BODY}, outputs={"tau": nv})

The kernel's own parameters say the rest: its first one is the model m; inputs, scratch and outputs are lanes of these
names; what is none of them goes through as it comes.  `drive(model, ...)`, with the kernel's arguments but m and
scratch, and arrays (K, numbers) for lanes, does that for all knots, over the threads of `dynamics.simd.launch`.

numba keeps no kernel on the disk that was passed as an argument, so source is written for each driver, with the kernel
imported by its name, and with the count of the scratch beside the code that carves it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

from dynamics.kernel_model import kernel_model
from dynamics.simd.chunks import scatter
from dynamics.simd.sizes import Size
from dynamics.simd.threads import launch
from dynamics.simd.written import written_module

nb = Size("nb", "m.parent.size")
"""Number of moving bodies."""
nv = Size("nv", "m.dof_body.size")
"""Number of degrees of freedom."""

_OWN_NAMES = {"first", "last", "work", "block", "free", "left", "chunk"}
DRIVERS: list[KnotDriver] = []
"""All that were declared."""


class Gathered(NamedTuple):
    """An input that is no array: how a kernel takes it from the knots, (x, first, rest) -> lanes and the new rest, and
    the scratch it needs for that."""

    gather: Callable[..., Any]
    numbers: Callable[..., int]


def import_of(function: Any) -> tuple[str, str]:
    """Module and name of a compiled or plain function."""
    plain = getattr(function, "py_func", function)
    return plain.__module__, plain.__name__


def import_lines(functions: Iterable[Any], simd: Iterable[str]) -> list[str]:
    """Import statements of these functions, of names from `dynamics.simd`, and of `kernel_model`."""
    found = {("dynamics.simd", name) for name in simd} | {import_of(x) for x in (kernel_model, *functions)}
    modules = sorted({module for module, _ in found})
    return [f"from {x} import {', '.join(sorted(name for module, name in found if module == x))}" for x in modules]


def origin_lines(sizes: Iterable[Size | int]) -> list[str]:
    """Assignments of the symbols in the sizes."""
    origins: dict[str, str] = {}
    for size in sizes:
        origins |= getattr(size, "origins", {})
    return [f"    {name} = {origin}" for name, origin in origins.items()]


def sum_lines(terms: Sequence[str]) -> list[str]:
    """A return statement of a sum, a few terms a line."""
    rows = [" + ".join(map(str, terms[i : i + 8])) for i in range(0, len(terms), 8)]
    return ["    return (", *(f"        {'+ ' * (i > 0)}{row}" for i, row in enumerate(rows)), "    )"]


class KnotDriver:
    """A kernel over knots; made by `knot_driver`."""

    def __init__(self, kernel, inputs, scratch, outputs, zeroed, per_chunk, gathered, scatter) -> None:
        self.optional = {name[:-1] for name in inputs if name.endswith("?")}
        self.inputs = [name.removesuffix("?") for name in inputs]
        self.kernel, self.scratch, self.outputs = kernel, scratch, outputs
        self.zeroed, self.per_chunk, self.gathered, self.scatter = zeroed, per_chunk, gathered, scatter
        self.lanes = (*self.inputs, *gathered, *outputs)
        parameters = [*inspect.signature(kernel.py_func).parameters]
        self.parameters = parameters[1:]
        self.arguments = [name for name in self.parameters if name not in scratch]
        unknown = {*self.lanes, *scratch, *zeroed, *per_chunk} - set(self.parameters)
        taken = _OWN_NAMES & set(self.parameters)
        if taken:
            raise TypeError(f"{kernel.py_func.__name__}: has parameters like a driver's: {', '.join(sorted(taken))}")
        if unknown:
            raise TypeError(f"{kernel.py_func.__name__}: has no parameters {', '.join(sorted(unknown))}")
        self.module_name = ".".join(import_of(kernel))
        self._leading = self.arguments.index(self.inputs[0])
        DRIVERS.append(self)

    def __repr__(self) -> str:
        return f"knot_driver({self.module_name})"

    @cached_property
    def module(self) -> ModuleType:
        """What was written for it: `drive`, for `launch`, and `numbers`, the scratch it needs."""
        return written_module(self.module_name, self.source)

    @property
    def source(self) -> str:
        """The text of `module`."""
        arguments = ", ".join(self.arguments)
        sizes = {**{name: f"{name}.shape[1]" for name in self.inputs}, **self._declared()}
        count = [*sizes.values(), *(f"{import_of(x.numbers)[1]}({name})" for name, x in self.gathered.items())]
        gathering = [function for x in self.gathered.values() for function in x]
        imports = import_lines([self.kernel, self.scatter, *gathering], ("LANES", "carve", "driver", "gather"))
        origins = origin_lines([*self.scratch.values(), *self.outputs.values()])
        lines = f'"""Written by dynamics.knot_driver for {self.module_name}."""', "", *imports
        lines += "", "", f"def numbers(m, {arguments}):", *origins, *sum_lines(count)
        lines += "", "", "@driver", f"def drive(first, last, work, block, {arguments}):", "    m = kernel_model(block)"
        lines += *origins, "    free = work", *self._carved(sizes), "    for chunk in range(first, last):"
        return "\n".join((*lines, *self._chunk(), ""))

    def _declared(self) -> dict[str, str]:
        """Texts of the sizes of outputs and scratch; an output that is an input too has its lanes already."""
        declared = {**{name: size for name, size in self.outputs.items() if name not in self.inputs}, **self.scratch}
        return {name: str(size) for name, size in declared.items()}

    def _lanes(self, name: str) -> str:
        """Lanes of arrays have the arrays' names with an underscore."""
        return f"{name}_" if name in self.lanes else name

    def _carved(self, sizes: dict[str, str]) -> list[str]:
        lines = [f"    {self._lanes(name)}, free = carve(free, {size})" for name, size in sizes.items()]
        return lines + [f"    {self._lanes(name)}[:] = 0.0" for name in self.zeroed]

    def _chunk(self) -> list[str]:
        lines = []
        for name in self.inputs:
            given = f"if {name}.shape[0] > 0: " if name in self.optional else ""
            lines.append(f"{given}gather({name}, chunk * LANES, {name}_)")
        rest = "free"
        for name, x in self.gathered.items():
            lines.append(f"{name}_, left = {import_of(x.gather)[1]}({name}, chunk * LANES, {rest})")
            rest = "left"
        parameters = (f"{x}[chunk]" if x in self.per_chunk else self._lanes(x) for x in self.parameters)
        lines.append(f"{import_of(self.kernel)[1]}(m, {', '.join(parameters)})")
        lines += [f"{import_of(self.scatter)[1]}({name}_, chunk * LANES, {name})" for name in self.outputs]
        return [f"        {line}" for line in lines]

    def numbers(self, model: Any, *arguments: Any) -> int:
        """Scratch numbers per lane for these arguments."""
        return self.module.numbers(model.arrays, *arguments)

    def __call__(self, model: Any, *arguments: Any) -> None:
        """Run over all knots of the arguments, which are those of the kernel without m and scratch."""
        module = self.module
        numbers = module.numbers(model.arrays, *arguments)
        knots = len(arguments[self._leading])
        launch(module.drive, knots, numbers, model.block, *arguments)


def knot_driver(
    kernel: Any,
    inputs: str,
    scratch: Mapping[str, Size | int],
    outputs: Mapping[str, Size | int],
    zeroed: str = "",
    per_chunk: str = "",
    gathered: Mapping[str, Gathered] | None = None,
    scatter: Any = scatter,
) -> KnotDriver:
    """A driver of a kernel whose parameters are the model m and then, in any order, these.

    Parameters
    ----------
    kernel : compiled function (m, ...)
    inputs : names of arrays (K, numbers) that are gathered, the first of which says how many knots there are; with a
        question mark if it may be an array (0, numbers), which leaves its lanes as they are
    scratch : sizes of lanes that only the kernel sees
    outputs : sizes of lanes that are scattered to arrays (K, size), or (0, size) to leave them; they may be inputs too
    zeroed : names of lanes that are zero when each thread starts
    per_chunk : names of arrays (C, ., LANES) of which the kernel takes those of its chunk
    gathered : inputs that are no arrays
    scatter : what takes outputs to arrays in place of `dynamics.simd.scatter`

    Raises
    ------
    TypeError : a name that the kernel does not have.
    """
    return KnotDriver(
        kernel,
        inputs.split(),
        dict(scratch),
        dict(outputs),
        zeroed.split(),
        per_chunk.split(),
        gathered or {},
        scatter,
    )
