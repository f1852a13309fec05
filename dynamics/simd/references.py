"""Blocks of arrays by reference: at every call one pointer in place of ten numbers for each array.

    e = by_reference(e)

at the top of a driver puts a NamedTuple in its stack frame.  Kernels read its fields as before: arrays of one and two
dimensions as spans, blocks inside it by reference.  The NamedTuple is constant, so that LLVM may read a field once; no
reference outlives the call of the driver.
"""

import hashlib
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model

from dynamics.simd.span import Span, make_span

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
