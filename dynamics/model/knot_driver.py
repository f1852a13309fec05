"""Drivers made from declarations: gather knots into lanes, slice scratch, call one kernel, scatter results.

    drive = knot_driver(kernel, inputs="q v", scratch={"body": nb * BODY}, outputs={"tau": nv})

The kernel's parameters give the rest: the first is the model m; inputs, scratch and outputs are lanes of these names;
all others are passed through unchanged.  `drive(model, ...)`, with the kernel's arguments except m and scratch, and
arrays (K, numbers) for lanes, runs over all knots, on the threads of `dynamics.simd.launch`.

numba does not cache kernels on the disk that are passed as arguments, so source is generated for each driver, with the
kernel imported by its name, and with the size of the scratch beside the code that slices it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

from dynamics.model.kernel_model import kernel_model
from dynamics.model.mimic import AS_IS, PROJECTED
from dynamics.simd.chunks import scatter
from dynamics.simd.lane_blocks import (
    import_lines,
    import_of,
    lanes_of,
    origin_lines,
    parameters_of,
    sum_lines,
    written_module,
)
from dynamics.simd.prepared_calls import PreparedLaunch
from dynamics.simd.sizes import Size
from dynamics.simd.threads import launch

nb = Size("nb", "m.parent.size")
"""Number of moving bodies."""
nv = Size("nv", "m.dof_body.size")
"""Number of degrees of freedom."""

_OWN_NAMES = {"first", "last", "work", "block", "free", "left", "chunk"}
ENTERING = {"q", "v", "a", "w"}
"""Inputs of drivers that run on models with mimic joints: a configuration, velocities, accelerations, and multipliers
of torques, which are scaled as these are."""
DRIVERS: list[KnotDriver] = []
"""All declared drivers."""


class Gathered(NamedTuple):
    """An input that is not an array: how a kernel takes it from the knots, (x, first, rest) -> lanes and the new rest,
    and its scratch size."""

    gather: Callable[..., Any]
    workspace_size: Callable[..., int]


class KnotDriver:
    """A kernel over knots; made by `knot_driver`."""

    def __init__(
        self,
        kernel: Any,
        inputs: list[str],
        scratch: dict[str, Any],
        outputs: dict[str, Any],
        zeroed: list[str],
        per_chunk: list[str],
        gathered: Mapping[str, Gathered],
        scatter: Any,
    ) -> None:
        self.kernel, self.scratch, self.zeroed, self.per_chunk = kernel, scratch, zeroed, per_chunk
        self.gathered, self.scatter = gathered, scatter
        self.optional = {name[:-1].partition("=")[0] for name in inputs if name.endswith("?")}
        inputs = [name.removesuffix("?") for name in inputs]
        self.places = {name: place for name, _, place in (text.partition("=") for text in inputs) if place}
        self.inputs = [text.partition("=")[0] for text in inputs]
        self.places |= {name: size for name, size in outputs.items() if isinstance(size, str)}
        self.outputs = outputs
        self.parameters = parameters_of(kernel)[1:]
        self.lanes = [name for name in (*self.inputs, *gathered, *outputs) if name not in self.places]
        self.arguments = [name for name in self.parameters if name not in scratch] + [*self.places]
        self._check()
        self.module_name = ".".join(import_of(kernel))
        self._leading = self.arguments.index(self.inputs[0])
        DRIVERS.append(self)

    def _check(self) -> None:
        name, own = import_of(self.kernel)[1], set(self.parameters)
        if unknown := {*self.lanes, *self.scratch, *self.zeroed, *self.per_chunk} - own:
            raise TypeError(f"{name}: has no parameters {', '.join(sorted(unknown))}")
        if taken := _OWN_NAMES & {*own, *self.places}:
            raise TypeError(f"{name}: has parameters like a driver's: {', '.join(sorted(taken))}")

    def __repr__(self) -> str:
        return f"knot_driver({self.module_name})"

    @cached_property
    def module(self) -> ModuleType:
        """The generated module: `drive`, for `launch`, and `workspace_size`, the scratch size."""
        return written_module(self.module_name, self.source)

    @property
    def source(self) -> str:
        """The source of `module`."""
        sizes, blocks = self._sizes(), [block for block in self.scratch.values() if isinstance(block, type)]
        gathering = [function for x in self.gathered.values() for function in x]
        functions = [kernel_model, self.kernel, self.scatter, *gathering, *blocks]
        count = [f"{import_of(x.workspace_size)[1]}({name})" for name, x in self.gathered.items()]
        count = [*map(str, sizes.values()), *count]
        arguments, origins = ", ".join(self.arguments), origin_lines(sizes.values())
        lines = f'"""Written by dynamics.model.knot_driver for {self.module_name}."""', ""
        given = [x for x in self.parameters if x not in (*self.lanes, *self.scratch, *self.per_chunk, *self.places)]
        names = ["LANES", "split", "driver", "gather"]
        names += ["by_reference"] * bool(given) + ["span"] * bool(self.per_chunk)
        lines += *import_lines(functions, names), "", ""
        lines += f"def workspace_size(m, {arguments}):", *origins, *sum_lines(count), "", ""
        lines += "@driver", f"def drive(first, last, work, block, {arguments}):", "    m = kernel_model(block)"
        lines += tuple(f"    {name} = by_reference({name})" for name in given)
        lines += *origins, "    free = work", *self._sliced(sizes), "    for chunk in range(first, last):"
        return "\n".join((*lines, *self._chunk(), ""))

    def _sizes(self) -> dict[str, Any]:
        """Sizes of all lanes by their names in the driver: for arrays the array's name with an underscore, for parts of
        a block the block's name before their own.  Lanes that are always written come last, for the guard."""
        sizes: dict[str, Any] = {}
        for name, size in self.scratch.items():
            if isinstance(size, type):
                sizes |= {f"{name}_{field}": x.size for field, x in lanes_of(size).items()}
            else:
                sizes[name] = size
        sizes |= {f"{name}_": f"{name}.shape[1]" for name in self.inputs if name not in self.places}
        return sizes | {f"{x}_": size for x, size in self.outputs.items() if x not in (*self.inputs, *self.places)}

    def _place(self, name: str) -> str:
        """The lanes of an argument of the kernel, or of the driver, as an expression."""
        return self.places.get(name) or (f"{name}_" if name in self.lanes else name)

    def _sliced(self, sizes: dict[str, Any]) -> list[str]:
        lines = [f"    {name}, free = split(free, {size})" for name, size in sizes.items()]
        zeroed = [self._place(name) for name in self.zeroed]
        for name, block in self.scratch.items():
            if isinstance(block, type):
                fields = lanes_of(block)
                zeroed += [f"{name}_{field}" for field, x in fields.items() if x.zero]
                lines.append(f"    {name} = {block.__name__}({', '.join(f'{name}_{field}' for field in fields)})")
        return lines + [f"    {name}[:] = 0.0" for name in zeroed]

    def _chunk(self) -> list[str]:
        lines = []
        for name in self.inputs:
            given = f"if {name}.shape[0] > 0: " if name in self.optional else ""
            lines.append(f"{given}gather({name}, chunk * LANES, {self._place(name)})")
        rest = "free"
        for name, x in self.gathered.items():
            lines.append(f"{name}_, left = {import_of(x.gather)[1]}({name}, chunk * LANES, {rest})")
            rest = "left"
        parameters = (f"span({x}[chunk])" if x in self.per_chunk else self._place(x) for x in self.parameters)
        lines.append(f"{import_of(self.kernel)[1]}(m, {', '.join(parameters)})")
        lines += [f"{import_of(self.scatter)[1]}({self._place(x)}, chunk * LANES, {x})" for x in self.outputs]
        return [f"        {line}" for line in lines]

    def workspace_size(self, model: Any, *arguments: Any) -> int:
        """Scratch size per lane for these arguments."""
        return self.module.workspace_size(model.arrays, *arguments)

    def __call__(self, model: Any, *arguments: Any, knots: int | None = None) -> None:
        """Run over all knots of the arguments, which are those of the kernel without m and scratch.

        The number of knots is that of the rows of the first input, or `knots`; inputs with fewer rows repeat their last
        one."""
        count = len(arguments[self._leading]) if knots is None else knots
        if model.mimics and ENTERING.issuperset(self.inputs):
            self._through(model, arguments, count)
            return
        launch(self.module.drive, count, self.workspace_size(model, *arguments), model.block, *arguments)

    def prepared(self, model: Any, *arguments: Any) -> PreparedLaunch:
        """The call with these arguments, of a model without mimic joints."""
        count = len(arguments[self._leading])
        return PreparedLaunch(
            self.module.drive, count, self.workspace_size(model, *arguments), model.block, *arguments
        )

    def _through(self, model: Any, arguments: tuple[Any, ...], count: int) -> None:
        """Run over knots of a model with mimic joints: inputs enter the full model, and outputs leave it, projected
        along their axes of degrees of freedom."""
        enter, given = model.mimic_map, dict(zip(self.arguments, arguments, strict=True))
        given |= {x: enter.full_q(given[x]) if x == "q" else enter.full_v(given[x]) for x in self.inputs}
        axes = {name: self._axes(name) for name in self.outputs}
        dofs = {name: [model.nv if kind == PROJECTED else -1 for kind in kinds] for name, kinds in axes.items()}
        out = [given[name].reshape(len(given[name]), *dofs[name]) for name in axes]
        full = enter.receivers([*axes.values()], out)
        given |= {name: x.reshape(len(x), -1) for name, x in zip(axes, full, strict=True)}
        self(model.full, *given.values(), knots=count)
        enter.deliver([*axes.values()], full, out)

    def _axes(self, name: str) -> str:
        """The axes of an output as its size declares them: each factor nv, and the factors between them."""
        size = self.outputs[name]
        if isinstance(size, str):
            block, _, field = size.partition(".")
            size = lanes_of(self.scratch[block])[field].size
        kinds = (PROJECTED if factor == str(nv) else AS_IS for factor in str(size).split(" * "))
        return re.sub(f"{AS_IS}+", AS_IS, "".join(kinds))


def knot_driver(
    kernel: Any,
    inputs: str,
    scratch: Mapping[str, Size | int | type],
    outputs: Mapping[str, Size | int | str],
    zeroed: str = "",
    per_chunk: str = "",
    gathered: Mapping[str, Gathered] | None = None,
    scatter: Any = scatter,
) -> KnotDriver:
    """A driver of a kernel whose parameters are the model m and then, in any order, these.

    Parameters
    ----------
    kernel : compiled function (m, ...)
    inputs : names of arrays (K, numbers) that are gathered, the first of which gives the number of knots; with a
        question mark if it may be an array (0, numbers), for which its lanes are left unchanged, and as y=h.y if they
        are part of the scratch h
    scratch : sizes of lanes that only the kernel uses, or blocks of them (`dynamics.simd.lane_blocks`)
    outputs : sizes of lanes that are scattered to arrays (K, size), or (0, size) to skip them, or their place in
        the scratch, such as "h.Hqq"; they may be inputs too.  Arrays for parts of the scratch come last in the
        arguments
    zeroed : names of lanes that are zero when each thread starts
    per_chunk : names of arrays (C, ., LANES) of which the kernel takes those of its chunk
    gathered : inputs that are not arrays
    scatter : function that scatters outputs to arrays, in place of `dynamics.simd.scatter`

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
