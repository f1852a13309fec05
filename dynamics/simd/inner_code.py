"""What numba keeps of a function that only compiled code calls: intermediate code, neither optimised nor translated.

numba optimises every function together with all that it calls and translates it for the processor, before it links the
result into the callers, where all of that happens again, once for each level of calls.  An inner function leaves both
to the functions at the top, which see the same code.
"""

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.untyped_passes import IRProcessing

from dynamics.simd.counting import CountPlainly
from dynamics.simd.kernel_cache import KernelCache, KernelCacheImpl


class _Forwarding:
    """An object with some attributes of its own, in place of those of another one."""

    def __init__(self, other):
        self._other = other

    def __getattr__(self, name):
        return getattr(self._other, name)


class _NoAddresses(_Forwarding):
    """A code generator without places in memory: nothing of an inner function lies there."""

    def set_env(self, env_name, env):
        """Called by numba with what a function that raises or calls Python needs; inner functions do neither."""

    def unserialize_library(self, serialized):
        """A library from the disk."""
        name, _, bitcode = serialized
        library = InnerLibrary(self._other, name)
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalize_final_module()
        return library


class _InnerContext(_Forwarding):
    def codegen(self):
        return _NoAddresses(self._other.codegen())


class InnerLibrary(JITCodeLibrary):
    """The code of an inner function, to be linked into its callers."""

    @property
    def codegen(self):
        """What numba asks for addresses."""
        return _NoAddresses(self._codegen)

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name):
        """No function has an address: 0."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self):
        """There is no object code."""
        return self.serialize_using_bitcode()


class LeanCompiler(Compiler):
    """numba's, but for `range`."""

    def define_pipelines(self):
        """Called by numba before it compiles."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.add_pass_after(CountPlainly, IRProcessing)
            pipeline.finalize()
        return pipelines


class InnerCompiler(LeanCompiler):
    """Compiles into an `InnerLibrary`."""

    def define_pipelines(self):
        """Called by numba before it compiles."""
        state = self.state
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _InnerCacheImpl(KernelCacheImpl):
    def rebuild(self, target_context, payload):
        result = CompileResult._rebuild(_InnerContext(target_context), *payload)
        return result._replace(target_context=target_context)


class InnerCache(KernelCache):
    """Loads an `InnerLibrary`."""

    _impl_class = _InnerCacheImpl
