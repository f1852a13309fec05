"""Passes of numba's compiler over kernels, drivers and routines: those of numba that have something to do.

Of numba's passes some are for what kernels do not have.  Closures, arrays that an expression allocates, and the end of
a variable's life, where a reference is given back, each take numba an analysis of all variables; for a function that
allocates nothing and has no closure these passes leave everything as it is.  Others serve people who read annotations.

numba also describes every pass to listeners before it runs it, with all types of all arguments: that takes longer than
most passes.
"""

from types import CodeType
from typing import ClassVar

from numba.core import errors, transforms, types
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.ir_utils import enforce_no_phis
from numba.core.typed_passes import (
    AnnotateTypes,
    DumpParforDiagnostics,
    IRLegalization,
    NativeLowering,
    NopythonRewrites,
)
from numba.core.untyped_passes import InlineClosureLikes

from dynamics.simd.entries import LoweringWithEntry
from dynamics.simd.shortcuts import shortcuts


@register_pass(mutates_CFG=True, analysis_only=False)
class ClosuresWhereThereAre(InlineClosureLikes):
    """Puts closures, reductions and comprehensions into the functions that have any."""

    _name = "closures_where_there_are"

    def run_pass(self, state):
        """Inline closures; called by numba."""
        code = state.func_id.code
        closures = "reduce" in code.co_names or any(isinstance(x, CodeType) for x in code.co_consts)
        return super().run_pass(state) if state.flags.nrt or closures else False


@register_pass(mutates_CFG=True, analysis_only=False)
class RewritesWhereAllocated(NopythonRewrites):
    """Joins expressions of arrays, in functions that may allocate their results, and looks for fields by name."""

    _name = "rewrites_where_allocated"

    def run_pass(self, state):
        """Rewrite typed code; called by numba."""
        named = any(isinstance(x, types.StringLiteral) for x in state.typemap.values())
        return super().run_pass(state) if state.flags.nrt or named else False


@register_pass(mutates_CFG=False, analysis_only=True)
class LifetimesWhereCounted(IRLegalization):
    """Marks where variables end, in functions that count references; elsewhere numba would set them to zero there."""

    _name = "lifetimes_where_counted"

    def run_pass(self, state):
        """Check the code, and mark ends of lifetimes; called by numba."""
        if state.flags.nrt or state.func_ir.is_generator:
            return super().run_pass(state)
        enforce_no_phis(state.func_ir)
        state.func_ir.blocks = transforms.canonicalize_cfg(state.func_ir.blocks)
        return True


_OURS = {
    InlineClosureLikes: ClosuresWhereThereAre,
    NopythonRewrites: RewritesWhereAllocated,
    IRLegalization: LifetimesWhereCounted,
    NativeLowering: LoweringWithEntry,
}
_UNUSED = AnnotateTypes, DumpParforDiagnostics


class QuietPasses(PassManager):
    """A list of passes, of which no listener is told."""

    def _runPass(self, index, pss, internal_state):
        if self._print_before or self._print_after or self._print_wrap:  # NUMBA_DEBUG_PRINT_AFTER and others
            super()._runPass(index, pss, internal_state)
            return
        pss.analysis = self._analysis
        with errors.new_error_context("Pass {name}", name=pss.name()):
            pss.run_initialization(internal_state)
            pss.run_pass(internal_state)
            pss.run_finalizer(internal_state)


class PassesCompiler(Compiler):
    """numba's compiler, with passes of our own."""

    _inserted: ClassVar[dict[type, type]] = {}
    """Passes in addition, by the pass of numba that each follows."""
    _pipelines: ClassVar[dict[tuple, list]] = {}

    def compile_extra(self, func):
        """Compile a function; called by numba."""
        with shortcuts():
            return super().compile_extra(func)

    def define_pipelines(self):
        """Passes of the compiler, one list for all functions of one kind; called by numba before it compiles."""
        key = type(self), self.state.func_ir is None, self.state.flags.copy()
        if key not in self._pipelines:
            self._pipelines[key] = [self._ours(pipeline) for pipeline in super().define_pipelines()]
        return self._pipelines[key]

    def _ours(self, pipeline):
        ours = QuietPasses(pipeline.pipeline_name)
        for step, text in pipeline.passes:
            if step not in _UNUSED:
                ours.add_pass(_OURS.get(step, step), text)
            if step in self._inserted:
                ours.add_pass(self._inserted[step], "ours")
        ours.finalize()
        return ours
