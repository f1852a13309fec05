"""The kernels' disk cache: it notices edits of what a file imports, and lies where it is told to."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dynamics.simd import compilation, driver, kernel, shared_kernel
from dynamics.simd.dispatchers import CAN_SHARE

ROOT = Path(compilation.__file__).parents[2]
KERNEL = """
import numpy as np
from dynamics.simd import PROGRESS, kernel

@kernel
def double(x):
    x[0] = 2.0 * x[0]

x = np.ones(1)
double(x)
print(PROGRESS.compiled, x[0])
"""

SHARED = """
import sys
import numpy as np
from dynamics.simd import PROGRESS, driver, helper, shared_kernel

@shared_kernel
def double(x):
    x[0] = 2.0 * x[0]

@helper
def quadruple(x):
    double(x)
    double(x)

@driver
def once(x):
    quadruple(x)

@driver
def twice(x):
    quadruple(x)
    quadruple(x)

x = np.ones(1)
globals()[sys.argv[1]](x)
print(PROGRESS.compiled, x[0])
"""


def forget():
    """Have the sources read again."""
    for name in ("source_key", "sources_of", "_imports_of", "_module_file", "_hash_of"):
        getattr(compilation, name).cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Function from a file's text to its key, in a project of three files: top (the text), `middle`, which imports
    `bottom`; `edit` changes `bottom`."""
    monkeypatch.setattr(compilation, "ROOT", tmp_path)
    folder = tmp_path / "dynamics"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "middle.py").write_text("from dynamics.bottom import helper\n")
    (folder / "bottom.py").write_text("helper = 1\n")
    (folder / "apart.py").write_text("nothing = 0\n")

    def key(text, **edits):
        forget()
        (folder / "top.py").write_text(text)
        for name, new in edits.items():
            (folder / f"{name}.py").write_text(new)
        return compilation.source_key(folder / "top.py")

    yield key
    forget()


@pytest.mark.parametrize(
    "text",
    [
        "from dynamics.middle import helper\n",
        "from dynamics.middle import (\n    helper,\n)\n",
        "import dynamics.middle\n",
        "import dynamics.middle as m\n",
        "from dynamics import middle\n",
        "from dynamics import apart, middle\n",
        "from dynamics import (apart, middle)\n",
        "from dynamics import (\n    apart,\n    middle,\n)\n",
        "def later():\n    from dynamics.middle import helper\n",
    ],
)
def test_editing_a_dependency_changes_the_key(package, text):
    before = package(text)
    assert package(text) == before
    assert package(text, bottom="helper = 2\n") != before
    assert package(text, bottom="helper = 1\n") == before


def test_editing_the_file_itself_or_nothing_of_it(package):
    text = "from dynamics.middle import helper\n"
    before = package(text)
    assert package(text, apart="nothing = 1\n") == before
    assert package(text + "# edited\n") != before


def test_circular_imports_end(package):
    text = "from dynamics.middle import helper\n"
    before = package(text)
    assert package(text, bottom="from dynamics.top import something\n") != before


def test_numba_version_is_part_of_the_key(package, monkeypatch):
    before = package("")
    monkeypatch.setattr(compilation.numba, "__version__", "0.0")
    assert package("") != before


def run(script, folder, *arguments):
    environment = {**os.environ, "TRAJOPT_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_cache_directory_and_reuse(tmp_path):
    """The second process compiles nothing; an edit compiles again."""
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(KERNEL)
    assert run(script, folder) == ["1", "2.0"]
    assert list((folder / "kernels").rglob("*.nbi"))
    assert run(script, folder) == ["0", "2.0"]
    script.write_text(KERNEL.replace("2.0 * x", "3.0 * x"))
    assert run(script, folder) == ["1", "3.0"]


needs_sharing = pytest.mark.skipif(not CAN_SHARE, reason="numba before 0.63 links all kernels into their callers")


@needs_sharing
def test_callers_of_a_shared_kernel_from_the_disk(tmp_path):
    """They find the kernel in a process that compiles nothing, or that has to compile the kernel anew, also through a
    helper that came from the disk itself."""
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(SHARED)
    for _ in range(2):
        assert run(script, folder, "once")[1] == "4.0"
        assert run(script, folder, "twice")[1] == "16.0"
    assert run(script, folder, "twice") == ["0", "16.0"]
    for file in folder.rglob("*double*"):
        file.unlink()
    assert run(script, folder, "twice") == ["1", "16.0"]
    assert run(script, folder, "once") == ["0", "4.0"]


@shared_kernel
def negate(x):
    x[0] = -x[0]


@needs_sharing
def test_a_shared_kernel_that_cannot_be_found_by_name_is_linked():
    hidden = shared_kernel(negate.py_func)

    @driver
    def by_address(x):
        negate(x)

    @driver
    def linked(x):
        hidden(x)

    x = np.ones(1)
    for caller, symbols in ((by_address, 1), (linked, 0)):
        before = x[0]
        caller(x)
        assert x[0] == -before
        (compiled,) = caller.overloads.values()
        assert len(compiled.reload_init) == symbols


@kernel
def twofold(x):
    x[0] = 2.0 * x[0]


def test_processes_that_compile_two_signatures_at_once(tmp_path, monkeypatch):
    """The second does not see what the first has saved, and the first is the last to write its code: one of the two is
    compiled again later, none taken for the other."""
    monkeypatch.setenv("TRAJOPT_CACHE_DIR", str(tmp_path))
    compilation.cache_root.cache_clear()
    try:
        first, second, third = (compilation.with_wrapper(twofold) for _ in range(3))
        files, late = first._cache._cache_file, []
        monkeypatch.setattr(second._cache._cache_file, "_load_index", dict)
        with monkeypatch.context() as patch:
            patch.setattr(files, "_save_data", lambda *data: late.append(data))
            first(np.ones(1))
        second(np.ones(1, np.complex128))
        files._save_data(*late[0])
        assert {path.name for path in tmp_path.rglob("*.nbc")} >= {files._data_path(late[0][0]).rsplit("/")[-1]}
        for dtype in (np.float64, np.complex128):
            x = np.ones(1, dtype)
            third(x)
            assert x[0] == 2.0
        assert third.stats.cache_hits and third.stats.cache_misses
    finally:
        compilation.cache_root.cache_clear()
