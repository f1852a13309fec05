"""What a user may pass by mistake, by what was wanted, and the check that it is refused by name."""

import re

import numpy as np
import pytest

from dynamics.validation import WrongTypeError

THING = object()
ENDLESS: list = []
"""A list that contains itself, down which numpy goes until the stack ends, unless asked for the shape first."""
ENDLESS.append(ENDLESS)
MASKED = np.ma.masked_array(1.0, mask=True)
NUMBERS = (None, "text", THING, np.nan, np.inf, [1.0, 2.0], 1j, True, [], ENDLESS, MASKED)
AT_LEAST_ZERO = (*NUMBERS, -1.0)
POSITIVE = (*AT_LEAST_ZERO, 0.0)
WHOLE = (None, "text", THING, np.nan, np.inf, 1.5, [1], 1j, True, -1, ENDLESS, MASKED)
FLAGS = (None, "text", THING, 3, np.nan, [])
KINDS = (None, "text", THING, 3.0, [])
NAMES = (None, "", 3, THING, b"x", ["a"], {}, "nonsense")
NEW_NAMES = NAMES[:-1]
CHOICES = (None, 3, THING, "nonsense", ["a"])
SEQUENCES = (None, 3.0, THING, [None], [THING], ["nonsense"], "text", {})
PLACEMENTS = (
    "text", THING, 3.0, np.eye(3), (np.eye(3),), (2.0 * np.eye(3), np.zeros(3)), (np.eye(3), [np.nan, 0.0, 0.0]),
    (1j * np.eye(3), np.zeros(3)), ("a", "b"), (None, None),
)  # fmt: skip


def arrays(*shape: int, finite: bool = True) -> tuple:
    """Instead of an array of this shape; if its entries are looked at, also one with NaN, and one with Inf."""
    nan, inf, masked = np.ones(shape), np.ones(shape), np.ma.masked_less(np.ones(shape), 2.0)
    nan.flat[-1], inf.flat[0] = np.nan, np.inf
    wrong = (
        None, "text", THING, np.ones([n + 1 for n in shape]), np.ones((*shape, 1, 1)), 1j * np.ones(shape), [], 3.0,
        [["a"]], ENDLESS, [ENDLESS, 1.0], np.ones(shape) > 0.0, [THING] * shape[0], np.full(shape, "a"),
        [[1.0], [2.0, 3.0]], masked, list(masked),
    )  # fmt: skip
    return (*wrong, nan, inf) if finite else wrong


def rows(label, call, good: dict | None = None, **bad) -> list:
    """A row of a table for each argument: the call, its good arguments, the name of one, and the bad values of it."""
    return [pytest.param(call, good or {}, name, values, id=f"{label}-{name}") for name, values in bad.items()]


def assert_refused(call, good, name, values) -> None:
    """Every value of that argument raises a TypeError or ValueError that names it, says what came (numbers and text
    themselves) and what was expected; not for another that is missing."""
    for value in values:
        with pytest.raises((TypeError, ValueError)) as caught:
            call(**{**good, name: value})
        assert caught.type in (TypeError, ValueError, WrongTypeError), value  # no other that derives, as numpy has
        message = str(caught.value)
        assert re.search("expected|unknown|taken|already|has no|needed|but", message), (value, message)
        assert re.search(r"\b(got|returned|unknown|has|is|lacks)\b|taken", message), (value, message)
        if type(value) in (int, float, str):
            shown = repr(value), f"{value}", type(value).__name__, "shape (", "NaN"
            assert any(came in message for came in shown), (value, message)
        assert re.search(rf"\b{name}\b", message) and "argument:" not in message, (value, message)
