"""Hashes of parameters: different for different ones, the same in every process."""

import os
import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tests.trajopt.test_solve_many import deadly_swing, swing
from trajopt.batch.many import digest, name_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Setting:
    mass: float
    targets: np.ndarray


class Point(tuple):
    """Another kind of tuple."""


VALUES = [
    None, True, 1, 1.0, -1.0, 0.0, -0.0, 1j, "1", b"1", (), (1,), [1], Point((1,)), (1, 2), ((1,), 2), {}, {"a": 1},
    {"a": 2}, {"b": 1}, {"a": 1, "b": 2}, {1, 2}, frozenset({1, 2}), np.ones(2), np.ones((2, 1)),
    np.ones(2, np.float32), np.array([1.0, 2.0]), Setting(1.0, np.ones(2)), Setting(1.0, np.zeros(2)),
    swing, deadly_swing, Setting, partial(swing, 1.0), partial(swing, 2.0), partial(deadly_swing, 1.0), Path("a"),
    slice(1, 2), ("ab", "c"), ("a", "bc"),
]  # fmt: skip


def test_different_parameters_have_different_hashes():
    assert len({digest(value) for value in VALUES}) == len(VALUES)


def test_hashes_do_not_depend_on_the_process():
    code = "from tests.trajopt.test_digest import *; print(*map(digest, VALUES))"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [digest(value) for value in VALUES]


def test_equal_parameters_have_equal_hashes():
    a, b = {"x": 1.0, "y": np.arange(6.0)}, {"y": np.arange(12.0)[::2] / 2, "x": np.float64(1.0)}
    b["y"] = np.asfortranarray(b["y"])
    assert digest(a) == digest(b) != digest(OrderedDict(a))
    text = "".join(["pen", "dulum"])
    assert digest(("pendulum", text)) == digest((text, text))
    assert digest(Setting(1.0, np.ones(2))) == digest(replace(Setting(2.0, np.ones(2)), mass=1.0))


def test_names():
    assert name_of(swing).endswith("test_solve_many.swing")
    assert name_of(partial(swing, 1.0)).startswith("partial of ") and name_of(Setting(1.0, np.ones(1))).endswith(
        "Setting"
    )
