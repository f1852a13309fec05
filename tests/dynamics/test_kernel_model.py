"""The block of memory that compiled code reads the model from."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numba.core.errors import TypingError

from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import Revolute
from dynamics.model.kernel_model import LAYOUT, kernel_model
from dynamics.model.model_arrays import ModelArrays
from dynamics.simd import routine
from tests.reference.rigid_body_models import NAMES, load_reference


@routine
def _numbers(x, zero):
    return np.array([x[i] for i in range(len(x))] + [zero])[:-1]


@routine
def _rows(x, zero):
    out = np.full(x.shape, zero)
    for i in range(len(x)):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j]
    return out


@routine
def _read(block):
    """Copies of all arrays, in the order of `ModelArrays`."""
    m = kernel_model(block)
    return (
        _numbers(m.parent, 0), _numbers(m.joint_type, 0), _numbers(m.q_index, 0), _numbers(m.v_index, 0),
        _numbers(m.dof_count, 0), _numbers(m.dof_parent, 0), _numbers(m.dof_body, 0), _numbers(m.subtree_end, 0),
        _rows(m.rotation, 0.0), _rows(m.translation, 0.0), _rows(m.dof_axis, 0.0), _numbers(m.dof_angular, 0),
        _rows(m.joint_axis, 0.0), _numbers(m.mass, 0.0), _rows(m.first_moment, 0.0), _rows(m.rotational_inertia, 0.0),
        _numbers(m.subtree_mass, 0.0),
        _numbers(m.armature, 0.0), _numbers(m.gravity, 0.0), _numbers(m.last_child, 0), _rows(m.joint_friction, 0.0),
        _rows(m.spring_dof, 0), _rows(m.spring, 0.0),
    )  # fmt: skip


@routine
def _no_such_array(block):
    return kernel_model(block).nothing


def assert_same_arrays(found, expected: ModelArrays):
    for name, x, y in zip(expected._fields, found, expected, strict=True):
        assert x.dtype == y.dtype and np.array_equal(x, y), name


def test_the_layout_names_every_array():
    assert tuple(LAYOUT) == ModelArrays._fields


@pytest.mark.parametrize("name", NAMES)
def test_compiled_code_reads_the_arrays_of_the_model(name):
    model, _ = load_reference(name)
    assert_same_arrays(_read(model.block), model.arrays)
    rows = np.arange(3.0 * model.nv).reshape(-1, 3)
    rubbing = replace(model, arrays=model.arrays._replace(joint_friction=rows))
    assert_same_arrays(_read(rubbing.block), rubbing.arrays)


def test_one_body():
    builder = ModelBuilder(name="pendulum")
    builder.add_body("rod", "world", Revolute("y"), mass=1.0, com=(0, 0, -0.5), inertia=np.eye(3))
    model = builder.build()
    assert_same_arrays(_read(model.block), model.arrays)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_the_block_outlives_the_model_it_was_copied_with(duplicate):
    model, _ = load_reference("hyq")
    expected, other = model.arrays, duplicate(model)
    block = pickle.loads(pickle.dumps(model.block))
    model.block[:] = -1
    assert_same_arrays(_read(other.block), expected)
    assert_same_arrays(_read(block), expected)


def test_what_is_no_model():
    model, _ = load_reference("ur5")
    with pytest.raises(TypingError, match=r"expected array\(int64, 1d, C\)"):
        _read(model.arrays)
    with pytest.raises(TypingError, match="nothing"):
        _no_such_array(model.block)
