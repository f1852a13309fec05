"""What `dynamics.simd` takes from inside numba, one by one: after an upgrade these tests say what broke and what to do.

The page `docs/numba.md` has the list with its reasons.
"""

import inspect

import numpy as np
import pytest
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

WAY_OUT = "Until then TRAJOPT_PLAIN_KERNELS=1 runs all kernels without it; see docs/numba.md."


def needs(holds, broken, todo):
    """Fail with what broke and what is to be done."""
    assert holds, f"numba has changed: {broken}. {todo} {WAY_OUT}"


def parameters(function):
    return list(inspect.signature(function).parameters)


def members(cls, *names):
    return [name for name in names if not hasattr(cls, name)]


def test_templates_of_operators():
    from numba.core.typing import templates

    lost = members(templates, "AbstractTemplate", "AttributeTemplate", "infer_global", "infer_getattr", "signature")
    needs(
        not lost, f"numba.core.typing.templates lacks {lost}",
        "Register operators and attributes of vectors and spans (functions.py, span.py) by"
        " what replaced "
        "these, or by numba.extending.overload.",
    )  # fmt: skip


def test_lowering_of_operators_and_attributes():
    from numba.core import imputils

    lost = members(imputils, "lower_builtin", "lower_getattr", "lower_getattr_generic", "lower_constant", "RefType")
    lost += members(imputils, "iternext_impl")
    needs(
        not lost, f"numba.core.imputils lacks {lost}",
        "Lower operators and attributes (span.py, by_type.py, dispatchers.py) by what replaced these.",
    )  # fmt: skip


def test_intrinsics_generate_llvm_code():
    @intrinsic
    def twice(typing, x):
        def generate(context, builder, sig, args):
            vector = ir.VectorType(ir.DoubleType(), 4)
            spread = builder.insert_element(ir.Constant(vector, None), args[0], ir.Constant(ir.IntType(32), 0))
            return builder.extract_element(builder.fadd(spread, spread), ir.Constant(ir.IntType(32), 0))

        return types.float64(types.float64), generate

    needs(
        njit(lambda x: twice(x))(1.5) == 3.0,
        "an intrinsic that builds a vector with llvmlite.ir gives another number",
        "Look at vector.py, from which all kernels take load, store and splat.",
    )  # fmt: skip


def test_pointers_have_types():
    pointer = ir.DoubleType().as_pointer()
    needs(
        getattr(pointer, "pointee", None) == ir.DoubleType(), "pointers of llvmlite.ir no longer know their types",
        "Give gep, load and alloca their types where vector.py, span.py, rows.py and dispatchers.py use `pointee`.",
    )  # fmt: skip


@pytest.mark.parametrize("field", ["data", "shape", "nitems"])
def test_layout_of_arrays(field):
    from numba.core.registry import cpu_target

    model = cpu_target.target_context.data_model_manager[types.Array(types.float64, 2, "C")]
    try:
        place = model.get_field_position(field)
    except (AttributeError, KeyError, ValueError):
        place = None
    needs(
        isinstance(place, int), f"the model of arrays has no field {field!r}",
        "Change data_pointer and pointer_and_rows of span.py, by which spans are made of arrays.",
    )  # fmt: skip


def test_dispatchers():
    from numba.core.registry import CPUDispatcher

    lost = members(CPUDispatcher, "get_overload", "get_call_template", "add_overload", "compile")
    lost += members(njit(lambda x: x), "overloads", "targetctx", "py_func")
    needs(
        not lost and {"py_func", "targetoptions", "pipeline_class"} <= {*parameters(CPUDispatcher.__init__)},
        f"CPUDispatcher lacks {lost} or has another constructor",
        "Change dispatchers.py: inner functions without wrappers, shared kernels called by address.",
    )  # fmt: skip


def test_dispatchers_may_be_initialised_later_or_never():
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import CPUDispatcher

    class Late(CPUDispatcher):
        def __init__(self):
            self.later = True

    never, late = Late(), Late()
    del never
    with global_compiler_lock:
        CPUDispatcher.__init__(late, lambda x: x + 1.0, targetoptions={"nopython": True})
    needs(
        late(1.0) == 2.0 and late.later, "a dispatcher that is initialised late does not work",
        "Let UnwrappedDispatcher (dispatchers.py) have the constructor of KeepingDispatcher; each process then "
        "takes some 50 ms longer to start.",
    )  # fmt: skip


def test_dispatchers_have_a_cache_that_can_be_replaced():
    needs(
        hasattr(njit(lambda x: x), "_cache"), "a dispatcher no longer has the attribute _cache",
        "Set the cache of KeepingDispatcher.keep_in (dispatchers.py) where numba looks for it now.",
    )  # fmt: skip


def test_options_of_targets():
    from numba.core.options import TargetOptions

    try:
        made = njit(forceinline=True, _nrt=False, no_cpython_wrapper=False, no_cfunc_wrapper=True)(lambda x: x + 1.0)
        works = made(1.0) == 2.0
    except (KeyError, TypeError, AttributeError):
        works = False
    needs(
        works and inspect.isclass(TargetOptions),
        "one of forceinline, _nrt, no_cpython_wrapper and no_cfunc_wrapper is unknown",
        "Find what replaced it, for the decorators of compilation.py; without _nrt=False every array that "
        "a kernel touches "
        "is counted.",
    )  # fmt: skip


def test_libraries_of_code():
    from numba.core.codegen import JITCodeLibrary

    lost = members(
        JITCodeLibrary, "_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals",
        "_ensure_finalized",
        "get_pointer_to_function", "serialize_using_bitcode", "serialize_using_object_code",
    )  # fmt: skip
    compiled = njit(lambda x: x + 1.0)
    compiled(1.0)
    library = next(iter(compiled.overloads.values())).library
    needs(
        not lost and not members(library, "_final_module", "_reload_init"),
        f"JITCodeLibrary lacks {lost}, or a library _final_module or _reload_init",
        "Change InnerLibrary (dispatchers.py), which keeps code of inner functions neither optimised nor "
        "translated; as a first "
        "step let InnerCompiler be LeanCompiler: kernels then compile several times as long.",
    )  # fmt: skip


def test_passes_over_finished_libraries():
    import llvmlite.binding as llvm
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    optimised = []

    class Library(JITCodeLibrary):
        def _optimize_final_module(self):
            tuning = llvm.create_pipeline_tuning_options(speed_level=3)
            tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False
            builder = llvm.create_pass_builder(self._codegen._tm, tuning)
            passes = builder.getModulePassManager()
            passes.add_refprune_pass()
            passes.run(self._final_module, builder)
            optimised.append(self._final_module)

    library = Library(cpu_target.target_context.codegen(), "library")
    with global_compiler_lock:
        library.finalize()
    needs(
        optimised, "a library no longer asks for its passes by _optimize_final_module, or passes are made otherwise",
        "Change OptimizedLibrary (dispatchers.py); as a first step let KernelCompiler be EntryCompiler: LLVM then "
        "unrolls loops and takes twice as long.",
    )  # fmt: skip


def test_pipelines():
    from numba.core.compiler import Compiler, CompileResult
    from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
    from numba.core.untyped_passes import IRProcessing

    lost = members(Compiler, "define_pipelines") + members(PassManager, "add_pass_after", "finalize")
    needs(
        not lost and {"reload_init", "type_annotation", "metadata"} <= {*CompileResult._fields}
        and callable(register_pass) and issubclass(IRProcessing, FunctionPass),
        f"numba.core.compiler lacks {lost}, or CompileResult one of its fields",
        "Change LeanCompiler (dispatchers.py), which puts `count` in the place of `range`; it may be left "
        "out: Compiler itself "
        "in its place compiles the same kernels, more slowly.",
    )  # fmt: skip


def test_the_cache_of_a_dispatcher():
    from numba.core.compiler import CompileResult
    from numba.core.registry import CPUDispatcher, cpu_target
    from numba.core.runtime import rtsys
    from numba.core.serialize import dumps

    class Cache:
        def load_overload(self, sig, target_context):
            calls.append("load")

        def save_overload(self, sig, data):
            calls.append("save")

    calls, function = [], njit(lambda x: x)
    function._cache = Cache()
    function(1.0)
    lost = members(CompileResult, "_reduce", "codegen") + members(rtsys, "initialize")
    lost += members(cpu_target.target_context, "get_executable", "typing_context")
    lost += members(cpu_target.target_context.codegen(), "magic_tuple", "set_env")
    lost += members(CPUDispatcher, "_compilation_chain_init_hook")
    needs(
        calls == ["load", "save"] and not lost and len(function.overloads[types.float64,]._reduce()) == 9
        and dumps(None),
        f"the cache of a dispatcher has other methods, or these are missing: {lost}",
        "Change kernel_cache.py; as a first step leave out keep_in (dispatchers.py): every process then "
        "compiles anew.",
    )  # fmt: skip


def test_libraries_from_the_disk():
    from numba.core.codegen import JITCodeLibrary
    from numba.core.registry import cpu_target

    lost = members(
        JITCodeLibrary, "enable_object_caching", "_set_compiled_object", "_finalize_final_module",
        "_get_module_for_linking",
    ) + members(cpu_target.target_context.codegen()._engine, "get_function_address")  # fmt: skip
    needs(
        not lost, f"libraries of code, or the engine that holds them, lack {lost}",
        "Change LoadedLibrary (kernel_cache.py); as a first step let KernelCache load by CompileResult._rebuild.",
    )  # fmt: skip


def test_calls_of_functions():
    from numba.core.registry import cpu_target

    context = cpu_target.target_context
    lost = members(context, "declare_function", "insert_func_defn", "get_returned_value", "call_conv", "codegen")
    lost += members(context.call_conv, "_get_arg_packer")
    needs(
        not lost, f"the target's context lacks {lost}",
        "Change _unchecked_call (dispatchers.py); as a first step let get_overload be numba's: calls then "
        "ask after errors, "
        "which is a third more code.",
    )  # fmt: skip


def test_functions_as_types():
    lost = members(types, "Callable", "Dispatcher", "Opaque", "BaseNamedTuple", "EphemeralPointer")
    lost += members(types, "SimpleIterableType", "SimpleIteratorType")
    needs(
        not lost and not members(types.Callable, "get_call_type", "get_call_signatures", "get_impl_key"),
        f"numba.types lacks {lost}, or Callable has other methods",
        "Change by_type.py, or choose by numba.extending.overload as dynamics/algorithms/loads.py does.",
    )  # fmt: skip


def test_processors_are_known():
    import llvmlite.binding as llvm
    from numba.core.codegen import get_host_cpu_features

    needs(
        isinstance(get_host_cpu_features(), str) and isinstance(llvm.get_host_cpu_name(), str),
        "the features of the processor are no longer a string",
        "Change _native_lanes (vector.py), which tells four lanes from eight.",
    )  # fmt: skip


def test_events_of_compilation():
    from numba.core import event

    kinds = []

    class Listener(event.Listener):
        def on_start(self, event):
            kinds.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event):
            kinds.append("end")

    with event.install_listener("numba:compile", Listener()):
        njit(lambda x: x - 1.0)(np.float64(1.0))
    needs(
        kinds[:1] == ["<lambda>"] and kinds[-1] == "end",
        "compilation is no longer announced as the event numba:compile",
        "Change _Progress (compilation.py); without it kernels compile silently, and a tenth slower.",
    )  # fmt: skip


def test_events_of_llvm():
    from dynamics.simd.llvm_events import CALLBACKS

    needs(
        len(CALLBACKS) > 0 and all(len(pair) == 2 and all(map(callable, pair)) for pair in CALLBACKS),
        "llvmlite no longer keeps callbacks before and after its calls",
        "Delete llvm_events.py if calls of LLVM raise no events any more; else kernels load a sixth slower.",
    )


def test_entries():
    from numba.core import lowering
    from numba.core.registry import cpu_target
    from numba.core.typed_passes import NativeLowering

    lost = members(lowering.Lower, "create_cfunc_wrapper") + members(NativeLowering, "lowering_class")
    lost += members(cpu_target.target_context.call_conv, "get_function_type")
    needs(
        not lost, f"numba's lowering lacks {lost}",
        "Change entries.py, which adds an entry to each library; as a first step let PreparedCall of "
        "prepared_calls.py call the dispatcher with its arguments.",
    )  # fmt: skip


def test_intermediate_code_of_libraries():
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen

    lost = members(JITCodeLibrary, "_get_module_for_linking", "has_dynamic_globals")
    lost += members(JITCPUCodegen, "magic_tuple")
    needs(
        not lost, f"numba's libraries lack {lost}",
        "Change c_library/machine_code.py, which translates the intermediate code of kernels for C libraries; without "
        "it there are none.",
    )  # fmt: skip
