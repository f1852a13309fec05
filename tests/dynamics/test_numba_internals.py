"""What `dynamics.simd` takes from inside numba, one by one: after an upgrade these tests say what broke and what to do.

The page `docs/numba.md` has the list with its reasons.
"""

import inspect
from functools import reduce
from typing import ClassVar

import numpy as np
import pytest
from llvmlite import ir
from numba import njit, types
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import TypingError
from numba.extending import intrinsic

from dynamics.simd import kernel
from dynamics.simd.compilation import lean_routine, routine

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
        JITCodeLibrary, "_optimize_final_module", "_optimize_functions", "_finalize_final_module",
        "_finalize_dynamic_globals", "_ensure_finalized",
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
        "Change OptimizedLibrary (dispatchers.py); as a first step let KernelCompiler be PassesCompiler: LLVM then "
        "unrolls loops and takes twice as long.",
    )  # fmt: skip


def test_passes_over_functions_of_a_library():
    """Most variables that were in memory are in registers after them."""
    import llvmlite.binding as llvm
    from numba.core.codegen import JITCodeLibrary

    class Library(JITCodeLibrary):
        def _optimize_functions(self, ll_module):
            own = [f for f in ll_module.functions if not f.is_declaration and f.name.startswith("_ZN")]
            before = sum(str(f).count("alloca") for f in own)
            passes = llvm.create_new_function_pass_manager()
            for add in (passes.add_sroa_pass, passes.add_simplify_cfg_pass, passes.add_instruction_combine_pass):
                add()
            builder = llvm.create_pass_builder(self._codegen._tm, llvm.create_pipeline_tuning_options())
            for f in own:
                passes.run(f, builder)
            met.append((before, sum(str(f).count("alloca") for f in own)))
            super()._optimize_functions(ll_module)
            laid.append(ll_module.data_layout == self._codegen._data_layout)

    class LibraryCompiler(Compiler):
        def define_pipelines(self):
            self.state.library = Library(self.state.targetctx.codegen(), "library")
            self.state.library.enable_object_caching()
            return super().define_pipelines()

    met, laid = [], []
    njit(pipeline_class=LibraryCompiler)(_summed)(3, 0.5)
    needs(
        met and laid and met[0][0] > 2 * met[0][1] and all(laid),
        "a library no longer asks for passes over its functions by _optimize_functions, or passes are made otherwise",
        "Change KernelLibrary (dispatchers.py); as a first step leave out its _optimize_functions.",
    )


def _summed(n, x):
    total = 0.0
    for i in range(n):
        total += i * x
    return total


def test_pipelines():
    from numba.core.compiler import Compiler, CompileResult
    from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
    from numba.core.untyped_passes import IRProcessing

    lost = members(Compiler, "define_pipelines", "compile_extra") + members(PassManager, "add_pass", "finalize")
    needs(
        not lost and {"reload_init", "type_annotation", "metadata"} <= {*CompileResult._fields}
        and callable(register_pass) and issubclass(IRProcessing, FunctionPass),
        f"numba.core.compiler lacks {lost}, or CompileResult one of its fields",
        "Change PassesCompiler (passes.py), and LeanCompiler (dispatchers.py), which puts `count` in the place of "
        "`range`; it may be left out: Compiler itself in its place compiles the same kernels, more slowly.",
    )  # fmt: skip


class Passes(Compiler):
    """Numba's compiler, which keeps the names of its passes and what they left."""

    seen: ClassVar = {}

    def define_pipelines(self):
        (pipeline,) = super().define_pipelines()
        self.seen.update(state=self.state, passes=[step for step, _ in pipeline.passes])
        return [pipeline]


def test_passes_that_are_replaced_or_left_out():
    from dynamics.simd import passes

    njit(pipeline_class=Passes)(lambda x: x + 1.0)(1.0)
    state, names = Passes.seen["state"], Passes.seen["passes"]
    strange = [step.__name__ for step in (*passes._OURS, *passes._UNUSED) if names.count(step) != 1]
    lost = members(state, "typemap", "func_ir", "func_id", "flags", "type_annotation")
    lost += members(state.flags, "nrt", "copy") + members(state.func_ir, "blocks", "is_generator")
    needs(
        not strange and not lost and hash(state.flags) == hash(state.flags.copy()),
        f"compilation has {strange} not once, or its state lacks {lost}",
        "Change _OURS and _UNUSED (passes.py); as a first step leave out the rows of passes that are lost, all but "
        "NativeLowering: kernels then compile a fifth longer.",
    )  # fmt: skip


def test_passes_are_run_one_by_one():
    from numba.core.compiler_machinery import PassManager

    made = PassManager("made")
    made.finalize()
    lost = members(made, "_analysis", "_print_before", "_print_after", "_print_wrap", "pipeline_name")
    needs(
        not lost and parameters(PassManager._runPass) == ["self", "index", "pss", "internal_state"],
        f"PassManager runs passes otherwise, or lacks {lost}",
        "Change QuietPasses (passes.py); as a first step let it be PassManager: numba then tells of each pass, "
        "which takes 4 % of the time.",
    )  # fmt: skip


def test_results_without_annotations():
    from numba.core.compiler import CompileResult

    @kernel
    def shifted(x):
        return x + 1.0

    shifted.compile((types.float64,))
    compiled = shifted.overloads[types.float64,]
    needs(
        compiled._reduce()[6] == "None" and CompileResult._fields.index("type_annotation") >= 0,
        "what is compiled has annotations, or they are elsewhere in what is saved of it",
        "Look for another pass than AnnotateTypes to leave out (passes.py): annotations are a third of a cache file.",
    )  # fmt: skip


def test_functions_have_the_passes_they_need():
    """Closures, reductions, and fields by name in a kernel; arrays that expressions allocate, in a routine."""

    @kernel
    def closed(x):
        def scaled(y):
            return y * x

        return scaled(2.0) + scaled(3.0)

    @kernel
    def reduced(x):
        return reduce(_sum, (x, 2.0, 3.0))

    @kernel
    def chosen(x):
        return 5.0 if x is None else x + 1.0

    @lean_routine
    def called(x, field):
        return closed(x) + 10.0 * reduced(x) + 100.0 * chosen(None) + 1000.0 * chosen(x)

    @routine
    def joined(x):
        return np.array([2.0, 3.0]) * x + [y * 2.0 for y in range(2)][1]

    @routine
    def refused(x):
        if x < 0.0:
            raise ValueError("got", x)
        return x

    assert called(1.0, None) == 5.0 + 60.0 + 500.0 + 2000.0
    np.testing.assert_array_equal(joined(np.array([1.0, 2.0])), [4.0, 8.0])
    with pytest.raises(ValueError, match="got") as caught:
        refused(-1.0)
    assert caught.value.args == ("got", -1.0)


@njit
def _sum(x, y):
    return x + y


def test_flags_are_plain_arguments_of_inner_functions():
    """A call with True or False, written out or not, is one specialisation."""

    @kernel
    def chosen(x, flag):
        return x if flag else 2.0 * x

    @lean_routine
    def called(x, flag):
        return chosen(x, True) + 10.0 * chosen(x, False) + 100.0 * chosen(x, flag)

    assert called(1.0, False) == 221.0
    assert list(chosen.overloads) == [(types.float64, types.boolean)]


def test_shortcuts_are_in_place_while_kernels_compile():
    from dynamics.simd import shortcuts

    found = {place: place[0].__dict__.get(place[1]) for place in shortcuts._SHORTCUTS}
    met = []

    @intrinsic
    def meet(typing):
        met.append([getattr(cls, name) for cls, name in found])
        return types.void(), lambda context, builder, sig, args: None

    @kernel
    def meeting():
        meet()

    @kernel
    def broken(x):
        return x.there_is_none

    meeting.compile(())
    with pytest.raises(TypingError):
        broken.compile((types.float64,))
    needs(
        found == shortcuts._NUMBA_OWN and met[0] == [*shortcuts._SHORTCUTS.values()]
        and found == {place: place[0].__dict__.get(place[1]) for place in found},
        "what shortcuts stand for is not where it was, or they are in place elsewhere",
        "Change shortcuts.py; each of them may be left out: kernels then compile 3 % longer.",
    )  # fmt: skip


def test_types_of_functions_are_those_of_numba():
    """A function with a list of signatures is typed once for the same types; one for which another template is added is
    another function."""
    import operator

    from numba.core.typing import templates

    from dynamics.simd import shortcuts

    class Apart(templates.ConcreteTemplate):
        key = "apart"
        cases: ClassVar = [templates.signature(types.float64, types.float64)]

    class More(templates.ConcreteTemplate):
        key = "apart"
        cases: ClassVar = [templates.signature(types.int64, types.int64)]

    from numba.core.registry import cpu_target

    context, plain = cpu_target.typing_context, shortcuts._NUMBA_OWN[shortcuts.functions.BaseFunction, "get_call_type"]
    few, both = types.Function(Apart), types.Function((More, Apart))
    operators = [context.resolve_value_type(op) for op in (operator.add, operator.mul, operator.lt, abs)]
    with global_compiler_lock, shortcuts.shortcuts():
        numbers = types.int64, types.float64, types.literal(2)
        calls = [(function, (x,)) for function in (few, both, operators[3]) for x in numbers]
        calls += [(function, (x, y)) for function in operators[:3] for x in numbers for y in (*numbers, types.none)]
        for function, args in calls:
            try:
                wanted = plain(function, context, args, {})
            except TypingError:
                with pytest.raises(TypingError):
                    function.get_call_type(context, args, {})
                continue
            for _ in range(2):
                assert function.get_call_type(context, args, {}) == wanted
                assert function.get_impl_key(wanted) is not None
        needs(
            few.get_call_type(context, (types.int64,), {}).return_type == types.float64
            and both.get_call_type(context, (types.int64,), {}).return_type == types.int64
            and len(shortcuts._cases) > 4,
            "types of functions with lists of signatures are not those that their templates give",
            "Leave _typed_function of shortcuts.py out.",
        )
    assert not shortcuts._cases


def test_options_of_compilations_have_the_same_values():
    from numba.core.compiler import Flags

    from dynamics.simd import shortcuts

    plain, flags = shortcuts._NUMBA_OWN[shortcuts.targetconfig.TargetConfig, "values"], Flags()
    for change in ({}, {"nrt": True}, {"no_cpython_wrapper": True, "error_model": "numpy"}):
        for name, value in change.items():
            setattr(flags, name, value)
        assert shortcuts._values(flags) == plain(flags) and list(shortcuts._values(flags)) == list(plain(flags))


def test_types_of_numba_have_no_virtual_subclasses():
    """So that a shortcut may ask for their real ones."""
    kinds, found = [types.Type], set()
    while kinds:
        kind = kinds.pop()
        if kind not in found:
            found.add(kind)
            kinds += type.__subclasses__(kind)
    import abc

    registered = [kind for kind in found if next(iter(abc._get_dump(kind)), None)]
    needs(
        len(found) > 100 and not registered, f"{registered} have virtual subclasses",
        "Leave __instancecheck__ out of shortcuts.py.",
    )  # fmt: skip


def test_shortcuts_return_what_numba_does():
    """Variables of all statements of a function; types of operators, with numbers, arrays and what may be either."""
    import operator

    from numba.core import ir as numba_ir
    from numba.core.registry import cpu_target

    from dynamics.simd import shortcuts

    variables = shortcuts._NUMBA_OWN[numba_ir.Inst, "_rec_list_vars"]
    njit(pipeline_class=Passes)(_statements)(np.ones(3), 2)
    nodes = [node for block in Passes.seen["state"].func_ir.blocks.values() for node in block.body]
    nodes += [node.value for node in nodes if isinstance(node, numba_ir.Assign)]
    nodes = [[node.__dict__, (node, [node]), {"node": node}, node] for node in nodes]
    assert len({type(node) for *_, node in nodes}) > 7
    for value in (x for forms in nodes for x in forms):
        assert shortcuts._variables(nodes[0][3], value) == variables(nodes[0][3], value)

    typing = cpu_target.typing_context
    numbers = types.float64, types.int64, types.boolean, types.complex64, types.literal(3), types.none, types.intp
    arrays = types.Array(types.float64, 1, "C"), types.Array(types.int32, 2, "F")
    kinds = *numbers, *arrays, types.Optional(types.float64), types.Optional(arrays[0])
    binary = operator.add, operator.lt, operator.iadd, operator.pow, operator.floordiv
    calls = [(op, (x, y)) for op in binary for x in kinds for y in kinds]
    calls += [(op, (x,)) for op in (operator.neg, operator.invert) for x in kinds]

    def typed(op, args):
        try:
            return typing.resolve_function_type(op, args, {})
        except (TypingError, AttributeError, TypeError) as error:  # the last two for array += complex
            return type(error)

    with global_compiler_lock:
        typing.refresh()
        plain = [typed(*call) for call in calls]
        with shortcuts.shortcuts():
            short = [typed(*call) for call in calls]
    assert short == plain and TypingError in plain and len({str(x) for x in plain}) > 20


def _statements(x, n):
    total, pair = 0.0, (n, x[0])
    for i in range(n):
        if i > 1 and pair[1] > 0.0:
            total += x[i] * pair[0]
        else:
            x[i] = total
            x[1:] = max(total, 2.0)
    print(total, n)
    return total


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
