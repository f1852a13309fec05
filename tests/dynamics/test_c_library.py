"""Libraries of prepared calls: the same bits as here, from Python and in C programs, also for other processors."""

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
import pytest

import problems
from dynamics import PointContact, RigidBodySystem, frame_placement, load_urdf
from dynamics.simd import by_address, routine
from dynamics.simd.c_library import write_library
from dynamics.simd.c_library.machine_code import _renamed, target_of
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls, enter
from dynamics.systems.discrete_system import ClosedLoops
from dynamics.tape.expressions import Expressions, Tapes
from dynamics.tape.trace import traceable, traced
from problems.quadruped_model import FEET, quadruped, standing
from tests.c_libraries import OLDER, Loaded, needs_cc, succeeds
from tests.tolerances import IDENTITY, relative_error


class Case(NamedTuple):
    """A library's entries and arrays, inputs first, and which of these are inputs."""

    entries: dict[str, Any]
    arrays: dict[str, np.ndarray]
    inputs: tuple[str, ...]


def robot_case(system: RigidBodySystem, N: int) -> Case:
    """Rollouts and expansions."""
    xs, us = np.zeros((N + 1, system.nx)), np.zeros((N, system.nu))
    x0, k, K, lam = xs[0].copy(), np.zeros_like(us), np.zeros((N, system.nu, system.ndx)), np.zeros((N, system.ndx))
    fx, fu = np.zeros((N, system.ndx, system.ndx)), np.zeros((N, system.ndx, system.nu))
    H = np.zeros_like(fx), np.zeros((N, system.nu, system.ndx)), np.zeros((N, system.nu, system.nu))
    (alphas, _), X, U = system.candidate_lanes(N, np.array([1.0, 0.5]))
    X[...], U[...] = 0.0, 0.0
    loops = ClosedLoops.of(x0, xs, us, k, K, alphas)
    roll = system.prepared_roll(loops, 0, N, X, U)
    expand = system.prepared_expansion(xs, us, fx, fu, lam, *H)
    given = {"xs": xs, "us": us, "x0": x0, "k": k, "K": K, "lam": lam}
    found = {"X": X, "U": U, "fx": fx, "fu": fu, "Hxx": H[0], "Hux": H[1], "Huu": H[2]}
    return Case({"roll": roll, "expand": expand}, given | found, tuple(given))


def arm() -> tuple[Case, dict[str, np.ndarray]]:
    """A rollout and an expansion of the arm, and numbers for its inputs."""
    system = RigidBodySystem(load_urdf(problems.model_path("arm6")), 0.02, "rk4")
    return _at(system, system.state(np.array([0.0, -1.2, 1.6, -1.9, -1.6, 0.0])))


def stand() -> tuple[Case, dict[str, np.ndarray]]:
    """The same of a quadruped on two feet."""
    model, q = quadruped(), standing()
    feet = [PointContact(model, foot, (600.0, 50.0), frame_placement(model, q, foot).p) for foot in FEET[::3]]
    system = RigidBodySystem(model, 0.02, "semi_implicit_euler", "floating_base", feet)
    return _at(system, system.state(q))


def _at(system: RigidBodySystem, x: np.ndarray, N: int = 5) -> tuple[Case, dict[str, np.ndarray]]:
    rng, case = np.random.default_rng(7), robot_case(system, N)
    numbers = {name: 0.1 * rng.standard_normal(case.arrays[name].shape) for name in case.inputs}
    numbers["xs"] = system.integrate(np.tile(x, (N + 1, 1)), 0.1 * rng.standard_normal((N + 1, system.ndx)))
    numbers["x0"] = numbers["xs"][0].copy()
    return case, numbers


def swing(x: np.ndarray, u: np.ndarray) -> tuple:
    return x[1], np.sin(x[0]) * np.exp(-x[1]) + u[0] * np.hypot(x[0], 1.0)


def user() -> tuple[Case, dict[str, np.ndarray]]:
    """A traced function and its Jacobian."""
    rng, X, U = np.random.default_rng(7), np.zeros((9, 2)), np.zeros((9, 1))
    e = Expressions(2, 1, lambda x, u: traced(traceable(swing), x, u))
    tapes = Tapes(e, lambda: e.y[None], lambda: e.J[None], lambda: e.H[None])
    (value, y), (slope, J) = tapes.prepared(0, X, U), tapes.prepared(1, X, U)
    y[...], J[...] = 0.0, 0.0
    case = Case({"both": PreparedCalls(value, slope)}, {"X": X, "U": U, "y": y, "J": J}, ("X", "U"))
    return case, {"X": rng.standard_normal(X.shape), "U": rng.standard_normal(U.shape)}


def here(case: Case, numbers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All arrays after the entries' calls in this process."""
    for name, value in numbers.items():
        case.arrays[name][...] = value
    for call in case.entries.values():
        call()
    return {name: x.copy() for name, x in case.arrays.items()}


class Written(NamedTuple):
    """A library in a folder, numbers for its inputs, and what all arrays hold after its entries' calls."""

    folder: Path
    name: str
    case: Case
    numbers: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]


def written(make, target: str, folder: Path) -> Written:
    case, numbers = make()
    write_library(folder, make.__name__, case.entries, case.arrays, target=target)
    return Written(folder, make.__name__, case, numbers, here(case, numbers))


@pytest.fixture(scope="module", params=[arm, stand, user])
def native(request, tmp_path_factory):
    return written(request.param, "native", tmp_path_factory.mktemp("native") / request.param.__name__)


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    return written(arm, OLDER, tmp_path_factory.mktemp("older") / "arm")


# ------------------------------------------------------------------------------------------------ from Python
@needs_cc
def test_the_same_bits(native):
    first, other = Loaded(native.folder, native.name), Loaded(native.folder, native.name)
    for name, value in native.numbers.items():
        first[name][...] = value
    for entry in native.case.entries:
        assert first.call(entry, first.pointer) == 0
    for name, expected in native.expected.items():
        assert first[name].tobytes() == expected.tobytes(), name
        assert name in native.numbers or not other[name].any(), "objects share nothing"
    first.close()
    other.close()


# ------------------------------------------------------------------------------------------------ in C
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "NAME.h"

static int failed;

static void *work(void *self) {
    for (int i = 0; i < 2; i++)
        if (CALLS)
            failed = 1;
    return NULL;
}

int main(int count, char **names) {
    void *memory = aligned_alloc(64, NAME_size());
    NAME_t *selves[] = {NAME_create(), NAME_init(memory)};
    if (count != 3 || !selves[0] || !selves[1] || NAME_init(NULL) || NAME_init((char *)memory + 8) != NULL)
        return 2;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        FILE *given = fopen(names[1], "rb");
        READ
        fclose(given);
        if (pthread_create(&threads[i], NULL, work, selves[i]))
            return 4;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    FILE *found = fopen(names[2], "wb");
    WRITE
    fclose(found);
    NAME_free(selves[0]);
    free(memory);
    return failed;
}
"""


def program(made: Written) -> str:
    """Two objects in two threads, which compute the same."""
    name, upper = made.name, made.name.upper()
    calls = " || ".join(f"NAME_{entry}(self)" for entry in made.case.entries)
    read = "\n".join(
        f"if (fread(NAME_{x}(selves[i]), 8, {upper}_{x}_SIZE, given) != {upper}_{x}_SIZE) return 3;"
        for x in made.numbers
    )
    write = "\n".join(
        f"if (memcmp(NAME_{x}(selves[0]), NAME_{x}(selves[1]), 8 * {upper}_{x}_SIZE)) return 5;\n"
        f"fwrite(NAME_{x}(selves[0]), 8, {upper}_{x}_SIZE, found);"
        for x in made.expected
    )
    text = PROGRAM.replace("CALLS", calls).replace("READ", read).replace("WRITE", write)
    return text.replace("NAME", name)


def run(made: Written, folder: Path, *options: str, compiler: str = "cc", under: tuple[str, ...] = ()):
    """Compile and run the program; returns all arrays of its objects in the end."""
    source, given, found = folder / "main.c", folder / "given", folder / "found"
    source.write_text(program(made), encoding="utf-8")
    given.write_bytes(b"".join(x.tobytes() for x in made.numbers.values()))
    strict = "-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", str(made.folder)
    succeeds(compiler, *strict, str(source), "-o", str(folder / "main"), *options)
    succeeds(*under, str(folder / "main"), str(given), str(found))
    numbers, start, arrays = np.fromfile(found), 0, {}
    for name, x in made.expected.items():
        arrays[name] = numbers[start : start + x.size].reshape(x.shape)
        start += x.size
    return arrays


@needs_cc
def test_programs_with_the_shared_library(native, tmp_path):
    shared = "-L", str(native.folder), f"-l{native.name}", f"-Wl,-rpath,{native.folder}"
    found = run(native, tmp_path, *shared)
    for name, expected in native.expected.items():
        assert found[name].tobytes() == expected.tobytes(), name


def the_same(found: dict[str, np.ndarray], made: Written, bits: bool) -> None:
    """Of another processor than this one the bits are the same where both fuse products and sums."""
    for name, expected in made.expected.items():
        assert found[name].tobytes() == expected.tobytes() or not bits, name
        assert relative_error(found[name], expected) <= IDENTITY, name


def fuses() -> bool:
    """True where code compiled for this process fuses products and sums."""
    text = """define double @fused(double %x) {
        %y = fmul contract double %x, %x
        %z = fadd contract double %y, %x
        ret double %z
    }"""
    return "vfm" in target_of("native").machine().emit_assembly(llvm.parse_assembly(text))


@needs_cc
@pytest.mark.parametrize("checker", ["sanitizer", "valgrind"])
def test_programs_with_the_static_library(older, checker, tmp_path):
    """For an older processor, with checks of undefined behaviour, and of all accesses to memory."""
    options, under = ("-g", "-fsanitize=undefined", "-fno-sanitize-recover=all"), ()
    if checker == "valgrind":
        if shutil.which("valgrind") is None:
            pytest.skip("no valgrind on the PATH")
        options, under = ("-g",), ("valgrind", "-q", "--error-exitcode=9", "--leak-check=full")
    found = run(older, tmp_path, *options, str(older.folder / "libarm.a"), "-lm", under=under)
    the_same(found, older, bits=fuses())


@needs_cc
def test_several_libraries_in_one_program(older, tmp_path):
    """Also of the same calls; headers and libraries serve C++ too."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler `c++` on the PATH")
    case = older.case
    write_library(tmp_path / "two", "two", {"roll": case.entries["roll"]}, {"xs": case.arrays["xs"]}, target=OLDER)
    source = tmp_path / "main.cpp"
    source.write_text("""
        #include "arm.h"
        #include "two.h"
        static_assert(ARM_xs_SIZE == TWO_xs_DIM0 * TWO_xs_DIM1, "the same shape");
        int main() {
            arm_t *arm = arm_create();
            two_t *two = two_create();
            int status = arm_roll(arm) || two_roll(two);
            status = status || arm_X(arm)[ARM_X_SIZE - 1] == 0.0;
            arm_free(arm);
            two_free(two);
            return status;
        }
    """, encoding="utf-8")  # fmt: skip
    folders = older.folder, tmp_path / "two"
    libraries = [str(folder / name) for folder, name in zip(folders, ("libarm.a", "libtwo.a"), strict=True)]
    included = [f"-I{folder}" for folder in folders]
    succeeds("c++", "-Wall", "-Werror", *included, str(source), *libraries, "-lm", "-o", str(tmp_path / "main"))
    succeeds(str(tmp_path / "main"))


@needs_cc
def test_cmake_finds_the_library(older, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake on the PATH")
    tmp_path.joinpath("main.c").write_text(
        '#include "arm.h"\nint main(void) { return arm_size() == 0; }\n', encoding="utf-8"
    )
    tmp_path.joinpath("CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(program C)\n"
        f"find_package(arm REQUIRED PATHS {older.folder})\n"
        "foreach(kind IN ITEMS shared static)\n"
        "add_executable(with_${kind} main.c)\ntarget_link_libraries(with_${kind} PRIVATE arm::${kind})\n"
        "endforeach()\n",
        encoding="utf-8",
    )
    succeeds("cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build"))
    succeeds("cmake", "--build", str(tmp_path / "build"))
    for kind in ("shared", "static"):
        succeeds(str(tmp_path / f"build/with_{kind}"))


def test_a_library_for_arm_processors(tmp_path):
    """Of a small function: the emulator takes long for all others."""
    if platform.machine() != "x86_64":
        pytest.skip("this is no x86-64 that compiles for other processors")
    for needed in ("aarch64-linux-gnu-gcc", "qemu-aarch64-static"):
        if shutil.which(needed) is None:
            pytest.skip(f"no {needed} on the PATH")
    made = written(user, "aarch64", tmp_path / "user")
    options = "-static", str(made.folder / "libuser.a"), "-lm"
    found = run(made, tmp_path, *options, compiler="aarch64-linux-gnu-gcc", under=("qemu-aarch64-static",))
    the_same(found, made, bits=False)


@needs_cc
def test_what_a_library_consists_of(native):
    """It needs the C library alone, offers what its header does, and holds no data that could be written to."""
    library = str(native.folder / f"lib{native.name}.so")
    if shutil.which("nm") is None or shutil.which("readelf") is None:
        pytest.skip("no nm or readelf on the PATH")
    lines = _output("nm", "-D", "--defined-only", library).splitlines()
    offered = {"size", "create", "init", "free", *native.case.entries, *native.case.arrays}
    assert {line.split()[-1] for line in lines} == {f"{native.name}_{name}" for name in offered}
    needed = [line for line in _output("readelf", "-d", library).splitlines() if "NEEDED" in line]
    assert all("libm.so" in line or "libc.so" in line for line in needed) and needed
    objects = _output("nm", str(native.folder / f"lib{native.name}.a"))
    assert not [line for line in objects.splitlines() if line.split()[-2:-1] in (["B"], ["b"], ["D"], ["C"])]


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# ------------------------------------------------------------------------------------------------ compiled callers
@by_address
def _doubled(x, y):
    for i in range(len(x)):
        y[i] = 2.0 * x[i]
    return y[0]


@by_address
def _both(records, also, counts, total):
    for i in range(len(records)):
        enter(records[i].address)
    enter(also)
    counts[0] += len(records)
    total[0] = records[0].factor * total[0]
    return total[0]


@routine
def _allocates(x):
    return np.zeros(len(x))[0]


@routine
def _raises(x):
    if x[0] > 0.0:
        raise ValueError("too large")
    return x[0]


def entering(x: np.ndarray, y: np.ndarray) -> tuple[PreparedCall, list[PreparedCall]]:
    """A call that enters two others, of a table and by a number."""
    parts = [PreparedCall(_doubled, x, y), PreparedCall(_doubled, y[:2], x[2:])]
    records = np.array([(3.0, parts[0].address)], [("factor", np.float64), ("address", np.int64)])
    return PreparedCall(_both, records, parts[1].address, np.zeros(3, np.int64), x[3:]), parts


@needs_cc
def test_calls_that_enter_others(tmp_path):
    """Arrays that overlap lie as they do here; numbers that calls return are read where they are."""
    x, y = np.arange(1.0, 5.0), np.zeros(4)
    call, parts = entering(x, y)
    arrays = {
        "x": x, "y": y, "end": x[2:], "counts": call.arguments[2],
        "returned": call.room.view(float)[:1], "inner": parts[0].room.view(float)[:1],
    }  # fmt: skip
    made = Written(tmp_path / "e", "e", Case({"run": call}, arrays, ()), {}, {})
    write_library(made.folder, "e", made.case.entries, arrays, entered=parts, target="native")
    e = Loaded(made.folder, made.name)
    assert e.call("run", e.pointer) == 0
    result = call()
    assert result == 3.0 * 4.0 * 2.0 and x.tolist() == [1.0, 2.0, 4.0, 24.0]
    for name, array in arrays.items():
        assert e[name].tobytes() == array.tobytes(), name
    assert e["returned"][0] == result and e["inner"][0] == 2.0 and e["counts"][0] == 1
    assert e.call("init", ctypes.c_void_p(e.pointer.value), returns=ctypes.c_void_p) == e.pointer.value
    assert e["x"].tolist() == [1.0, 2.0, 3.0, 4.0], "the first state"
    e.close()


def test_a_kernel_that_is_bound_to_two_symbols():
    """As where two parts of a caller were compiled in different processes."""
    module = llvm.parse_assembly("""
        declare i32 @one(i32)
        declare i32 @"two.5e1f"(i32)
        define i32 @both(i32 %x) {
            %y = call i32 @one(i32 %x)
            %z = call i32 @"two.5e1f"(i32 %y)
            ret i32 %z
        }""")
    text = str(_renamed(module, {"two.5e1f": "one"}))
    assert text.count("call i32 @one(") == 2 and text.count("declare") == 1 and "two" not in text


# ------------------------------------------------------------------------------------------------ errors
@needs_cc
def test_bad_input(tmp_path):
    x, y = np.ones(4), np.zeros(4)
    call, parts = entering(x, y)
    double, folder = parts[0], tmp_path / "library"

    def write(name="a", entries=None, arrays=None, entered=(), target="native", folder=folder):
        write_library(folder, name, {"run": double} if entries is None else entries, arrays or {}, entered, target)

    def raises(kind, message, **arguments):
        with pytest.raises(kind, match=message):
            write(**arguments)
        assert not any(tmp_path.iterdir()), "nothing is left behind"

    raises(ValueError, "target: got 'riscv', expected 'native', ", target="riscv")
    for name in ("", "2d", "a b", "_a", "a_", "é", None):
        raises(ValueError, "name: got .*, expected a name of ASCII letters", name=name)
    raises(ValueError, "entries: got none, expected at least one", entries={})
    raises(ValueError, "entries: got 'a-b'", entries={"a-b": double})
    raises(TypeError, r"entries\['run'\]: got <function.*expected a prepared call", entries={"run": lambda: None})
    raises(TypeError, "entered: got 1, expected prepared calls", entered=[1])
    raises(ValueError, "arrays: got '1'", arrays={"1": x})
    raises(TypeError, r"arrays\['x'\]: got array.*expected an array of float64 or int64", arrays={"x": x > 0.0})
    raises(TypeError, r"arrays\['x'\]: got 3, expected an array", arrays={"x": 3})
    raises(ValueError, r"arrays\['x'\]: got .* of strides \(16,\), expected numbers in C order", arrays={"x": x[::2]})
    raises(ValueError, r"arrays\['x'\]: got an array that no call reads or writes", arrays={"x": np.ones(4)})
    raises(ValueError, "arrays, entries: got 'run', expected different names", arrays={"run": x})
    raises(ValueError, "arrays, entries: got 'free', expected different names", arrays={"free": x})
    raises(
        ValueError, "calls: .*_both holds the address 0x.*none of the blocks", entries={"run": call}, entered=parts[:1]
    )
    raises(ValueError, "calls: .*_allocates needs NRT_", entries={"run": PreparedCall(_allocates, x)})
    tmp_path.joinpath("file").touch()
    with pytest.raises(FileExistsError, match=r"folder: got '.*', which is there already, expected a new or empty"):
        write(folder=tmp_path)


@needs_cc
def test_empty_folders_are_written_to(tmp_path):
    write_library(tmp_path, "a", {"run": PreparedCall(_doubled, np.ones(2), np.zeros(2))}, {})
    assert {path.name for path in tmp_path.iterdir()} == {"a.h", "liba.a", "liba.so", "a-config.cmake", "README.md"}


def test_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    call = PreparedCall(_doubled, np.ones(2), np.zeros(2))
    for target, needed in (("native", "cc"), ("aarch64", "aarch64-linux-gnu-gcc|cc")):
        with pytest.raises(FileNotFoundError, match=f"target: got '{target}', which needs the program ({needed}), "):
            write_library(tmp_path / "a", "a", {"run": call}, {}, target=target)


@needs_cc
def test_exceptions_are_a_status(tmp_path):
    """A function that raises one without values needs nothing of numba's runtime."""
    x = np.array([-1.0])
    arrays = {"x": x}
    made = Written(tmp_path / "a", "a", Case({"run": PreparedCall(_raises, x)}, arrays, ()), {}, {})
    write_library(made.folder, "a", made.case.entries, arrays)
    a = Loaded(made.folder, made.name)
    assert a.call("run", a.pointer) == 0
    a["x"][0] = 1.0
    assert a.call("run", a.pointer) == 1
    a.close()
