"""Dispatchers of compiled functions specialised by their callers, which saves most of the compilation time.

numba makes a Python wrapper for every function, which is costly where arguments are tuples of arrays, compiles it anew
for every offset given as a literal, and links a copy into each of its callers, direct and indirect, where it is
optimised and translated once more.  Here the functions inside compiled code have no wrapper and take literals as plain
numbers (`UnwrappedDispatcher`), are optimised and translated only as parts of their callers (`InnerDispatcher`), and
large ones among them exist once in a process (`SharedDispatcher`): callers refer to the address by a symbol.

A caller loaded from the disk finds the symbol because numba runs the functions saved with it, the library's
`_reload_init`, before it links the code; each of them (`Binding`) loads a shared kernel and binds a symbol.
"""

import copy
import importlib
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, sigutils, types
from numba.core.compiler import Compiler
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher

from dynamics.simd.inner_code import InnerCache, InnerCompiler, LeanCompiler
from dynamics.simd.kernel_cache import KernelCache


def _without_literals(args, kws):
    plain = {name: _plain(x) for name, x in kws.items()} if isinstance(kws, dict) else kws
    return tuple(_plain(x) for x in args), plain


def _plain(x):
    return types.unliteral(x) if isinstance(x, types.IntegerLiteral) else x


class KeepingDispatcher(CPUDispatcher):
    """A compiled function whose callers inherit its bindings, also where it is loaded from the disk."""

    _kind_of_cache, _compiler = KernelCache, Compiler

    def __init__(self, py_func, targetoptions):
        super().__init__(py_func, targetoptions=targetoptions, pipeline_class=self._compiler)

    def keep_in(self, folder: Path, shipped: Path | None = None) -> None:
        """Cache it in `folder` and no other; `shipped`, which is never written to, is searched first."""
        self._cache = self._kind_of_cache(self.py_func, folder, shipped)

    def add_overload(self, cres):
        """Add a compiled function; only the library of one not loaded from the disk has bindings; called by numba."""
        cres.library._reload_init.update(cres.reload_init or ())
        super().add_overload(cres)


class DriverDispatcher(KeepingDispatcher):
    """A driver, whose `range` loops are compiled like those of kernels."""

    _compiler = LeanCompiler


class UnwrappedDispatcher(KeepingDispatcher):
    """A function for compiled callers.  A call from Python, as in tests, compiles it once more, as `wrapped`."""

    _compiler = LeanCompiler
    wrapped: Callable[[], CPUDispatcher]

    @cached_property
    def _for_python(self):
        return self.wrapped()

    def __call__(self, *args):
        return self._for_python(*args)

    def get_call_template(self, args, kws):
        """Type a call with literals as plain numbers, so that offsets need no compilation each; called by numba."""
        return super().get_call_template(*_without_literals(args, kws))


class Binding(NamedTuple):
    """Symbol that a cached caller needs, with the kernel's name and the argument types it is compiled for."""

    symbol: str
    module: str
    name: str
    args: tuple

    def __call__(self):
        """Load the kernel, or compile it if it is no longer on the disk, and bind the symbol to its address."""
        kernel = getattr(importlib.import_module(self.module), self.name)
        kernel.compile(self.args)
        kernel.bind(self)


def _unchecked_call(descriptor, libraries):
    """Code generator for calls of an inner function.  numba would test after each call if it raised, which is a third
    of the code of a kernel; these functions raise nothing (`dynamics.simd.compilation` ensures it)."""
    if isinstance(descriptor.restype, types.Optional):
        raise TypingError(f"{descriptor.qualname} returns {descriptor.restype}; expected None always, or never")

    def generate(context, builder, sig, args):
        convention = context.call_conv
        function = context.declare_function(builder.module, descriptor)
        result, raised = function.args[:2]
        place = cgutils.alloca_once(builder, result.type.pointee)
        numbers = convention._get_arg_packer(descriptor.argtypes).as_arguments(builder, args)
        builder.call(function, [place, ir.Constant(raised.type, None), *numbers])
        return context.get_returned_value(builder, descriptor.restype, builder.load(place))

    generate.signature, generate.libs = descriptor.argtypes, tuple(libraries)
    return generate


class InnerDispatcher(UnwrappedDispatcher):
    """A function that is linked into its callers and optimised there."""

    _kind_of_cache, _compiler = InnerCache, InnerCompiler

    def get_overload(self, sig):
        """Key of the code generator for calls of the function compiled for these types; called by numba."""
        compiled = self.overloads[tuple(sigutils.normalize_signature(sig)[0])]
        key = compiled.entry_point, "unchecked"
        if key not in self._known:
            call = _unchecked_call(compiled.fndesc, [compiled.library])
            self.targetctx.insert_func_defn([(call, key, compiled.signature.args)])
            self._known.add(key)
        return key

    @cached_property
    def _known(self):
        return set()


class SharedDispatcher(UnwrappedDispatcher):
    """An inner function called by address instead of linked into its callers, if it can be imported by its name."""

    @cached_property
    def _symbols(self):
        return {}  # by argument types

    def bind(self, binding):
        """Bind the symbol to the address of the function compiled for the binding's types."""
        compiled = self.overloads[binding.args]
        address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        llvm.add_symbol(binding.symbol, address)

    def get_overload(self, sig):
        """Key of the code generator for calls of the function compiled for these types; called by numba."""
        linked = super().get_overload(sig)
        module, name = self.py_func.__module__, self.py_func.__qualname__
        if getattr(sys.modules.get(module), name, None) is not self:
            return linked
        args = tuple(sigutils.normalize_signature(sig)[0])
        if args not in self._symbols:
            binding = Binding(f"{module}.{name}.{uuid4().hex}", module, name, args)
            self.bind(binding)
            self.targetctx.insert_func_defn([(self._call_of(binding), binding.symbol, args)])
            self._symbols[args] = binding.symbol
        return self._symbols[args]

    def _call_of(self, binding):
        """Code generator for calls of the symbol."""
        descriptor = copy.copy(self.overloads[binding.args].fndesc)
        descriptor.mangled_name = binding.symbol
        call = _unchecked_call(descriptor, ())

        def generate(context, builder, sig, args):
            context.active_code_library._reload_init.add(binding)
            return call(context, builder, sig, args)

        return generate
