"""`range` in kernels, cheaper to compile: numba divides to get the number of iterations, tests if the step is zero,
and raises if so.  Here a step that is written as a number is part of the type.

`CountPlainly` puts `count` in the place of `range` before types are inferred; kernels are written with `range`.
"""

from llvmlite import ir as llvm
from numba.core import cgutils, ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.imputils import RefType, iternext_impl, lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import models, register_model

_I64 = llvm.IntType(64)


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
    return llvm.Constant(_I64, number)


def _packed(builder, kind, members):
    value = llvm.Constant(kind, llvm.Undefined)
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
            for statement in block.find_insts(ir.Assign):
                value = statement.value
                if isinstance(value, ir.Global) and value.value is range:
                    statement.value, found = ir.Global("count", count, value.loc), True
        return found
