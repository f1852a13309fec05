"""The kernels' disk cache notices edits, and survives what happens to disks; its folder: `test_cache_folder`."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from llvmlite.binding import ffi

from dynamics.simd import (
    compilation,
    driver,
    kernel,
    kernel_cache,
    llvm_events,
    shared_kernel,
    shipped,
    source_keys,
    vector,
)
from dynamics.simd.compilation import lean_routine

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

LINKED = """
import sys
import numpy as np
from dynamics.simd import PROGRESS, routine

@routine
def double(x):
    return 2.0 * x

@routine
def quadruple(x):
    return double(double(x))

print(globals()[sys.argv[1]](np.ones(1))[0], PROGRESS.compiled)
"""

CLOSURES = """
import sys
import numpy as np
from dynamics.simd import driver, kernel

def times(factor):
    @kernel
    def multiply(x):
        x[0] = factor * x[0]

    return multiply

double, triple = times(2), times(3)

@driver
def doubled(x):
    double(x)

@driver
def tripled(x):
    triple(x)

@driver
def both(x):
    double(x)
    triple(x)

x = np.ones(1)
globals()[sys.argv[1]](x)
print(x[0])
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Function from a file's text to its key, in a project of three files: top (the text), `middle`, which imports
    `bottom`; `edit` changes `bottom`."""
    monkeypatch.setattr(source_keys, "ROOT", tmp_path)
    folder = tmp_path / "dynamics"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "middle.py").write_text("from dynamics.bottom import helper\n")
    (folder / "bottom.py").write_text("helper = 1\n")
    (folder / "apart.py").write_text("nothing = 0\n")

    def key(text, **edits):
        source_keys.forget()
        (folder / "top.py").write_text(text)
        for name, new in edits.items():
            (folder / f"{name}.py").write_text(new)
        return source_keys.source_key(folder / "top.py")

    yield key
    source_keys.forget()


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


def test_the_key_does_not_know_where_files_lie(package, tmp_path):
    """Source that the library writes lies in the cache, before or after the project in an alphabet of folders."""
    package("")
    for name in ("a", "z"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "written.py").write_text("from dynamics.middle import helper\n")
    first, last = (source_keys.source_key(tmp_path / name / "written.py") for name in ("a", "z"))
    assert first == last


def test_circular_imports_end(package):
    text = "from dynamics.middle import helper\n"
    before = package(text)
    assert package(text, bottom="from dynamics.top import something\n") != before


def test_events_of_llvm_are_off_while_kernels_are_loaded_and_on_again_afterwards():
    def registered():
        return [pair for pair in ffi.lib._lock._cblist if pair in llvm_events.CALLBACKS]

    assert registered() == list(llvm_events.CALLBACKS)
    with llvm_events.without_llvm_events():
        with llvm_events.without_llvm_events():
            assert not registered()
        assert not registered()
    assert registered() == list(llvm_events.CALLBACKS)


# ------------------------------------------------------------------------------------------------ known sources
@pytest.fixture
def project(tmp_path):
    """A source file that has not changed for an hour, and the file of what is known of sources."""
    source = tmp_path / "some.py"
    source.write_text("from dynamics.middle import helper\n")
    hour_ago = time.time() - 3600.0
    os.utime(source, (hour_ago, hour_ago))
    return source, tmp_path / "sources"


def settled(monkeypatch):
    """Let the clock be an hour ahead: a test cannot change when the file system says that files have changed."""
    now = time.time_ns
    monkeypatch.setattr(source_keys.time, "time_ns", lambda: now() + 3_600_000_000_000)


def known_of(source, file):
    """What a new process finds of a source; and that it has looked at the source itself only if it has to."""
    known = source_keys.KnownSources(file)
    found = known.source(str(source))
    known.write()
    return found


def test_sources_are_read_once(project, monkeypatch):
    settled(monkeypatch)
    source, file = project
    first = known_of(source, file)
    assert first.imports == (("dynamics.middle", ("helper",)),)
    monkeypatch.setattr(source_keys, "_read", None)  # whoever reads now, fails
    assert known_of(source, file) == first


@pytest.mark.parametrize("way", ["written", "replaced", "written, of the same size and time"])
def test_every_edit_is_noticed(project, way, monkeypatch):
    settled(monkeypatch)
    source, file = project
    first, before = known_of(source, file), source.stat()
    time.sleep(0.05)  # some ticks of the file system's clock
    text = "from dynamics.middle import another\n" if way == "written" else "from dynamics.middel import helper\n"
    if way == "replaced":
        other = source.with_name("other.py")
        other.write_text(text)
        os.replace(other, source)
    else:
        source.write_text(text)
    if way != "written":
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert source.stat().st_size == before.st_size
    changed = known_of(source, file)
    assert changed.digest != first.digest
    assert changed == source_keys._read(str(source)) == known_of(source, file)


def test_nothing_is_kept_of_a_file_that_has_just_changed(project):
    """It may change again within the tick of the clock."""
    source, file = project
    source.write_text("first = 1\n")
    known_of(source, file)
    assert not file.exists()


@pytest.mark.parametrize("content", [b"", b"damaged", pickle.dumps({}), pickle.dumps(3)])
def test_a_damaged_file_is_written_anew(project, content, monkeypatch):
    settled(monkeypatch)
    source, file = project
    file.write_bytes(content)
    first = known_of(source, file)
    assert kernel_cache.read_verified(file).keys() == {str(source)}
    assert known_of(source, file) == first


def test_a_file_of_another_form_is_written_anew(project, monkeypatch):
    settled(monkeypatch)
    source, file = project
    kernel_cache.write_verified(file, {str(source): 3})
    first = known_of(source, file)
    assert known_of(source, file) == first == source_keys._read(str(source))


def test_what_other_processes_add_is_kept(project, monkeypatch):
    settled(monkeypatch)
    source, file = project
    other = source.with_name("other.py")
    other.write_text("other = 1\n")
    gone = source.with_name("gone.py")
    gone.write_text("gone = 1\n")
    both = [source_keys.KnownSources(file) for _ in range(2)]
    for known, path in zip(both, (source, other), strict=True):
        known.source(str(path))
        known.source(str(gone))
    gone.unlink()
    for known in both:
        known.write()
    assert kernel_cache.read_verified(file).keys() == {str(source), str(other)}


@pytest.mark.parametrize(("best", "lanes", "found"), [(0, 8, 0), (1, 4, 1), (0, 4, None), (1, 8, None)])
def test_kernels_of_another_number_of_lanes_are_not_taken(monkeypatch, best, lanes, found):
    """As where AVX-512 is there in part, or is not to be used: drivers for four and eight lanes have the same types."""
    levels = list(shipped.LEVELS)
    monkeypatch.setattr(shipped.numba.config, "CPU_NAME", None)
    monkeypatch.setattr(shipped.numba.config, "CPU_FEATURES", None)
    monkeypatch.setattr(shipped, "host_levels", lambda: levels[best:])
    monkeypatch.setattr(shipped, "LANES", lanes)
    assert shipped.level.__wrapped__() == (None if found is None else levels[found])


@pytest.mark.parametrize("library", ["numba", "numpy"])
def test_versions_are_part_of_the_key(package, monkeypatch, library):
    before = package("")
    monkeypatch.setattr(getattr(shipped, library), "__version__", "0.0")
    assert package("") != before


def run(script, folder, *arguments, warned=0, **environment):
    """What a script prints that keeps its kernels in this folder, and warns so many times."""
    environment = {**os.environ, "TRAJOPT_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.count("RuntimeWarning") == warned, done.stderr
    return done.stdout.split()


def test_cache_directory_and_reuse(tmp_path):
    """The second process compiles nothing; an edit compiles again."""
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(KERNEL)
    assert run(script, folder) == ["1", "2.0"]
    assert len(list((folder / "kernels").rglob("*.nbc"))) == 1
    assert run(script, folder) == ["0", "2.0"]
    script.write_text(KERNEL.replace("2.0 * x", "3.0 * x"))
    assert run(script, folder) == ["1", "3.0"]


def test_each_processor_has_kernels_of_its_own(tmp_path):
    """Code for one does not run on another."""
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(KERNEL)
    for compiled in ("1", "0"):
        for name in ("x86-64-v2", "x86-64-v3"):
            assert run(script, folder, NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES="") == [compiled, "2.0"]


@pytest.mark.parametrize("name, features, lanes", [("v3", "", 4), ("v4", "-avx512f", 4), ("v4", "", 8)])
def test_lanes_are_those_of_the_processor_that_numba_compiles_for(monkeypatch, name, features, lanes):
    monkeypatch.setattr(compilation.numba.config, "CPU_NAME", f"x86-64-{name}")
    monkeypatch.setattr(compilation.numba.config, "CPU_FEATURES", features)
    assert vector._native_lanes() == lanes


def test_damaged_files_are_made_anew(tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(KERNEL)
    assert run(script, folder) == ["1", "2.0"]
    for file in folder.rglob("*.nbc"):
        file.write_bytes(file.read_bytes()[:40])
    assert run(script, folder) == ["1", "2.0"]
    assert run(script, folder) == ["0", "2.0"]


def test_a_flipped_bit_anywhere_is_noticed_before_the_file_is_used(tmp_path):
    """Bits of code, of a pickle and of the digest itself: the file goes, and the function is compiled again."""
    flipped = 0
    for part in np.linspace(0.0, 1.0, 9):
        function = twofold.wrapped()
        function.keep_in(tmp_path / "folder")
        function(np.ones(1))
        (file,) = (tmp_path / "folder").glob("*.nbc")
        content = bytearray(file.read_bytes())
        content[round(part * (len(content) - 1))] ^= 1 << flipped % 8
        file.write_bytes(content)
        again, x = twofold.wrapped(), np.ones(1)
        again.keep_in(tmp_path / "folder")
        with pytest.raises(kernel_cache.DamagedFileError, match="digest"):
            kernel_cache.read_verified(file)
        again(x)
        assert x[0] == 2.0 and not again.stats.cache_hits
        assert not file.exists() or file.read_bytes() != bytes(content)
        flipped += 1


def test_a_flipped_bit_does_not_end_the_next_process(tmp_path):
    """LLVM aborts over the first bits of machine code, and over many others, which no exception tells of."""
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(KERNEL)
    assert run(script, folder) == ["1", "2.0"]
    for file in folder.rglob("*.nbc"):
        content = bytearray(file.read_bytes())
        content[content.index(b"\x7fELF")] ^= 16
        file.write_bytes(content)
    assert run(script, folder) == ["1", "2.0"]
    assert run(script, folder) == ["0", "2.0"]


def test_a_full_disk_costs_compilations_only(tmp_path, monkeypatch):
    def full(*data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kernel_cache.KernelCache, "warned", False)
    functions = [twofold.wrapped() for _ in range(2)]
    for function in functions:
        function.keep_in(tmp_path / "folder")
    monkeypatch.setattr(kernel_cache, "write_verified", full)
    x = np.ones(1)
    with pytest.warns(RuntimeWarning, match="No space left") as caught:
        for function in functions:
            function(x)
    assert len(caught) == 1 and x[0] == 4.0 and caught[0].filename == __file__  # numba is in between


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


def test_code_from_the_disk_is_linked_into_a_caller(tmp_path):
    """Its intermediate code, which is not parsed before."""
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(LINKED)
    for name, printed in ("double", ["2.0", "1"]), ("quadruple", ["4.0", "1"]), ("quadruple", ["4.0", "0"]):
        assert run(script, folder, name) == printed


INTERRUPTED = """
import os, signal
import numpy as np
from numba.core import event
from dynamics.simd import PROGRESS, routine

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may have had it ignored

class Interrupt(event.Listener):
    def on_start(self, ev):
        os.kill(os.getpid(), signal.SIGINT)

    def on_end(self, ev):
        pass

@routine
def double(x):
    return 2.0 * x

try:
    with event.install_listener("numba:compile", Interrupt()):
        double(np.ones(1))
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
print(double(np.ones(1))[0], PROGRESS.compiled)
"""


def test_an_interrupt_waits_for_the_function_that_is_compiled(tmp_path):
    """It is kept, and the interrupt is not lost."""
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(INTERRUPTED)
    assert run(script, folder) == ["interrupted", "2.0", "1"]
    assert len(list((folder / "kernels").rglob("*.nbc"))) == 1


def test_shipped_code_is_compiled_again_for_a_caller(tmp_path):
    """It has no intermediate code; what is compiled again is not counted, and the file stays as it is."""
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(LINKED)
    assert run(script, folder, "double") == ["2.0", "1"]
    (path,) = folder.rglob("*.nbc")
    content = kernel_cache.without_intermediate_code(path)
    assert content is not None and len(content) < path.stat().st_size
    path.write_bytes(content)
    assert run(script, folder, "double") == ["2.0", "0"]
    assert run(script, folder, "quadruple") == ["4.0", "1"]
    assert path.read_bytes() == content and run(script, folder, "quadruple") == ["4.0", "0"]


@shared_kernel
def negate(x):
    x[0] = -x[0]


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


def test_closures_of_one_name_from_two_processes(tmp_path):
    """numba numbers functions anew in each process; both are linked into one caller here."""
    script, folder = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(CLOSURES)
    for name, result in ("doubled", "2.0"), ("tripled", "3.0"), ("both", "6.0"):
        assert run(script, folder, name) == [result]


def test_types_have_files_of_their_own(tmp_path):
    """Also where two processes compile at once, neither knows what the other has saved; a file that holds other types
    than its name says, as after a collision of names, is not taken for them."""
    first, second, third = (twofold.wrapped() for _ in range(3))
    for function in (first, second, third):
        function.keep_in(tmp_path)
    first(np.ones(1))
    (real,) = tmp_path.iterdir()
    second(np.ones(1, np.complex128))
    (other,) = {*tmp_path.iterdir()} - {real}
    other.write_bytes(real.read_bytes())
    for dtype in (np.float64, np.complex128):
        x = np.ones(1, dtype)
        third(x)
        assert x[0] == 2.0
    assert sum(third.stats.cache_hits.values()) == sum(third.stats.cache_misses.values()) == 1


def test_where_nothing_may_be_compiled_functions_are_loaded_or_refused(tmp_path):
    """And compiled afterwards, as ever."""
    first, second = (twofold.wrapped() for _ in range(2))
    for function in (first, second):
        function.keep_in(tmp_path)
    x = np.ones(1)
    with kernel_cache.loading_alone(), pytest.raises(kernel_cache.NotCompiledError):
        first(x)
    assert not [*tmp_path.glob("*.nbc")] and x[0] == 1.0
    first(x)
    with kernel_cache.loading_alone():
        first(x)
        second(x)
        assert x[0] == 8.0
        with pytest.raises(kernel_cache.NotCompiledError):
            second(np.ones(1, np.complex128))


def test_what_compiled_a_kernel_is_not_kept():
    """Neither numba's intermediate code with its types, nor a copy of LLVM's, which is made again for callers."""

    @lean_routine
    def inner(x):
        x[0] = 2.0 * x[0]

    @lean_routine
    def outer(x):
        inner(x)
        inner(x)

    x = np.ones(1)
    inner(x)
    (compiled,) = inner.overloads.values()
    assert compiled.type_annotation is compiled.metadata is compiled.library._shared_module is None
    outer(x)
    assert x == 8.0
