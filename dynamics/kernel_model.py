"""The model as compiled code sees it: one pointer to one block of memory, with the attributes of `ModelArrays`.

A tuple of twenty arrays is dear as an argument: numba looks at every array anew at every call from Python, and between
compiled functions it becomes 140 arguments, most of them on the stack.  So Python hands drivers one array,
`model_block(arrays)`, and their first line makes it the model that they hand on to kernels:

    m = kernel_model(block)

Then m.parent, m.rotation, ... are arrays as in `ModelArrays`, found through the block's head when they are used.  The
block owns all it holds and addresses nothing outside, so it may be copied and pickled.  Kernels run as well on
`ModelArrays` itself.
"""

from pathlib import Path

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import populate_array

from dynamics.model_arrays import ModelArrays
from dynamics.simd.compilation import source_key

BODIES, DOFS, FRICTION = 0, 1, 2
"""Where the numbers of bodies, of degrees of freedom and of rows of joint friction stand in the head; then follow the
places of the arrays."""

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
}
"""Of each array: the type of its entries, what its rows count (None: it has none), the length of a row."""

_HEAD = 3 + len(LAYOUT)
_I64 = ir.IntType(64)
_BLOCK = types.Array(types.int64, 1, "C")


def model_block(arrays: ModelArrays) -> np.ndarray:
    """A copy of the arrays in one int64 array, whose head says where they are; floats keep their bits."""
    parts = [getattr(arrays, name).ravel().view(np.int64) for name in LAYOUT]
    ends = _HEAD + np.cumsum([part.size for part in parts])
    counts = len(arrays.parent), len(arrays.dof_body), len(arrays.joint_friction)
    head = np.array([*counts, _HEAD, *ends[:-1]], dtype=np.int64)
    return np.concatenate([head, *parts])


class KernelModel(types.Type):
    """Numba's view of the model: an opaque pointer to the block.  Its name changes with this file, so that no kernel
    comes from the disk that was compiled for another layout."""

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
        return context.make_array(sig.args[0])(context, builder, args[0]).data

    return KernelModel()(_BLOCK), generate


def _array_type(name):
    entry, rows, columns = LAYOUT[name]
    return types.Array(entry, (rows is not None) + len(columns), "C")


@infer_getattr
class _KernelModelAttributes(AttributeTemplate):
    key = KernelModel

    def generic_resolve(self, model, name):
        return _array_type(name) if name in LAYOUT else None


def _constant(number):
    return ir.Constant(_I64, number)


def _head_number(builder, block, position):
    """A number of the head, which no store of a kernel can change: LLVM reads it once where it sees fit."""
    number = builder.load(builder.gep(block, [_constant(position)]))
    number.set_metadata("invariant.load", builder.module.add_metadata([]))
    return number


@lower_getattr_generic(KernelModel)
def _lower_array(context, builder, model, block, name):
    """One array of the block, not reference-counted."""
    array_type = _array_type(name)
    _, rows, columns = LAYOUT[name]
    shape = [] if rows is None else [_head_number(builder, block, rows)]
    shape += [_constant(count) for count in columns]
    strides = [_constant(8 * columns[0]), _constant(8)] if array_type.ndim == 2 else [_constant(8)]
    start = _head_number(builder, block, _HEAD - len(LAYOUT) + list(LAYOUT).index(name))
    array = context.make_array(array_type)(context, builder)
    data = builder.bitcast(builder.gep(block, [start]), array.data.type)
    populate_array(array, data, shape, strides, _constant(8), meminfo=None)
    return array._getvalue()
