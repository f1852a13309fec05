"""The model in compiled code: one pointer to one block of memory, with the attributes of `ModelArrays`.

A tuple of twenty arrays is expensive as an argument: numba unpacks every array at every call from Python, and between
compiled functions it becomes 140 arguments, most of them on the stack.  Therefore Python passes drivers one array,
`model_block(arrays)`, and their first line turns it into the model that they pass to kernels:

    m = kernel_model(block)

Then m.parent, m.rotation, ... are spans of the arrays in `ModelArrays`, found through the block's head when they are
used.  The block is self-contained, so that it can be copied and pickled.  Kernels also run on `ModelArrays` itself.
"""

from pathlib import Path

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model

from dynamics.model.model_arrays import ModelArrays
from dynamics.simd.source_keys import source_key
from dynamics.simd.span import Span, constant, data_pointer, make_span

BODIES, DOFS, FRICTION, SPRINGS = range(4)
"""Positions in the head of the numbers of bodies, of degrees of freedom and of rows of joint friction and springs; the
positions of the arrays follow."""

LAYOUT = {
    "parent": (types.int64, BODIES, ()),
    "joint_type": (types.int64, BODIES, ()),
    "q_index": (types.int64, BODIES, ()),
    "v_index": (types.int64, BODIES, ()),
    "dof_count": (types.int64, BODIES, ()),
    "dof_parent": (types.int64, DOFS, ()),
    "dof_body": (types.int64, DOFS, ()),
    "subtree_end": (types.int64, DOFS, ()),
    "rotation": (types.float64, BODIES, (27,)),
    "translation": (types.float64, BODIES, (3,)),
    "dof_axis": (types.float64, DOFS, (3,)),
    "dof_angular": (types.int64, DOFS, ()),
    "joint_axis": (types.float64, BODIES, (3,)),
    "mass": (types.float64, BODIES, ()),
    "first_moment": (types.float64, BODIES, (3,)),
    "rotational_inertia": (types.float64, BODIES, (6,)),
    "subtree_mass": (types.float64, BODIES, ()),
    "armature": (types.float64, DOFS, ()),
    "gravity": (types.float64, None, (3,)),
    "last_child": (types.int64, BODIES, ()),
    "joint_friction": (types.float64, FRICTION, (3,)),
    "spring_dof": (types.int64, SPRINGS, (2,)),
    "spring": (types.float64, SPRINGS, (3,)),
}
"""For each array: the type of its entries, the number that counts its rows (None: no rows), the length of a row."""

_HEAD = 4 + len(LAYOUT)
_I64 = ir.IntType(64)
_BLOCK = types.Array(types.int64, 1, "C")


def model_block(arrays: ModelArrays) -> np.ndarray:
    """A copy of the arrays in one int64 array, whose head contains their positions; floats keep their bits."""
    parts = [getattr(arrays, name).ravel().view(np.int64) for name in LAYOUT]
    ends = _HEAD + np.cumsum([part.size for part in parts])
    counts = len(arrays.parent), len(arrays.dof_body), len(arrays.joint_friction), len(arrays.spring)
    head = np.array([*counts, _HEAD, *ends[:-1]], dtype=np.int64)
    return np.concatenate([head, *parts])


class KernelModel(types.Type):
    """Numba's type of the model: an opaque pointer to the block.  Its name changes with this file, so that no kernel
    compiled for another layout is loaded from the disk."""

    def __init__(self) -> None:
        super().__init__(name=f"KernelModel_{source_key(Path(__file__))}")


@register_model(KernelModel)
class _KernelModelModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _I64.as_pointer())


@intrinsic
def kernel_model(typing, block):
    """The model in a block."""
    if block != _BLOCK:
        raise TypingError(f"block is {block}; expected {_BLOCK}, such as a model's `block`")

    def generate(context, builder, sig, args):
        return data_pointer(context, builder, sig.args[0], args[0])

    return KernelModel()(_BLOCK), generate


def _span_of(name):
    entry, rows, columns = LAYOUT[name]
    return Span(entry, () if rows is None else columns)


@infer_getattr
class _KernelModelAttributes(AttributeTemplate):
    key = KernelModel

    def generic_resolve(self, model, name):
        return _span_of(name) if name in LAYOUT else None


def _head_number(builder, block, position):
    """A number of the head, which kernels do not change, so that LLVM may read it once."""
    number = builder.load(builder.gep(block, [constant(position)]))
    number.set_metadata("invariant.load", builder.module.add_metadata([]))
    return number


@lower_getattr_generic(KernelModel)
def _lower_array(context, builder, model, block, name):
    """One array of the block."""
    span, (_, rows, columns) = _span_of(name), LAYOUT[name]
    start = _head_number(builder, block, _HEAD - len(LAYOUT) + list(LAYOUT).index(name))
    data = builder.bitcast(builder.gep(block, [start]), context.get_value_type(types.CPointer(span.dtype)))
    count = constant(*columns) if rows is None else _head_number(builder, block, rows)
    return make_span(context, builder, span, data, count)
