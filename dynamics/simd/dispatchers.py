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
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, sigutils, types
from numba.core import ir as numba_ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import TypingError
from numba.core.imputils import RefType, iternext_impl, lower_builtin
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.core.untyped_passes import IRProcessing
from numba.extending import models, register_model

from dynamics.simd.kernel_cache import KernelCache
from dynamics.simd.passes import PassesCompiler

# --------------------------------------------------------------------------------------------
# `range` in kernels, cheaper to compile: numba divides to get the number of iterations, tests if the step is zero,
# and raises if so.  Here a step that is written as a number is part of the type.
#
# `CountPlainly` puts `count` in the place of `range` before types are inferred; kernels are written with `range`.

_I64 = ir.IntType(64)


class CountIterator(types.SimpleIteratorType):
    """Numba type of the iterator of a running loop."""

    def __init__(self, step: int | None) -> None:
        self.step = step
        super().__init__(f"count_iterator({step})", types.intp)


class Count(types.SimpleIterableType):
    """Numba type of a range of integers; the step is None where it is not written as a number."""

    def __init__(self, step: int | None) -> None:
        self.step = step
        super().__init__(f"count({step})", CountIterator(step))


_BOUNDS = [("stop", types.intp), ("step", types.intp)]


@register_model(Count)
class _CountModel(models.StructModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, [("start", types.intp), *_BOUNDS])


@register_model(CountIterator)
class _CountIteratorModel(models.StructModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, [("now", types.EphemeralPointer(types.intp)), *_BOUNDS])


def count(*bounds):
    """`range` for a nonzero step, for compiled code."""
    return range(*bounds)


@infer_global(count)
class _CountTemplate(AbstractTemplate):
    prefer_literal = True

    def generic(self, args, kws):
        if not 1 <= len(args) <= 3 or not all(isinstance(t, types.Integer) for t in args):
            return None
        return signature(Count(1 if len(args) < 3 else getattr(args[2], "literal_value", None)), *args)


@lower_builtin(count, types.VarArg(types.Integer))
def _count(context, builder, sig, args):
    values = [context.cast(builder, x, t, types.intp) for x, t in zip(args, sig.args, strict=True)]
    values = [*([_constant(0)] * (len(values) == 1)), *values, _constant(1)]
    return _packed(builder, context.get_value_type(sig.return_type), values[:3])


def _constant(number):
    return ir.Constant(_I64, number)


def _packed(builder, kind, members):
    value = ir.Constant(kind, ir.Undefined)
    for i, member in enumerate(members):
        value = builder.insert_value(value, member, i)
    return value


@lower_builtin("getiter", Count)
def _begin(context, builder, sig, args):
    start, stop, step = (builder.extract_value(args[0], i) for i in range(3))
    now = cgutils.alloca_once_value(builder, start)
    return _packed(builder, context.get_value_type(sig.return_type), [now, stop, step])


@lower_builtin("iternext", CountIterator)
@iternext_impl(RefType.UNTRACKED)
def _next(context, builder, sig, args, result):
    place, stop = builder.extract_value(args[0], 0), builder.extract_value(args[0], 1)
    now, step = builder.load(place), sig.args[0].step
    by = builder.extract_value(args[0], 2) if step is None else _constant(step)
    if step is None:
        up, down = (builder.icmp_signed(sign, now, stop) for sign in "<>")
        result.set_valid(builder.select(builder.icmp_signed(">", by, _constant(0)), up, down))
    else:
        result.set_valid(builder.icmp_signed("<" if step > 0 else ">", now, stop))
    result.yield_(now)
    builder.store(builder.add(now, by, flags=("nsw",)), place)


@register_pass(mutates_CFG=False, analysis_only=False)
class CountPlainly(FunctionPass):
    """Pass of numba's compiler that replaces `range` by `count`."""

    _name = "count_plainly"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        """Replace `range` in a function; called by numba."""
        found = False
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(numba_ir.Assign):
                value = statement.value
                if isinstance(value, numba_ir.Global) and value.value is range:
                    statement.value, found = numba_ir.Global("count", count, value.loc), True
        return found


# --------------------------------------------------------------------------------------------
# Libraries of compiled functions.
#
# Kernels are written in vectors of lanes and loop over joints and blocks: unrolled and vectorised once more, as numba
# has it, their loops are up to five times as much code, which takes LLVM twice the time and runs no faster.  Nor do
# they count references, for which numba optimises all code a first time.


class KernelLibrary(JITCodeLibrary):
    """The code of a function, whose own part is made short before callees are linked in: variables in registers, few
    instructions.  numba's list of passes over it is that of whole programs, which it meets later anyway."""

    def add_linking_library(self, library):
        """Note a callee; called by numba, which then asks for the shared kernels of its code before the code itself."""
        library._get_module_for_linking()
        super().add_linking_library(library)

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout
        passes = llvm.create_new_function_pass_manager()
        for add in (passes.add_sroa_pass, passes.add_simplify_cfg_pass, passes.add_instruction_combine_pass):
            add()
        builder = llvm.create_pass_builder(self._codegen._tm, llvm.create_pipeline_tuning_options())
        for function in ll_module.functions:
            if not function.is_declaration:  # most are; numba makes passes for each
                passes.run(function, builder)


class OptimizedLibrary(KernelLibrary):
    """The code of a function with its callees, optimised once and for loops over lanes."""

    def __init__(self, codegen, name):
        super().__init__(codegen, name)
        self.enable_object_caching()

    def _optimize_final_module(self):
        tuning = llvm.create_pipeline_tuning_options(speed_level=3)
        tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(self._codegen._tm, tuning)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()
        passes.run(self._final_module, builder)


# Functions that only compiled code calls: intermediate code, neither optimised nor translated.
#
# numba optimises every function together with its callees and translates it for the processor, before it links the
# result into the callers, where the same is repeated for each level of calls.  Inner functions leave both to the
# top-level functions, which have the same code.


class _NoAddresses:
    """A code generator without addresses in memory, where inner functions have none."""

    def __init__(self, codegen):
        self._codegen = codegen

    def __getattr__(self, name):
        return getattr(self._codegen, name)

    def set_env(self, env_name, env):
        """Do nothing: environments are for functions that raise or call Python; called by numba."""


class InnerLibrary(KernelLibrary):
    """The code of an inner function, to be linked into its callers."""

    @classmethod
    def loaded(cls, codegen, serialized, functions, function, again):
        """Library from the disk."""
        name, _, bitcode = serialized
        library = cls(codegen, name)
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalize_final_module()
        return library

    @property
    def codegen(self):
        """Code generator that numba asks for addresses."""
        return _NoAddresses(self._codegen)

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name):
        """Address 0, as no inner function has one."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self):
        """Serialize intermediate code, as there is no object code."""
        return self.serialize_using_bitcode()


class KernelCompiler(PassesCompiler):
    """The compiler with a library of our own."""

    _library: type[KernelLibrary] = OptimizedLibrary

    def define_pipelines(self):
        """Passes of the compiler; called by numba before it compiles."""
        state = self.state
        state.library = self._library(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class LeanCompiler(KernelCompiler):
    """The compiler with `count` in place of `range`."""

    _inserted: ClassVar = {IRProcessing: CountPlainly}


class InnerCompiler(LeanCompiler):
    """Compiles into an `InnerLibrary`."""

    _library = InnerLibrary


class InnerCache(KernelCache):
    """Loads an `InnerLibrary`."""

    _library, _claims = InnerLibrary.loaded, False


def _without_literals(args, kws):
    plain = {name: _plain(x) for name, x in kws.items()} if isinstance(kws, dict) else kws
    return tuple(_plain(x) for x in args), plain


def _plain(x):
    return types.unliteral(x) if isinstance(x, types.IntegerLiteral | types.BooleanLiteral) else x


@contextmanager
def interrupted_later() -> Iterator[None]:
    """A context that Ctrl-C interrupts at its end, the outermost one of several: LLVM calls functions of Python, in
    which an interrupt would be lost, and the code that was being translated with it."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or before is _note_interrupt or threading.current_thread() is not threading.main_thread():
        yield
        return
    _interrupts.clear()
    signal.signal(signal.SIGINT, _note_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if _interrupts:
            before(*_interrupts[-1])


_interrupts: list[tuple[Any, ...]] = []


def _note_interrupt(*signal_and_frame: Any) -> None:
    _interrupts.append(signal_and_frame)


class KeepingDispatcher(CPUDispatcher):
    """A compiled function whose callers inherit its bindings, also where it is loaded from the disk."""

    _kind_of_cache, _compiler = KernelCache, KernelCompiler

    def __init__(self, py_func, targetoptions):
        super().__init__(py_func, targetoptions=targetoptions, pipeline_class=self._compiler)
        self.prepared: dict[tuple, Any] = {}  # by types, what `dynamics.simd.prepared_calls` needs to know

    def keep_in(self, folder: Path, shipped: Path | None = None) -> None:
        """Cache it in `folder` and no other; `shipped`, which is never written to, is searched first."""
        self._cache = self._kind_of_cache(self.py_func, folder, shipped, self._compile_anew)

    def _compile_anew(self, args):
        compiler: Any = self._compiler
        return compiler.compile(args, None)

    def compile(self, sig):
        """Load or compile the function for these types; called by numba."""
        with interrupted_later():
            try:
                return super().compile(sig)
            finally:
                if isinstance(self._cache, KernelCache):
                    self._cache.release(sig)

    def _compilation_chain_init_hook(self):
        """Do nothing: numba imports its extensions when it compiles; called by numba."""

    def add_overload(self, cres):
        """Add a compiled function; only the library of one not loaded from the disk has bindings; called by numba.

        What numba has inferred of it, all of its intermediate code with types, is more than half of the Python objects
        of a process that compiles; nobody asks for it, and it is not kept."""
        cres.library._reload_init.update(cres.reload_init or ())
        super().add_overload(cres._replace(type_annotation=None, metadata=None))


class DriverDispatcher(KeepingDispatcher):
    """A driver, whose `range` loops are compiled like those of kernels."""

    _compiler = LeanCompiler


class UnwrappedDispatcher(KeepingDispatcher):
    """A function for compiled callers.  A call from Python, as in tests, compiles it once more, as `wrapped`.

    numba initialises it when the first caller is compiled, or it is loaded itself: of a thousand, few are in a process
    that compiles nothing."""

    _compiler = LeanCompiler
    wrapped: Callable[[], CPUDispatcher]

    def __init__(self, py_func, targetoptions):
        update_wrapper(self, py_func)
        self.py_func, self._later = py_func, targetoptions

    def _initialise(self):
        with global_compiler_lock:
            options = self.__dict__.pop("_later", None)
            if options is not None:
                known = dict(self.__dict__)
                super().__init__(self.py_func, options)
                self.__dict__.update(known)

    def __getattr__(self, name):
        self._initialise()
        return object.__getattribute__(self, name)

    @cached_property
    def _for_python(self):
        return self.wrapped()

    def __call__(self, *args):
        return self._for_python(*args)

    def compile(self, sig):
        """Load or compile the function for these types; called by numba."""
        self._initialise()
        return super().compile(sig)

    def get_call_template(self, args, kws):
        """Type a call with literals as plain numbers, so that offsets and flags need no compilation each; called by
        numba."""
        self._initialise()
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


class DecisionDispatcher(InnerDispatcher):
    """A function of numbers, which Python calls without compiling it."""

    def __call__(self, *args, **kwargs):
        return self.py_func(*args, **kwargs)


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
