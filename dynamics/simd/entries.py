"""An entry in the library of every driver and routine: the same function, called with the address of its arguments.

numba's dispatcher unpacks each array of each call, 1.6 us for the 69 machine words of a driver.  A caller that makes a
call again and again writes these words once, into a *block* of 64-bit words

    entry, place of the result, argument words ...

and hands its address to `i32 entry(i64 *block)`.  Argument words are the scalars of numba's calling convention in
order, widened to 64 bits.  The entry returns numba's status: 0, or -2 where None is returned.

numba emits a wrapper for callers in C before a library is finished; entries take its place.  So they lie with the
kernel on the disk, and are found after loading by their name.
"""

from llvmlite import ir
from numba.core import cgutils, lowering
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

WORD = ir.IntType(64)
ENTRY = ir.FunctionType(ir.IntType(32), [WORD.as_pointer()])
RESULT, ARGUMENTS = 1, 2
"""Places in a block: of the word that says where the result goes, and of the first argument."""


def entry_name(descriptor) -> str:
    """Name of the entry of a compiled function."""
    return f"entry.{descriptor.llvm_func_name}"


def _value(builder, word, kind):
    """A word as an argument of LLVM's type `kind`."""
    if isinstance(kind, ir.PointerType):
        return builder.inttoptr(word, kind)
    if isinstance(kind, ir.IntType):
        return word if kind.width == WORD.width else builder.trunc(word, kind)
    if isinstance(kind, ir.FloatType):
        return builder.bitcast(builder.trunc(word, ir.IntType(32)), kind)
    return builder.bitcast(word, kind)


class _LowerWithEntry(lowering.Lower):
    def create_cfunc_wrapper(self):
        """Add the function's entry to its library; called by numba where `no_cfunc_wrapper` is False."""
        descriptor, module = self.fndesc, self.context.create_module("entry")
        kernel = ir.Function(
            module,
            self.call_conv.get_function_type(descriptor.restype, descriptor.argtypes),
            descriptor.llvm_func_name,
        )
        entry = ir.Function(module, ENTRY, entry_name(descriptor))
        builder = ir.IRBuilder(entry.append_basic_block("entry"))

        def word(i):
            return builder.load(builder.gep(entry.args[0], [WORD(i)]))

        result, raised, *arguments = kernel.args
        exception = cgutils.alloca_once_value(builder, ir.Constant(raised.type.pointee, None))
        values = [_value(builder, word(ARGUMENTS + i), x.type) for i, x in enumerate(arguments)]
        place = builder.inttoptr(word(RESULT), result.type)
        builder.ret(builder.call(kernel, [place, exception, *values], attrs=("noinline",)))
        self.library.add_ir_module(module)


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweringWithEntry(NativeLowering):
    """Pass of numba's compiler that generates a function's code, and its entry."""

    _name = "lowering_with_entry"

    @property
    def lowering_class(self):
        """Class that generates the code; called by numba."""
        return _LowerWithEntry
