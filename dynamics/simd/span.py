"""Spans, a pointer and a count: the form of workspaces and of the arrays of a model in compiled code.

For numba an array is a structure of seven to eleven numbers, which every call passes one by one, and every subscript is
tested for its sign.  That was a third of the code given to LLVM.  A span is contiguous rows of one constant shape;
subscripts and slices must be at least zero and are not checked.  It owns nothing: the caller of the kernel keeps the
array.

    row shape ()             (n,) numbers
    row shape (LANES,)       (n, LANES) numbers of a workspace
    row shape (2, LANES)     (n, 2, LANES) complex numbers of a workspace
    row shape (None,)        (n, m) numbers, where m is part of the value

Kernels have the same source for arrays: x[i], x[i, k], x[a:b], x[a:b] = 0.0, x.shape, x.size, len(x).
"""

import hashlib
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin, lower_getattr, lower_getattr_generic
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.extending import intrinsic, models, register_model

_I64 = ir.IntType(64)


class Span(types.Type):
    """Numba type of rows of `dtype`, each of the shape `row`."""

    def __init__(self, dtype: types.Type, row: tuple[int | None, ...] = ()) -> None:
        self.dtype, self.row, self.ndim = dtype, row, 1 + len(row)
        super().__init__(name=f"Span{'x'.join(('', *map(str, row)))}({dtype})")

    def item(self, indices: int) -> types.Type:
        """Type of an item selected by this number of subscripts."""
        return self.dtype if indices == self.ndim else Span(self.dtype, self.row[indices:])


@register_model(Span)
class _SpanModel(models.StructModel):
    def __init__(self, manager, fe_type):
        members = [("data", types.CPointer(fe_type.dtype)), ("count", types.intp)]
        super().__init__(manager, fe_type, members + [("columns", types.intp)] * (None in fe_type.row))


# ------------------------------------------------------------------------------------------------ LLVM pieces
def constant(number: int) -> ir.Constant:
    """LLVM constant of type int64."""
    return ir.Constant(_I64, number)


def make_span(context, builder, span, *members):
    """The value of a type of spans: data, count, and columns if these are not constant."""
    value = ir.Constant(context.get_value_type(span), ir.Undefined)
    for i, member in enumerate(members):
        value = builder.insert_value(value, member, i)
    return value


def _row(builder, t, value):
    """The shape of a row."""
    return [builder.extract_value(value, 2) if size is None else constant(size) for size in t.row]


def _times(builder, number, sizes):
    """The product of a number and all sizes."""
    for size in sizes:
        number = builder.mul(number, size, flags=("nsw",))
    return number


def data_pointer(context, builder, t, value):
    """Pointer to the numbers of a span or an array."""
    if isinstance(t, Span):
        return builder.extract_value(value, 0)
    return builder.extract_value(value, context.data_model_manager[t].get_field_position("data"))


def pointer_and_rows(context, builder, t, value):
    """Pointer to the numbers of a span or an array, and the number of rows."""
    if isinstance(t, Span):
        return builder.extract_value(value, 0), builder.extract_value(value, 1)
    shape = context.data_model_manager[t].get_field_position("shape")
    return data_pointer(context, builder, t, value), builder.extract_value(value, [shape, 0])


@intrinsic
def flat(typing, array):
    """All numbers of a C-contiguous array as a span."""
    if not isinstance(array, types.Array) or array.layout != "C":
        raise TypingError(f"array is {array}; expected a C-contiguous array")

    def generate(context, builder, sig, args):
        count = builder.extract_value(args[0], context.data_model_manager[array].get_field_position("nitems"))
        return make_span(context, builder, sig.return_type, data_pointer(context, builder, array, args[0]), count)

    return Span(array.dtype)(array), generate


def _moved(builder, t, value, rows):
    """The address of a row."""
    return builder.gep(builder.extract_value(value, 0), [_times(builder, rows, _row(builder, t, value))])


def _element(context, builder, t, value, kinds, indices):
    """The address of the item selected by one or more subscripts."""
    sizes = _row(builder, t, value)
    place, *further = [context.cast(builder, x, kind, types.intp) for x, kind in zip(indices, kinds, strict=True)]
    for index in further:
        place = builder.add(_times(builder, place, [sizes.pop(0)]), index, flags=("nsw",))
    return builder.gep(builder.extract_value(value, 0), [_times(builder, place, sizes)])


def _part(context, builder, t, value, kind, bounds):
    """The address of the first row of a slice, and the number of rows."""
    part, count = context.make_helper(builder, kind, bounds), builder.extract_value(value, 1)
    stop = builder.select(builder.icmp_signed("<", part.stop, count), part.stop, count)
    return _moved(builder, t, value, part.start), builder.sub(stop, part.start)


# ------------------------------------------------------------------------------------------------ sizes
@infer_getattr
class _SpanAttributes(AttributeTemplate):
    key = Span

    def resolve_size(self, span):
        return types.intp

    def resolve_shape(self, span):
        return types.UniTuple(types.intp, span.ndim)


@lower_getattr(Span, "size")
def _lower_size(context, builder, t, value):
    return _times(builder, builder.extract_value(value, 1), _row(builder, t, value))


@lower_getattr(Span, "shape")
def _lower_shape(context, builder, t, value):
    return cgutils.pack_array(builder, [builder.extract_value(value, 1), *_row(builder, t, value)])


@infer_global(len)
class _SpanLength(AbstractTemplate):
    key = len

    def generic(self, args, kws):
        return signature(types.intp, *args) if isinstance(args[0], Span) else None


@lower_builtin(len, Span)
def _lower_len(context, builder, sig, args):
    return builder.extract_value(args[0], 1)


# ------------------------------------------------------------------------------------------------ subscripts
def _indices(t):
    """Types of the subscripts, from a tuple or a single one; None if they are not supported."""
    kinds = tuple(t) if isinstance(t, types.BaseTuple) else (t,)
    return kinds if all(isinstance(kind, types.Integer) for kind in kinds) else None


@infer_global(operator.getitem)
class _SpanItem(AbstractTemplate):
    key = operator.getitem

    def generic(self, args, kws):
        span, index = args
        if not isinstance(span, Span):
            return None
        if isinstance(index, types.SliceType):
            return signature(span, span, index)
        kinds = _indices(index)
        return signature(span.item(len(kinds)), span, index) if kinds and len(kinds) <= span.ndim else None


@infer_global(operator.setitem)
class _SetSpanItem(AbstractTemplate):
    key = operator.setitem

    def generic(self, args, kws):
        span, index, value = args
        if not isinstance(span, Span):
            return None
        if isinstance(index, types.SliceType):
            rows = isinstance(value, Span | types.Array) and value.ndim == span.ndim and value.dtype == span.dtype
            return signature(types.none, span, index, value if rows else span.dtype)
        kinds = _indices(index)
        return signature(types.none, span, index, span.dtype) if kinds and len(kinds) == span.ndim else None


def _unpacked(builder, t, value):
    """Types and values of subscripts."""
    if not isinstance(t, types.BaseTuple):
        return (t,), (value,)
    return tuple(t), cgutils.unpack_tuple(builder, value, len(t))


@lower_builtin(operator.getitem, Span, types.Integer)
@lower_builtin(operator.getitem, Span, types.BaseTuple)
def _lower_item(context, builder, sig, args):
    place = _element(context, builder, sig.args[0], args[0], *_unpacked(builder, sig.args[1], args[1]))
    if isinstance(sig.return_type, Span):
        left = _row(builder, sig.args[0], args[0])[-sig.return_type.ndim]
        return make_span(context, builder, sig.return_type, place, left)
    return builder.load(place)


@lower_builtin(operator.getitem, Span, types.SliceType)
def _lower_part(context, builder, sig, args):
    part = make_span(context, builder, sig.args[0], *_part(context, builder, *_pairs(sig, args)))
    return part if None not in sig.args[0].row else builder.insert_value(part, builder.extract_value(args[0], 2), 2)


def _pairs(sig, args):
    """Pairs of argument types and values."""
    return [x for pair in zip(sig.args[:2], args[:2], strict=True) for x in pair]


@lower_builtin(operator.setitem, Span, types.Integer, types.Any)
@lower_builtin(operator.setitem, Span, types.BaseTuple, types.Any)
def _lower_set_item(context, builder, sig, args):
    place = _element(context, builder, sig.args[0], args[0], *_unpacked(builder, sig.args[1], args[1]))
    builder.store(args[2], place)
    return context.get_dummy_value()


@lower_builtin(operator.setitem, Span, types.SliceType, types.Any)
def _lower_set_part(context, builder, sig, args):
    data, rows = _part(context, builder, *_pairs(sig, args))
    with cgutils.for_range(builder, _times(builder, rows, _row(builder, sig.args[0], args[0]))) as loop:
        value = args[2]
        if isinstance(sig.args[2], Span | types.Array):
            value = builder.load(builder.gep(data_pointer(context, builder, sig.args[2], value), [loop.index]))
        builder.store(value, builder.gep(data, [loop.index]))
    return context.get_dummy_value()


# --------------------------------------------------------------------------------------------
# Blocks of arrays by reference: at every call one pointer in place of ten numbers for each array.
#
#     e = by_reference(e)
#
# at the top of a driver puts a NamedTuple in its stack frame.  Kernels read its fields as before: arrays of one and two
# dimensions as spans, blocks inside it by reference.  The NamedTuple is constant, so that LLVM may read a field once;
# no reference outlives the call of the driver.

_I32 = ir.IntType(32)


class Reference(types.Type):
    """Numba type of a reference: an opaque pointer to a NamedTuple of this type."""

    def __init__(self, block: Any) -> None:
        self.block = block
        self.instance_class = block.instance_class
        kind = hashlib.sha256(block.name.encode()).hexdigest()[:12]  # names of functions contain it
        super().__init__(name=f"Reference({self.instance_class.__name__}_{kind})")


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, manager.lookup(fe_type.block).get_value_type().as_pointer())


@intrinsic
def by_reference(typing, block):
    """A reference to a NamedTuple; other values unchanged."""
    if not isinstance(block, types.BaseNamedTuple):
        return block(block), lambda context, builder, sig, args: args[0]

    def generate(context, builder, sig, args):
        return cgutils.alloca_once_value(builder, args[0])

    return Reference(block)(block), generate


def _field_type(reference, name):
    t = reference.block.types[reference.block.fields.index(name)]
    if isinstance(t, types.BaseNamedTuple):
        return Reference(t)
    if isinstance(t, types.Array) and t.layout == "C" and t.ndim in (1, 2):
        return Span(t.dtype, () if t.ndim == 1 else (None,))
    return t


@infer_getattr
class _ReferenceAttributes(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference, name):
        return _field_type(reference, name) if name in reference.block.fields else None


@lower_getattr_generic(Reference)
def _lower_field(context, builder, reference, pointer, name):
    index = reference.block.fields.index(name)
    t, array = _field_type(reference, name), reference.block.types[index]

    def place(*indices):
        return builder.gep(pointer, [ir.Constant(_I32, i) for i in (0, index, *indices)], inbounds=True)

    def number(*indices):
        loaded = builder.load(place(*indices))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if isinstance(t, Reference):
        return place()
    if not isinstance(t, Span) or isinstance(array, Span):
        return number()
    data, shape = (context.data_model_manager[array].get_field_position(x) for x in ("data", "shape"))
    return make_span(context, builder, t, number(data), *(number(shape, i) for i in range(array.ndim)))
