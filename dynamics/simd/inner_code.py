"""Libraries of functions that only compiled code calls: intermediate code, neither optimised nor translated.

numba optimises every function together with its callees and translates it for the processor, before it links the result
into the callers, where the same is repeated for each level of calls.  Inner functions leave both to the top-level
functions, which have the same code.
"""

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.untyped_passes import IRProcessing

from dynamics.simd.counting import CountPlainly
from dynamics.simd.kernel_cache import KernelCache, KernelCacheImpl


class _Forwarding:
    """A proxy of another object with some attributes of its own."""

    def __init__(self, other):
        self._other = other

    def __getattr__(self, name):
        return getattr(self._other, name)


class _NoAddresses(_Forwarding):
    """A code generator without addresses in memory, where inner functions have none."""

    def set_env(self, env_name, env):
        """Do nothing: environments are for functions that raise or call Python; called by numba."""

    def unserialize_library(self, serialized):
        """Library loaded from the disk."""
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


class LeanCompiler(Compiler):
    """numba's compiler with `count` in place of `range`."""

    def define_pipelines(self):
        """Passes of the compiler; called by numba before it compiles."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.add_pass_after(CountPlainly, IRProcessing)
            pipeline.finalize()
        return pipelines


class InnerCompiler(LeanCompiler):
    """Compiles into an `InnerLibrary`."""

    def define_pipelines(self):
        """Passes of the compiler; called by numba before it compiles."""
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
