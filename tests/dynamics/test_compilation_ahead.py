"""What compiles for which kind of problem, and processes that compile it: each function once, whoever needs it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import from_dtype, types

import dynamics
import problems
import trajopt
from dynamics.compilation import PREPARED, SOLVERS, STAGES, ahead
from dynamics.compilation.manifest import (
    FILE,
    Entry,
    UnlistedTypeError,
    decode_type,
    encode_type,
    features_of,
    manifest,
)
from dynamics.simd.cache_folder import cache_root
from dynamics.simd.kernel_cache import Claim, read_verified
from dynamics.simd.span import Reference, Span
from dynamics.simd.vector import COMPLEX_VEC, LANES, VEC
from experiments.manifest import (
    OF_EXAMPLES,
    ORDER,
    Record,
    joined,
    keys,
    listed,
    needs_of,
    record,
    requirement,
    written,
)
from trajopt.command_line.cli import main
from trajopt.command_line.compile_kernels import chosen
from trajopt.solvers.compiled import STATE

ROOT = Path(__file__).resolve().parents[2]


# ------------------------------------------------------------------------------------------------ the manifest
def test_every_entry_is_a_function_with_so_many_arguments():
    """What was renamed or has other arguments is found here; `python -m experiments.manifest --write` mends it."""
    assert len(manifest().entries) > 100
    for entry in manifest().entries:
        code = entry.function.py_func.__code__
        assert len(entry.arguments) == code.co_argcount, f"{entry.module}.{entry.name}"
        assert [encode_type(kind) for kind in entry.arguments] == list(entry.kinds)


def test_every_problem_has_its_functions():
    assert set(problems.names()) <= set(manifest().jobs)
    for name in ("pendulum", "quadruped_trot", "soft_manipulator_reach"):
        problem = problems.make(name)
        features = features_of(*vars(problem).values())
        counts = []
        for doing in ({"ILQR"}, {"DDP"}, SOLVERS, SOLVERS | {PREPARED}, SOLVERS | STAGES):
            needed = manifest().needed(features | doing)
            assert {entry.name for entry in needed} > {"drive_linearization"} or "soft" in name or doing == {"DDP"}
            counts.append(len(needed))
        assert 5 < counts[0] <= counts[2] < counts[3] <= counts[4] < len(manifest().entries)
        assert counts[1] <= counts[2]


def test_what_is_missed_before_there_is_a_problem_tells_its_kind():
    of = {entry.name: manifest().kind_of(entry.module, entry.name) for entry in manifest().entries}
    assert {"RodModel", "SoftRobotSystem"} <= of["drive_soft_closed_loops"]
    assert "RigidBodyModel" in of["drive_linearization"] and not of["drive_linearization"] & {"ContactArrays", "Gait"}
    assert not any(features & (SOLVERS | STAGES) for features in of.values())
    assert manifest().kind_of("dynamics.simd.squares", "no_such") == frozenset()


@pytest.mark.slow
def test_the_gallery_needs_nothing_that_is_not_listed(tmp_path):
    """What solvers or robots need besides is found here; `python -m experiments.manifest --write` lists it."""
    root = cache_root()
    assert root is not None
    found = record("all", "", root.parent, tmp_path).found
    have = keys(json.loads(FILE.read_text(encoding="utf-8")))
    assert len(found) > 100 and sorted({key for key, *_ in found} - set(have)) == []


def test_robots_need_what_they_have():
    """A pendulum needs nothing of rods, nor derivatives of contacts, which a trot needs."""
    of = {
        name: {e.module for e in manifest().needed(features_of(*vars(problems.make(name)).values()) | SOLVERS | STAGES)}
        for name in ("pendulum", "quadruped_trot")
    }
    assert not any(module.startswith(("dynamics.rods", "dynamics.contacts.derivatives")) for module in of["pendulum"])
    assert "dynamics.contacts.derivatives" in of["quadruped_trot"]


@pytest.mark.parametrize(
    "kind",
    [
        types.Array(types.float64, 3, "C"), types.Array(types.int64, 1, "C", readonly=True),
        types.Array(types.boolean, 2, "A"), types.Array(from_dtype(STATE), 1, "C"), types.int64, types.boolean,
        types.none, types.complex128, VEC, COMPLEX_VEC, types.literal(True), types.UniTuple(types.int64, 2),
        types.Tuple((types.int64, types.none)), types.Tuple(()), Span(types.float64), Span(types.float64, (LANES,)),
        Span(types.float64, (3,)), Span(types.float64, (None,)),
    ],
    ids=str,
)  # fmt: skip
def test_types_are_read_as_they_were_written(kind):
    assert decode_type(json.loads(json.dumps(encode_type(kind)))) == kind


def test_named_tuples_and_references():
    from dynamics.simd.rows import Matrix

    kind = types.BaseTuple.from_types([types.int64, types.int64], Matrix)
    for wanted in (kind, Reference(kind)):
        assert decode_type(encode_type(wanted)) == wanted
    with pytest.raises(UnlistedTypeError, match="not a type that the list of functions has words for"):
        encode_type(types.unicode_type)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.frozensets(st.sampled_from("pqrst")), min_size=1))
def test_features_tell_those_that_need_a_function_from_others(features):
    for mark in "pqrst":
        used = [name for name, has in features.items() if mark in has]
        if used:
            found = frozenset(requirement(used, features, frozenset.intersection(*(features[x] for x in used))))
            chosen = {name for name, has in features.items() if found <= has}
            assert chosen == set(used)  # the mark itself would do


def test_what_is_written_is_read(tmp_path):
    key = json.dumps(["dynamics.simd.squares", "add_squares", ["int64", ["array", "float64", 2, "C"]]])
    more = json.dumps(["dynamics.simd.squares", "add_squares", ["int64"]])
    first, last = {"": 1} | dict.fromkeys(ORDER[1:], 1), dict.fromkeys(ORDER, 0)
    runs = {
        "one DDP": Record(["A", "B", "DDP"], [[key, None, ["A", "B"]]], first, ["B"]),
        "other DDP": Record(["A", "DDP"], [], last, []),
        "example": Record([], [[key, None, ["A"]], [more, 0.1, []]], {}, []),
    }
    content = listed(runs, {key: 0.5, more: 9.0})
    path = tmp_path / "manifest.json"
    path.write_text(written(content), encoding="utf-8")
    assert json.loads(path.read_text()) == content and keys(content) == {key: 0.5, more: 0.1}
    read = manifest(path)
    kinds = "int64", ["array", "float64", 2, "C"]
    name = "dynamics.simd.squares", "add_squares"
    of_example = (frozenset({OF_EXAMPLES}),)
    assert read.entries == [Entry(*name, kinds, 0.5, (frozenset("B"),)), Entry(*name, kinds[:1], 0.1, of_example)]
    one, other = STAGES | {"A", "B", "DDP"}, STAGES | {"A", "DDP"}
    assert read.jobs == {"one": one, "other": other, "example": {"A", "B", OF_EXAMPLES}}
    assert manifest(tmp_path / "none.json").entries == []


def test_a_function_is_needed_by_some_solves_and_by_other_prepared_ones():
    """What iterates is compiled by solves in one thread, and by all that are prepared."""
    key, never = "iterate", {stage: 0 for stage in ORDER}
    at_once, later = dict.fromkeys(ORDER, 1), {"": 0} | dict.fromkeys(ORDER[1:], 1)
    runs = {
        "one": Record(["Small"], [[key, 1.0, []]], at_once, []),
        "two": Record(["Another", "Large"], [[key, 1.0, []]], later, ["Large"]),
        "three": Record([], [], never, []),
    }
    assert needs_of(key, runs) == [{"Small"}, {"Large", PREPARED}]
    assert needs_of("none", runs) == []


def test_runs_at_two_levels_are_one():
    """Functions of each stage, those of the first level first, and the longer times."""
    one = Record(["A"], [["a", 1.0, []], ["b", None, []], ["c", 2.0, []]], {"": 2, PREPARED: 3}, ["A"])
    other = Record(["A"], [["a", 3.0, []], ["d", 0.5, []], ["b", 1.0, []]], {"": 2, PREPARED: 3}, ["A"])
    found = joined(one, other)
    assert [key for key, *_ in found.found] == ["a", "b", "d", "c"] and found.stages == {"": 3, PREPARED: 4}
    assert [seconds for _, seconds, _ in found.found] == [3.0, 1.0, 0.5, 2.0]
    example, more = Record([], [["a", 1.0, []]], {}, []), Record([], [["b", 1.0, []]], {}, [])
    assert joined(example, more) == Record([], [["a", 1.0, []], ["b", 1.0, []]], {}, [])


def test_features_are_classes_of_the_project_alone():
    class Mine:
        def __init__(self):
            self.inside = [trajopt.ControlCost(1.0)]

    problem = problems.make("pendulum", horizon=5)
    found = features_of(problem.system, [Mine()])
    assert {"RigidBodySystem", "RigidBodyModel", "Continuous", problem.system.integrator} <= found
    assert "Mine" not in found and "ControlCost" not in found and "ndarray" not in found
    bounds = trajopt.StateBounds(problem.system, [-1.0, -1.0], [1.0, 1.0])
    assert {"StateBounds", "ResidualConstraint"} <= features_of(bounds)  # what one needs the other does


# ------------------------------------------------------------------------------------------------ claims
def test_a_claim_is_waited_for(tmp_path):
    path = tmp_path / "folder" / "kernel.nbc"
    first, second = Claim(path), Claim(path)
    assert first.wait() == 0.0 and not second.taken()
    first.release()
    assert second.wait() == 0.0
    second.release()
    assert not any(path.parent.iterdir())


def test_a_claim_ends_with_its_process(tmp_path):
    path = tmp_path / "kernel.nbc"
    code = (
        "import sys, time, pathlib; from dynamics.simd.kernel_cache import Claim\n"
        "claim = Claim(pathlib.Path(sys.argv[1])); assert claim.taken(); print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        claim = Claim(path)
        assert not claim.taken()
        process.kill()
        assert claim.wait() >= 0.0 and claim.taken()
        claim.release()


def test_patience_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(Claim, "PATIENCE", 0.05)
    first, second = Claim(tmp_path / "kernel.nbc"), Claim(tmp_path / "kernel.nbc")
    assert first.taken() and second.wait() >= 0.05
    first.release()


SQUARES = """
import sys, time
import numpy as np
from dynamics.simd import PROGRESS
from dynamics.simd.squares import add_squares
from dynamics.compilation.manifest import manifest
entry = next(e for e in manifest().entries if e.name == "add_squares")
print(flush=True)
sys.stdin.readline()
entry.function.compile(entry.arguments)
print(PROGRESS.compiled)
"""


def test_a_function_is_compiled_by_one_process(tmp_path):
    """Of several that need it at the same time."""
    env = {**os.environ, "TRAJOPT_CACHE_DIR": str(tmp_path), "TRAJOPT_COMPILE_PROCESSES": "0"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT, "env": env}
    every = [subprocess.Popen([sys.executable, "-c", SQUARES], **pipes) for _ in range(3)]
    for process in every:
        process.stdout.readline()
    for process in every:
        process.stdin.write("\n")
        process.stdin.flush()
    printed = [process.communicate()[0].split() for process in every]
    assert sorted(int(words[-1]) for words in printed) == [0, 0, 1]
    assert not list(tmp_path.rglob("*.lock"))


# ------------------------------------------------------------------------------------------------ workers
COMPARE = """
import sys
import problems, trajopt
from dynamics.simd import PROGRESS
problem = problems.make("pendulum", horizon=20)
print([solver.solve(problem).cost for solver in (trajopt.ILQR(), trajopt.DDP())], PROGRESS.compiled)
"""


def run(code, tmp_path, **variables):
    env = {**os.environ, "TRAJOPT_CACHE_DIR": str(tmp_path / "cache"), **variables}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_a_solve_with_an_empty_cache(tmp_path):
    """Other processes compile for it: one line says so and one when it is done; the next process compiles nothing."""
    alone = run(COMPARE, tmp_path / ".", TRAJOPT_COMPILE_PROCESSES="2", TRAJOPT_QUIET="0")
    told = alone.stderr.splitlines()
    assert sum("compiling kernels for pendulum, once on this computer" in line for line in told) == 1, told
    assert sum("kernels compiled in" in line for line in told) == 1
    again = run(COMPARE, tmp_path)
    assert again.stdout.split()[-1] == "0" and again.stderr == ""
    assert again.stdout.rpartition(" ")[0] == alone.stdout.rpartition(" ")[0]


@pytest.mark.slow
def test_the_command_compiles_what_a_problem_needs(tmp_path, monkeypatch):
    code = "import sys; from trajopt.command_line.cli import main; sys.exit(main(['compile', '--for', 'pendulum']))"
    done = run(code, tmp_path, TRAJOPT_COMPILE_PROCESSES="2")
    assert "compiled now in" in done.stdout and not done.stderr.count("not compiled")
    assert run(COMPARE, tmp_path).stdout.split()[-1] == "0"
    assert " 0 of them compiled now" in run(code, tmp_path).stdout


INTERRUPTIBLE = """
import signal, sys
from trajopt.command_line.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may have had it ignored
"""


@pytest.mark.slow
def test_the_command_can_be_interrupted(tmp_path):
    """Ctrl-C reaches the command, not its workers, which end after the functions that they are at; all files are
    whole."""
    env = {**os.environ, "TRAJOPT_CACHE_DIR": str(tmp_path / "cache"), "TRAJOPT_COMPILE_PROCESSES": "1"}
    command = [sys.executable, "-c", INTERRUPTIBLE + "sys.exit(main(['compile', '--for', 'pendulum']))"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True, **pipes) as process:
        end = time.monotonic() + 120.0
        while not list(tmp_path.rglob("*.nbc")) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120.0)
    assert process.returncode == 130 and "interrupted; what was compiled is kept" in told and "Traceback" not in told
    while list(tmp_path.rglob("*.lock")) and time.monotonic() < end:
        time.sleep(0.1)
    for path in tmp_path.rglob("*.nbc"):
        read_verified(path)


def test_a_word_is_that_of_all_that_have_it_in_their_names():
    """There is an example that is called quadruped, beside the problems of its kind."""
    found = {i for i, _ in chosen(["quadruped"])}
    for name in ("quadruped_stand", "quadruped_walk", "quadruped"):
        assert found >= {i for i, _ in manifest().numbered(manifest().jobs[name])}
    assert found < {i for i, _ in chosen([])}


def test_the_command_refuses_unknown_words(capsys):
    assert main(["compile", "--for", "submarines"]) == 2
    assert "--for: got 'submarines', expected part of the name of a class" in capsys.readouterr().err


def test_workers_end_with_their_parent(tmp_path):
    code = (
        "import os\nfrom dynamics.compilation.ahead import Workers\n"
        "from dynamics.compilation.manifest import manifest\n"
        "workers = Workers(range(len(manifest().entries)), 1)\n"
        "print(workers._processes[0].pid, flush=True); os._exit(0)"
    )
    pid = int(run(code, tmp_path).stdout)
    end = time.monotonic() + 120.0
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.kill(pid, signal.SIGKILL)
        pytest.fail("the worker goes on")


@pytest.mark.parametrize("text", ["-1", "two", "1.5"])
def test_number_of_workers(text, monkeypatch):
    monkeypatch.setenv(ahead.VARIABLE, text)
    with pytest.raises(ValueError, match=f"TRAJOPT_COMPILE_PROCESSES: got '{text}', expected a whole number"):
        ahead.worker_count()


def test_no_workers_where_there_is_little_to_compile(monkeypatch):
    """All kernels of a pendulum are there, or two seconds of them are missing: nothing is started."""
    problem, started = problems.make("pendulum", horizon=5), []
    trajopt.DDP().solve(problem)
    monkeypatch.setattr(ahead, "Workers", lambda *given: started.append(given))
    monkeypatch.setattr(ahead, "_workers", None)
    monkeypatch.setattr(ahead, "_known", [])
    monkeypatch.setenv(ahead.VARIABLE, "2")
    number, entry = manifest().numbered(features_of(*vars(problem).values()) | SOLVERS)[3]
    monkeypatch.setattr(ahead, "missing", lambda entries: [(number, entry._replace(seconds=1.9))])
    ahead.compile_ahead(problem)
    assert not started
    monkeypatch.setattr(ahead, "_known", [])
    monkeypatch.setattr(ahead, "missing", lambda entries: [(number, entry._replace(seconds=2.1))])
    monkeypatch.setattr(ahead.PROGRESS, "expect", lambda *given: started.append(given[:2]))
    ahead.compile_ahead(problem)
    assert started[0] == ([number], 2) and started[1][0] == 1
    ahead.compile_ahead(problem)
    assert len(started) == 2  # once for problems of one kind


def test_lists_of_workers(monkeypatch):
    """What the solve needs comes first, then what else is done with the problem; another solver gives another list."""
    lists, problem = [], problems.make("pendulum", horizon=5)

    class Recording:
        running, finished = True, 0

        def __init__(self, indices, count):
            self.give(indices)

        def give(self, indices):
            lists.append(indices)

    monkeypatch.setattr(ahead, "Workers", Recording)
    monkeypatch.setattr(ahead, "_workers", None)
    monkeypatch.setattr(ahead, "_known", [])
    monkeypatch.setenv(ahead.VARIABLE, "2")
    monkeypatch.setattr(ahead, "missing", list)
    monkeypatch.setattr(ahead.PROGRESS, "expect", lambda *given: None)
    features = features_of(*vars(problem).values())
    for doing in ({"ILQR"}, SOLVERS):
        ahead.compile_ahead(problem, doing)
        needed = [i for i, _ in manifest().numbered(features | doing)]
        assert lists[-1][: len(needed)] == needed
        assert set(lists[-1]) == {i for i, _ in manifest().numbered(features | SOLVERS | STAGES)}
    ahead.compile_ahead(problem, {"DDP"})
    assert len(lists) == 2
    monkeypatch.setattr(ahead, "_known", [])
    function = next(entry for entry in manifest().entries if entry.name == "drive_soft_steps").function.py_func
    ahead.compile_ahead(None, (), function)
    kind = manifest().kind_of(function.__module__, "drive_soft_steps")
    assert lists[-1] == [i for i, _ in manifest().numbered(kind)]


def test_a_worker_takes_the_last_list(tmp_path, monkeypatch):
    """It leaves what is left of the first one."""
    monkeypatch.setenv("TRAJOPT_CACHE_DIR", str(tmp_path))
    small = sorted(range(len(manifest().entries)), key=lambda i: manifest().entries[i].seconds)
    watched = []
    workers = ahead.Workers(small[::-1], 1, watched.append)
    workers.give(small[:2])
    for thread in workers._threads:
        thread.join(120.0)
    assert not workers.running and workers.finished == sum(watched) and 1 <= workers.finished <= 4
    workers.give(small)  # to one that has come to its end
    workers.close()


def test_a_problem_is_not_kept_by_what_was_expected_for_it():
    import gc
    import weakref

    system = dynamics.RigidBodySystem(dynamics.load_urdf(problems.model_path("arm6")), dt=0.02)
    found = weakref.ref(trajopt.Problem(system, system.state(np.zeros(6)), 3, [trajopt.ControlCost(1.0)]))
    gc.collect()
    assert found() is None and np.isfinite(ahead.PROGRESS._spent) and FILE.is_file()
