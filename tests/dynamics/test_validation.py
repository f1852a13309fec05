"""Checks of arguments: the kinds of their errors, and their one form."""

import re

import numpy as np
import pytest

from dynamics import validation
from dynamics.validation import WrongTypeError, as_array, as_choice, as_floats, look_up, unknown_name

ONE_FORM = re.compile(r"^name(\[[\d, ]+\])?: got .+, expected .+$")
TEXT, NUMBER, SHAPE, BOOL = "text", -2.5, np.zeros((2, 2)), True
"""Values of a wrong kind, out of range, of a wrong shape, and a boolean."""
REFUSED = [
    ("as_floats", (), [(TEXT, True), (None, True), (BOOL, True), ([1j], True), ([[1.0], [1.0, 2.0]], True)]),
    ("as_array", ((2,),), [(TEXT, True), (BOOL, True), (SHAPE, False), ([0.0, np.nan], False), ([np.inf, 0.0], False)]),
    ("as_batch", (2,), [(TEXT, True), ([0.0], False), ([0.0, np.nan], False)]),
    ("as_number_or_vector", (3,), [(TEXT, True), ([1.0, 2.0], False), (SHAPE, False)]),
    ("as_weights", (2,), [(TEXT, True), (NUMBER, False)]),
    ("as_sizes", (2,), [(TEXT, True), (NUMBER, False), (0.0, False)]),
    ("as_number", (), [(TEXT, True), (BOOL, True), ([1.0], False), (np.nan, False)]),
    ("as_positive", (), [(TEXT, True), (BOOL, True), (NUMBER, False), (0, False), (np.inf, False)]),
    ("as_positive", ("seconds",), [(None, True), (np.nan, False)]),
    ("as_not_negative", (), [(TEXT, True), (NUMBER, False), (np.nan, False)]),
    ("as_whole_number", (1,), [(TEXT, True), (2.0, True), (BOOL, True), (0, False)]),
    ("as_text", (), [(3, True), (None, True)]),
    ("as_name", (), [(3, True), ("", False)]),
    ("as_names", (2,), [(["a"], False)]),
    ("as_choice", (("one", "two"),), [("three", False), (3, False)]),
    ("look_up", ({"one": 1},), [("two", False), (3, False)]),
]


@pytest.mark.parametrize(("check", "arguments", "values"), REFUSED)
def test_errors_have_one_form_and_tell_types_from_numbers(check, arguments, values):
    for value, of_type in values:
        with pytest.raises(ValueError) as error:
            getattr(validation, check)("name", value, *arguments)
        assert isinstance(error.value, WrongTypeError) == isinstance(error.value, TypeError) == of_type
        assert ONE_FORM.match(str(error.value)), str(error.value)


@pytest.mark.parametrize(
    ("check", "value", "arguments"),
    [("as_flag", 1, ()), ("as_kind", 1, (str,)), ("as_items", "abc", ("names",)), ("as_names", "ab", (2,))],
)
def test_other_objects_are_type_errors(check, value, arguments):
    with pytest.raises(TypeError, match=ONE_FORM.pattern) as error:
        getattr(validation, check)("name", value, *arguments)
    assert not isinstance(error.value, ValueError)


def test_arrays_are_the_callers_own_unless_a_copy_is_asked_for():
    given = np.arange(6.0).reshape(2, 3)
    assert as_floats("name", given) is given and as_array("name", given, (2, None)) is given
    copied = as_array("name", given, copy=True)
    assert copied is not given and not np.shares_memory(copied, given) and (copied == given).all()
    assert as_array("name", given.T).flags.c_contiguous and as_array("name", [1, 2]).dtype == np.float64


@pytest.mark.parametrize("given", [
    np.ma.masked_array([1.0, 2.0], [False, True]), np.ma.masked_array([1, 2]), [np.ma.masked, 1.0],
    [np.ma.masked_array([1.0, 2.0], True)], (([1.0], np.ma.masked_array([2.0], True)),),
])  # fmt: skip
def test_masks_are_not_dropped(given):
    """Where nothing is hidden, too: whether code runs does not depend on the numbers."""
    with pytest.raises(WrongTypeError, match=r"name: got a masked array, expected an array of real numbers without a"):
        as_array("name", given)


def test_what_cannot_be_shown_is_named_all_the_same():
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(WrongTypeError, match=r"name: got .*, expected an array of real numbers") as error:
        as_floats("name", deep)
    assert len(str(error.value)) < 200
    with pytest.raises(WrongTypeError) as error:
        as_floats("name", ["x"] * 100_000)
    assert len(str(error.value)) < 200


def test_unknown_names_come_with_the_nearest_and_with_few_others():
    many = [f"joint {i}" for i in range(100)]
    message = str(unknown_name("name", "joint 1O", many))
    assert message.startswith("name: got 'joint 1O', expected one of 'joint 0', ")
    assert "; did you mean 'joint " in message
    assert message.count("'joint") < 14 and ", ..." in message
    with pytest.raises(ValueError, match="'joint 99'"):
        as_choice("name", "x", many)
    with pytest.raises(ValueError, match="name: got 'x', expected none"):
        look_up("name", "x", {})
