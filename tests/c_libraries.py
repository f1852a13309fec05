"""Libraries of C in tests: an object of one, from Python; compilers, and commands that have to succeed."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynamics.simd import shipped

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler `cc` on the PATH")
OLDER = "x86-64-v3" if "x86-64-v3" in shipped.host_levels() else "native"
"""A processor that programs like valgrind know all instructions of."""


class Loaded:
    """An object of a library in a folder, whose arrays have the numbers and sizes that its header says."""

    def __init__(self, folder: Path, name: str) -> None:
        self._library, self._name = ctypes.CDLL(str(folder / f"lib{name}.so")), name
        self._header = (folder / f"{name}.h").read_text(encoding="utf-8")
        self.pointer = ctypes.c_void_p(self.call("create", returns=ctypes.c_void_p))

    def call(self, name: str, *arguments: Any, returns: Any = ctypes.c_int) -> Any:
        """What a function of the library returns."""
        function = getattr(self._library, f"{self._name}_{name}")
        function.restype = returns
        return function(*arguments)

    def __call__(self, entry: str) -> None:
        """Make a computation, which has to succeed."""
        assert self.call(entry, self.pointer) == 0

    def __contains__(self, name: str) -> bool:
        return f" *{self._name}_{name}(" in self._header

    def __getitem__(self, name: str) -> np.ndarray:
        sizes = re.findall(rf"\b{self._name.upper()}_{name}_DIM\d+ = (\d+)", self._header)
        number = ctypes.c_int64 if f"int64_t *{self._name}_{name}(" in self._header else ctypes.c_double
        start = self.call(name, self.pointer, returns=ctypes.POINTER(number))
        return np.ctypeslib.as_array(start, tuple(map(int, sizes)))

    def close(self) -> None:
        """Free the object."""
        self.call("free", self.pointer, returns=None)


def succeeds(*command: str) -> str:
    """What a command prints, which has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout
