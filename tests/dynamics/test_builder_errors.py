"""Bad input to the builder and to the shared checks: each error names the argument, what it got and what it wanted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import Continuous, Fixed, FreeFlyer, Planar, Prismatic, Revolute, Spherical, Translation
from dynamics.model.model import check_configuration
from dynamics.validation import as_array, as_batch

GOOD = {"name": "arm", "parent": "world", "joint": Revolute("z"), "mass": 1.0, "inertia": np.eye(3)}


def builder_with(**changes):
    builder = ModelBuilder()
    builder.add_body(**{**GOOD, **changes})
    return builder


BAD_ARGUMENTS = [
    ({"name": ""}, "name: got '', expected a nonempty string"),
    ({"name": 3}, "name: got 3, expected a nonempty string"),
    ({"parent": "wrld"}, "body 'arm': parent: got 'wrld', expected .*; did you mean 'world'"),
    ({"parent": None}, "body 'arm': parent: got None"),
    ({"joint_name": ""}, "body 'arm': joint_name: got ''"),
    ({"mass": -1.0}, r"body 'arm': mass: got -1.0, expected a number >= 0"),
    ({"mass": np.nan}, "body 'arm': mass: got nan, expected a number >= 0"),
    ({"mass": [1.0]}, r"body 'arm': mass: got shape \(1,\), expected \(\)"),
    ({"mass": "heavy"}, "body 'arm': mass: got 'heavy', expected a number"),
    ({"com": (0, 0)}, r"body 'arm': com: got shape \(2,\), expected \(3,\)"),
    ({"com": (0, np.inf, 0)}, r"body 'arm': com\[1\]: got inf"),
    ({"inertia": np.ones(3)}, r"body 'arm': inertia: got shape \(3,\), expected \(3, 3\)"),
    ({"inertia": np.eye(3) + np.eye(3, k=1)}, "body 'arm': inertia: got an asymmetric matrix"),
    ({"inertia": np.diag([-1.0, 1.0, 1.0])}, "body 'arm': inertia: got principal moments .* expected none negative"),
    ({"inertia": np.diag([1.0, 1.0, 2.1])}, "body 'arm': inertia: got principal moments .*triangle inequality"),
    ({"mass": 0.0}, "body 'arm': inertia: got a nonzero inertia with zero mass"),
    ({"placement": np.eye(3)}, "body 'arm': placement: got .* expected a pair"),
    ({"placement": (np.eye(3), (0, 0))}, r"body 'arm': placement translation: got shape \(2,\)"),
    ({"placement": (2 * np.eye(3), (0, 0, 0))}, "body 'arm': placement: got a rotation matrix that is not orthonormal"),
    ({"placement": (-np.eye(3), (0, 0, 0))}, "body 'arm': placement: got a rotation matrix of determinant -1"),
    ({"armature": -0.1}, "body 'arm': armature: got -0.1, expected no negative entry"),
    ({"armature": [0.1, 0.1]}, r"body 'arm': armature: got shape \(2,\), expected \(1,\)"),
    ({"damping": np.inf}, "body 'arm': damping: got inf"),
    ({"friction": -1}, "body 'arm': friction: got -1.0"),
    ({"velocity": -1}, "body 'arm': velocity: got -1.0"),
    ({"effort": np.nan}, "body 'arm': effort: got nan, expected numbers or infinities"),
    ({"lower": 1.0, "upper": 0.0}, "body 'arm': lower: got 1.0, above upper, 0.0"),
    ({"lower": np.nan}, "body 'arm': lower: got nan"),
    ({"joint": Continuous("x"), "upper": 1.0}, "body 'arm': upper: got 1.0, but a Continuous joint has no position"),
    ({"joint": Fixed(), "lower": 1.0}, "body 'arm': lower: got 1.0, but a Fixed joint has no position"),
    ({"joint": Fixed(), "armature": 1.0}, "body 'arm': armature: got 1.0, but a Fixed joint does not move"),
    ({"joint": Fixed(), "effort": 1.0}, "body 'arm': effort: got 1.0, but a Fixed joint does not move"),
    ({"joint": Spherical(), "upper": 1.0}, r"body 'arm': upper: got shape \(\), expected \(4,\)"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_ARGUMENTS)
def test_bad_argument_of_add_body(changes, message):
    builder = ModelBuilder()
    with pytest.raises(ValueError, match=message):
        builder.add_body(**{**GOOD, **changes})
    builder.add_body(**GOOD)  # the refused body has left nothing behind
    assert builder.build().body_names == ("arm",)


def test_joint_must_be_a_joint():
    with pytest.raises(TypeError, match="body 'arm': joint: got str, expected a joint"):
        builder_with(joint="revolute")


def test_duplicate_names():
    builder = builder_with(joint_name="shoulder")
    builder.add_frame("tip", "arm")
    for changes, message in [
        ({}, "name: there already is a body 'arm'"),
        ({"name": "tip"}, "name: there already is a frame 'tip'"),
        ({"name": "hand", "joint_name": "shoulder"}, "joint_name: there already is a joint 'shoulder'"),
        ({"name": "hand", "joint_name": "tip"}, "joint_name: there already is a frame 'tip'"),
    ]:
        with pytest.raises(ValueError, match=message):
            builder.add_body(**{**GOOD, **changes})
    for name, kind in (("arm", "body"), ("shoulder", "joint"), ("tip", "frame")):
        with pytest.raises(ValueError, match=f"name: there already is a {kind} '{name}'"):
            builder.add_frame(name, "arm")


def test_bad_frame():
    builder = builder_with()
    with pytest.raises(ValueError, match=r"frame 'tip': body: got 'amr', expected .*; did you mean 'arm'"):
        builder.add_frame("tip", "amr")
    with pytest.raises(ValueError, match="frame 'tip': placement: got a rotation matrix that is not orthonormal"):
        builder.add_frame("tip", "arm", (np.zeros((3, 3)), np.zeros(3)))


def test_empty_model():
    with pytest.raises(ValueError, match="the model is empty"):
        ModelBuilder().build()
    with pytest.raises(ValueError, match="the model is empty"):
        builder_with(joint=Fixed()).build()


@pytest.mark.parametrize("armature", [0.0, 1.0])
def test_massless_leaf(armature):
    builder = builder_with(mass=0.0, inertia=None, armature=armature)
    assert builder.build().is_kinematic == (armature == 0.0)  # but nothing else has mass either
    builder.add_body("other", "world", Revolute("z"), mass=1.0, com=(1, 0, 0))
    with pytest.raises(ValueError, match="body 'arm': mass: got zero mass"):
        builder.build()
    builder.add_body("hand", "arm", Fixed(), mass=1.0, com=(1, 0, 0))
    assert builder.build().total_mass == 2.0


def test_massless_body_that_carries_another_is_fine():
    builder = builder_with(mass=0.0, inertia=None)
    builder.add_body("hand", "arm", Revolute("x"), mass=1.0, inertia=np.eye(3))
    assert builder.build().arrays.mass.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("joint", "com"),
    [
        (Revolute("z"), (0.0, 0.0, 0.7)),
        (Revolute((1, 2, 3)), (0.1, 0.2, 0.3)),
        (Spherical(), (0.3, 0.4, 0.5)),
        (FreeFlyer(), (0.3, 0.4, 0.5)),
        (Planar(), (0.3, 0.4, 0.5)),
    ],
)
def test_leaf_without_inertia_along_its_joint(joint, com):
    """A point mass on the axis, or a ball joint with a point mass, has a singular mass matrix."""
    with pytest.raises(ValueError, match="body 'arm': inertia: got none along some motion of its"):
        builder_with(joint=joint, com=com, inertia=None).build()
    assert builder_with(joint=joint, com=com, inertia=None, armature=1e-3).build().nv == joint.nv
    assert builder_with(joint=joint, com=com, inertia=1e-6 * np.eye(3)).build().nv == joint.nv


@pytest.mark.parametrize("joint", [Prismatic("x"), Translation(), Revolute("x"), Continuous("y")])
def test_point_mass_that_its_joint_can_move(joint):
    assert builder_with(joint=joint, com=(0, 0, 0.4), inertia=None).build().nv == joint.nv


def test_rounded_published_figures_pass():
    """Thin plates sit on the edge of the triangle inequality, and printed rotations are not quite orthonormal."""
    builder_with(inertia=np.diag([0.123456, 0.234567, 0.358023 + 1e-8])).build()
    c, s = np.round([np.cos(0.3), np.sin(0.3)], 7)
    model = builder_with(joint=Translation(), placement=([[c, -s, 0], [s, c, 0], [0, 0, 1]], (0, 0, 0))).build()
    R = model.arrays.rotation[0, :9].reshape(3, 3)
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-15)


def test_nonphysical_link_is_a_warning_only_if_not_strict_and_lumped_into_a_physical_body():
    builder = ModelBuilder(strict=False)
    builder.add_body(**GOOD)
    builder.add_body("foot", "arm", Fixed(), mass=0.1, inertia=1e-6 * np.ones((3, 3)))
    with pytest.warns(UserWarning, match="no body can have the inertia given for 'foot'"):
        builder.build()
    builder.add_body("hand", "arm", Revolute("x"), mass=0.1, inertia=np.diag([1.0, 1.0, 3.0]))
    with pytest.raises(ValueError, match=r"body 'hand': inertia, with what is fixed to the body: .*triangle"):
        builder.build()


def test_overflow_is_refused():
    for changes in (
        {"mass": 1e200, "com": (1e200, 0, 0)},
        {"mass": 1.0, "com": (1e200, 0, 0)},
    ):
        with pytest.raises(ValueError, match="body 'arm': got an overflow"):
            builder_with(**changes).build()


finite = st.floats(allow_nan=False, allow_infinity=False)
anything = st.one_of(
    st.floats(),
    st.text(max_size=5),
    st.none(),
    st.complex_numbers(),
    st.lists(st.floats(), max_size=4),
    st.integers(),
    st.binary(max_size=3),
)


@given(
    argument=st.sampled_from(
        ["mass", "com", "inertia", "armature", "placement", "lower", "upper", "velocity", "damping"]
    ),
    value=anything,
)
def test_any_argument_builds_or_raises_a_value_error_naming_it(argument, value):
    try:
        model = builder_with(**{argument: value}).build()
    except ValueError as error:
        assert argument in str(error) or "overflow" in str(error) or "inertia" in str(error)
        return
    assert all(np.isfinite(array).all() for array in model.arrays)


@given(
    mass=st.floats(0, 1e300), com=hnp.arrays(float, 3, elements=finite), moments=hnp.arrays(float, 3, elements=finite)
)
def test_built_models_are_finite_with_positive_leaf_mass(mass, com, moments):
    try:
        model = builder_with(mass=mass, com=com, inertia=np.diag(moments)).build()
    except ValueError:
        return
    assert all(np.isfinite(array).all() for array in model.arrays)
    assert model.total_mass > 0.0 or model.is_kinematic
    assert moments.min() >= -1e-6 * np.abs(moments).max()


@given(value=hnp.arrays(float, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats()), n=st.integers(1, 4))
def test_as_batch_accepts_exactly_finite_points_and_batches(value, n):
    fits = value.ndim in (1, 2) and value.shape[-1] == n and np.isfinite(value).all()
    if not fits:
        with pytest.raises(ValueError, match=r"^tau"):
            as_batch("tau", value, n)
        return
    batch, single = as_batch("tau", value, n)
    assert single == (value.ndim == 1)
    np.testing.assert_array_equal(batch, np.atleast_2d(value))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1.0, 2.0], [3.0, np.nan]], r"x\[1, 1\]: got nan, expected finite numbers"),
        ([[1.0, 2.0, 3.0]], r"x: got shape \(1, 3\), expected \(2, 2\)"),
        ([[1.0, 2.0], [3.0]], "x: got .*, expected an array of real numbers"),
        ([["1", "2"], ["3", "4"]], "x: got .*, expected an array of real numbers"),
        ([[1j, 2], [3, 4]], "x: got .*, expected an array of real numbers"),
        (None, "x: got None, expected an array of real numbers"),
    ],
)
def test_as_array_errors(value, message):
    with pytest.raises(ValueError, match=message):
        as_array("x", value, (2, 2))


def test_arrays_that_fit_are_not_copied_and_others_are_converted():
    array = np.zeros((3, 2))
    assert np.shares_memory(as_array("x", array, (3, 2)), array)
    assert np.shares_memory(as_batch("x", array, 2)[0], array)
    assert as_array("x", [[1, 2]], (1, 2)).dtype == np.float64
    assert as_array("x", array.T, (2, 3)).flags.c_contiguous
    assert as_batch("x", np.zeros((0, 2)), 2)[0].shape == (0, 2)


@given(quaternion=hnp.arrays(float, 4, elements=finite), row=st.integers(0, 2))
def test_quaternions_must_be_unit(quaternion, row):
    builder = builder_with()
    builder.add_body("ball", "arm", FreeFlyer(), joint_name="float", mass=1.0, inertia=np.eye(3))
    model = builder.build()
    q = np.tile([0.3, 1, 2, 3, 0, 0, 0, 1.0], (3, 1))
    q[row, 4:] = quaternion
    largest = np.abs(quaternion).max()
    norm = 0.0 if largest == 0 else largest * np.linalg.norm(quaternion / largest) if largest < 1e300 else np.inf
    if abs(norm - 1) > 1e-6:
        with pytest.raises(ValueError, match=rf"q: the quaternion of joint 'float' \(q\[4:8\]\) in row {row} has norm"):
            check_configuration(model, q)
        q[row, 4:] = [0, 0.6, 0, 0.8 + 1e-7]
    np.testing.assert_array_equal(check_configuration(model, q)[0], q)


def test_configuration_shape():
    model = builder_with(joint=FreeFlyer()).build()
    with pytest.raises(ValueError, match=r"q: got shape \(6,\), expected \(7,\) or \(K, 7\)"):
        check_configuration(model, np.zeros(6))
    with pytest.raises(ValueError, match=r"q0: the quaternion of joint 'arm_joint' \(q0\[3:7\]\) has norm 0, expected"):
        check_configuration(model, np.zeros(7), name="q0")
