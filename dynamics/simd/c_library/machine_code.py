"""Machine code of compiled functions for a library that runs without numba, LLVM and Python.

numba keeps the optimised intermediate code of every function.  Of that, entries and what they need are taken and
translated anew, as position-independent code, for this or another processor.  Kernels that several functions share,
and refer to by symbols (`dynamics.simd.dispatchers`), are linked in once.
"""

import platform
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
from numba.core.registry import cpu_target

from dynamics.simd.dispatchers import Binding
from dynamics.simd.entries import entry_name
from dynamics.simd.prepared_calls import PreparedCall

OF_C = frozenset(
    """memcpy memmove memset memcmp abs labs
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax
    fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint
    nextafter pow remainder remquo rint round scalbln scalbn sin sincos sinh sqrt tan tanh tgamma trunc""".split()
)
"""Functions of the C library and its mathematical part that kernels may call [ISO C11, 7.12 and 7.24]."""


_FREES = "NRT_MemInfo_call_dtor"
_NOTHING_TO_FREE = f"define void @{_FREES}(ptr %x) {{ ret void }}"
"""What numba calls when an array is no longer referred to.  Arrays of prepared calls have no counter of references, and
functions that may be in a library make none, so that it is never reached."""


class Target(NamedTuple):
    """A processor to translate for.

    Parameters
    ----------
    triple, cpu, features : as LLVM takes them
    compiler : C compiler that links for it
    """

    triple: str
    cpu: str
    features: str
    compiler: str

    def machine(self) -> llvm.TargetMachine:
        """LLVM's translator, which optimises as numba's own does, so that results have the same bits."""
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        config: Any = numba.config
        return llvm.Target.from_triple(self.triple).create_target_machine(
            self.cpu, self.features, opt=config.OPT, reloc="pic", codemodel="small"
        )


def target_of(name: str) -> Target:
    """The target of this name: "native" is what numba compiles for, "x86-64-v3" has AVX2 and FMA (Intel Haswell, AMD
    Zen), "aarch64" is any 64-bit ARM.

    Raises ValueError for other names and for processors that this one's code cannot be translated for, and OSError on
    systems other than Linux."""
    if sys.platform != "linux":
        raise OSError(f"C libraries: got the system {sys.platform}, expected Linux: they are in its format, ELF")
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    here = platform.machine()
    known = {"native": Target(triple, cpu, features, "cc")}
    if here == "x86_64":
        known["x86-64-v3"] = Target(triple, "x86-64-v3", "", "cc")
    cross = "cc" if here == "aarch64" else "aarch64-linux-gnu-gcc"
    known["aarch64"] = Target("aarch64-unknown-linux-gnu", "generic", "", cross)
    if name not in known:
        raise ValueError(f"target: got {name!r}, expected {', '.join(map(repr, known))}")
    return known[name]


class Linked(NamedTuple):
    """Kernels of calls, linked for a target.

    Parameters
    ----------
    numbers : of each call, which of the entries is its own
    entries : symbols of all entries
    translate : translate() is the object file
    """

    numbers: list[int]
    entries: list[str]
    translate: Callable[[], bytes]


def linked(calls: Sequence[PreparedCall], target: Target, prefix: str) -> Linked:
    """The functions that are called, and all that they need; symbols of their entries begin with the prefix.

    Raises ValueError for a function that needs more than the C library."""
    linker, names = _Linker(target), []
    for call in calls:
        compiled = call.function.overloads[tuple(call.function.typeof_pyval(x) for x in call.arguments)]
        if compiled.library.has_dynamic_globals:
            raise ValueError(f"calls: {_name(call.function)} holds addresses of this process, expected none")
        entry = entry_name(compiled.fndesc)
        names.append(linker.add(compiled.library, entry, f"{prefix}{len(set(names))}", _name(call.function)))
    entries = list(dict.fromkeys(names))
    return Linked([entries.index(name) for name in names], entries, lambda: linker.translated(entries))


def _name(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _renamed(module: llvm.ModuleRef, names: dict[str, str]) -> llvm.ModuleRef:
    """The module with other names for declared functions, which may be declared by these names too."""
    if not names:
        return module
    text = str(module)
    for old, new in names.items():
        text = re.sub(rf"^declare [^\n]*@{re.escape(old)}\([^\n]*\n", "", text, flags=re.MULTILINE)
        text = text.replace(f"@{old}(", f"@{new}(")
    return llvm.parse_assembly(text)


class _Linker:
    """One module of all kernels."""

    def __init__(self, target: Target) -> None:
        self.target, self.machine, self.module = target, target.machine(), llvm.parse_assembly(_NOTHING_TO_FREE)
        self._adapt(self.module)
        self._names: dict[str, str] = {}

    def _adapt(self, module: llvm.ModuleRef) -> None:
        module.triple, module.data_layout = self.target.triple, str(self.machine.target_data)

    def add(self, library: Any, symbol: str, name: str, function: str) -> str:
        """Link in a symbol of a numba library and all that it needs, and give it another name; returns its name.
        `function` is the name in Python, for messages."""
        if symbol in self._names:
            return self._names[symbol]
        self._names[symbol] = name
        module = llvm.parse_bitcode(library._get_module_for_linking().as_bitcode())
        for part in (*module.functions, *module.global_variables):
            if not part.is_declaration:
                part.linkage = "external" if part.name == symbol else "internal"
        self._without_dead_code(module)
        module.get_function(symbol).name = name
        shared, again = {x.symbol: x for x in library._reload_init if isinstance(x, Binding)}, {}
        for part in [x for x in (*module.functions, *module.global_variables) if x.is_declaration]:
            if part.name in shared:
                needed = self._shared(shared[part.name])
                if needed in (x.name for x in module.functions):  # by two symbols
                    again[part.name] = needed
                else:
                    part.name = needed
            elif not part.name.startswith("llvm.") and part.name not in OF_C and part.name != _FREES:
                raise ValueError(
                    f"calls: {function} needs {part.name}, expected functions of the C library alone: code that "
                    "allocates arrays, raises exceptions or calls Python needs numba's runtime"
                )
        module = _renamed(module, again)
        self._adapt(module)
        self.module.link_in(module)
        return name

    def _shared(self, binding: Binding) -> str:
        binding()
        compiled = getattr(sys.modules[binding.module], binding.name).overloads[binding.args]
        name = f"shared.{len(self._names)}"
        return self.add(compiled.library, compiled.fndesc.llvm_func_name, name, f"{binding.module}.{binding.name}")

    def _without_dead_code(self, module: llvm.ModuleRef) -> None:
        passes = llvm.create_new_module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_strip_dead_prototype_pass()
        passes.run(module, llvm.create_pass_builder(self.machine, llvm.create_pipeline_tuning_options(0)))

    def translated(self, entries: list[str]) -> bytes:
        """The object file, in which other objects of the library find the entries, and nobody finds anything else."""
        for function in self.module.functions:
            if function.name in entries:
                function.visibility = "hidden"
            elif not function.is_declaration:
                function.linkage = "internal"
        self._without_dead_code(self.module)
        self.module.verify()
        return self.machine.emit_object(self.module)
