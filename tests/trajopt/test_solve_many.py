"""Many problems at once: the same bits, whatever becomes of workers, problems and the call itself."""

import importlib
import json
import os
import pickle
import re
import signal
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier, get_ident
from types import SimpleNamespace

import numpy as np
import pytest

import problems
from dynamics.progress import counted
from dynamics.simd import num_threads, scratch
from tests.reference.mutations import bytes_changed, json_changed
from tests.trajopt.systems import Pendulum
from trajopt import DDP, ILQR, ControlCost, ParametricProblem, Problem, StateCost
from trajopt.backward import slots
from trajopt.batch import outcomes, workers
from trajopt.batch.many import ResultFolder, digest, load_many, name_of, solve_many
from trajopt.batch.outcomes import SolveManyInterrupted
from trajopt.batch.workers import OwnProcesses, answers
from trajopt.results.solution import Solution

ROOT = Path(__file__).resolve().parents[2]
MADE = []  # parameters whose problem was made in this process


def swing(mass):
    """A pendulum of this mass; its name tells in how many threads the dynamics run."""
    MADE.append(mass)
    if mass < 0:
        raise ValueError(f"a mass of {mass}: negative\nand on a second line")
    system = Pendulum(mass=mass)
    target = StateCost(system, [np.pi, 0.0], [50.0, 5.0])
    return Problem(system, [0.3, 0.0], 10, [ControlCost(1e-2)], [target], name=f"{num_threads()} threads")


def deadly_swing(parameter):
    """Kills its process the first time a parameter with a marker file is met, or every time."""
    mass, marker = parameter
    if marker == "always":
        os.kill(os.getpid(), signal.SIGKILL)
    if marker and not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return swing(mass)


def asleep(seconds):
    time.sleep(seconds)
    return swing(1.0)


class Unreadable:
    """A parameter that can be pickled, but not read."""

    def __reduce__(self):
        return int, ("no number",)


def leaving(parameter):
    """Leaves the program for some parameters."""
    if parameter == 0.0:
        sys.exit("enough")
    return swing(parameter)


class Inline(Executor):
    """Calls at once, in this process; a call before which `stop` says so is interrupted, as by Ctrl-C."""

    def __init__(self, stop=lambda calls: False):
        self.stop, self.calls = stop, 0

    def submit(self, fn, /, *args, **kwargs):
        if self.stop(self.calls):
            raise KeyboardInterrupt
        self.calls += 1
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def here(parameters, folder=None, make=swing, solver=None, **options):
    """Outcomes from this process, and which problems were made."""
    MADE.clear()
    return solve_many(make, parameters, solver or DDP(), executor=Inline(), folder=folder, **options), list(MADE)


def assert_same(solution, reference):
    for name in ("xs", "us", "K", "k", "Vx", "Vxx"):
        np.testing.assert_array_equal(getattr(solution, name), getattr(reference, name))
    assert (solution.cost, solution.status, solution.iterations) == (
        reference.cost, reference.status, reference.iterations,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Four pendulums, one of them impossible, by two processes."""
    folder = tmp_path_factory.mktemp("run")
    before = num_threads()
    results = solve_many(swing, [0.5, -1.0, 1.0, 2.0], DDP(), workers=2, folder=folder / "results")
    assert num_threads() == before
    return results


# ---------------------------------------------------------------------------------------------------- solutions, order
def test_the_same_bits_as_one_after_another(run):
    assert [outcome.parameter for outcome in run] == [0.5, -1.0, 1.0, 2.0]
    for index in (0, 2, 3):
        reference = DDP().solve(swing(run[index].parameter))
        assert reference.converged
        assert_same(run[index].solution, reference)
        assert 0 < run[index].seconds < 600 and run[index].error is None
    assert run.success_rate == 0.75 and len(run.failures) == 1


def test_workers_use_one_thread_each(run):
    for path in run.folder.glob("*.npz"):
        with np.load(path) as data:
            assert str(data["problem_name"]) == "1 threads"


def test_what_is_raised_belongs_to_its_parameter(run):
    (failed,) = run.failures
    assert failed is run[1] and run.solutions[1] is None and not failed.converged
    assert failed.error == "ValueError: a mass of -1.0: negative\nand on a second line"
    assert "in swing" in failed.traceback and failed.seconds >= 0 and failed.ending == "ValueError"
    (file,) = run.folder.glob("*.error.json")
    assert file.name.startswith("00001_")
    account = json.loads(file.read_text())
    assert account == {"parameter": "-1.0", "error": failed.error, "traceback": failed.traceback}


def test_table(run):
    lines = str(run).splitlines()
    assert lines[0].strip() == "4 problems, 75 % converged"
    cells = [line.split() for line in lines]
    (converged,) = (line for line in cells if line[0] == "converged")
    costs = [outcome.solution.cost for outcome in run if outcome.solution is not None]
    assert converged[1] == "3" and converged[-2:] == [f"{min(costs):.6g}", f"{max(costs):.6g}"]
    assert ["ValueError", "1"] in [line[:2] for line in cells]


def test_with_problem(run):
    solution = run.with_problem(2)
    assert solution.problem.system.inertia == 1.0 and solution.cost == run[2].solution.cost
    with pytest.raises(ValueError, match=r"index: got 1, whose problem was not solved \(ValueError\)"):
        run.with_problem(1)


def test_slow_problems_do_not_change_the_order():
    def make(parameter):
        time.sleep(0.2 if parameter == 0.5 else 0.0)
        return swing(parameter)

    with ThreadPoolExecutor(2) as executor:
        results = solve_many(make, (0.5, 1.0, 1.5), ILQR(), executor=executor)
    for outcome, mass in zip(results, (0.5, 1.0, 1.5), strict=True):
        assert_same(outcome.solution, ILQR().solve(swing(mass)))
    assert results.folder is None


def test_ends_that_are_no_convergence_are_results():
    results, _ = here([1.0], solver=ILQR(max_iterations=1))
    assert results[0].ending == "max_iterations" and results.success_rate == 0.0 and not results.failures


def test_solutions_are_read_when_they_are_asked_for(monkeypatch):
    results, _ = here([0.5, -1.0, 1.0])
    with monkeypatch.context() as unread:
        unread.setattr(outcomes, "load_solution", None)
        assert [outcome.ending for outcome in results] == ["converged", "ValueError", "converged"]
        assert results.success_rate == 2 / 3 and "converged" in str(results) and "converged" in repr(results[0])
        again = pickle.loads(pickle.dumps(results[0]))
        cost, iterations = again.cost, again.iterations
    for outcome in (again, results[0]):
        solution = outcome.solution
        assert solution is outcome.solution
        assert (solution.cost, solution.iterations) == (cost, iterations)
        assert solution.timings["total"] == outcome.seconds
        assert_same(solution, DDP().solve(swing(0.5)))
    assert np.isnan(results[1].cost) and results[1].iterations == 0 and results[1].solution is None


# -------------------------------------------------------------------------------------------------- folder and restart
def test_a_restart_solves_what_failed_what_is_new_and_what_changed(tmp_path):
    first, made = here([0.5, -1.0, 1.0], tmp_path / "a")
    assert made == [0.5, -1.0, 1.0]
    again, made = here([0.5, -1.0, 3.0, 0.25], tmp_path / "a")
    assert made == [-1.0, 3.0, 0.25]
    assert_same(again[0].solution, first[0].solution)
    assert again[0].solution.log == first[0].solution.log and again[0].seconds == first[0].seconds
    assert here([0.5, 3.0], tmp_path / "a")[1] == [3.0]  # at another place: solved anew
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert [entry["parameter"] for entry in manifest["parameters"]] == ["0.5", "3.0"]
    for entry, mass in zip(manifest["parameters"], (0.5, 3.0), strict=True):
        solution = Solution.load(tmp_path / "a" / entry["file"], swing(mass))
        assert_same(solution, DDP().solve(swing(mass)))


def test_a_failure_that_is_mended_leaves_no_error_file(tmp_path, monkeypatch):
    def error(*_):
        raise OSError("no torque today")

    with monkeypatch.context() as broken:
        broken.setattr(DDP, "solve", error)
        results, _ = here([1.0], tmp_path)
    assert results[0].error == "OSError: no torque today"
    assert [path.suffixes[0] for path in tmp_path.glob("0*")] == [".error"]
    assert here([1.0], tmp_path)[0].success_rate == 1.0
    assert [path.suffix for path in tmp_path.glob("0*")] == [".npz"]


def test_a_folder_is_read_without_what_made_it(tmp_path):
    first, _ = here([0.5, -1.0, 1.0, 2.0], tmp_path)
    next(tmp_path.glob("00003*")).unlink()
    again = load_many(tmp_path)
    assert [outcome.parameter for outcome in again] == ["0.5", "-1.0", "1.0", "2.0"] and again.folder == tmp_path
    assert [outcome.ending for outcome in again] == ["converged", "ValueError", "converged", "Missing"]
    assert (again[1].error, again[1].traceback) == (first[1].error, first[1].traceback)
    assert_same(again[2].solution, first[2].solution)
    assert str(again) and again[0].seconds == first[0].seconds
    with pytest.raises(ValueError, match="make_problem: got none"):
        again.with_problem(0)
    next(tmp_path.glob("00000*")).write_bytes(b"no longer")
    with pytest.raises(ValueError, match=r"00000_.*\.npz: got a file that is cut short"):
        load_many(tmp_path)
    with pytest.raises(FileNotFoundError):
        load_many(tmp_path / "elsewhere")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    for wrong in (manifest | {"parameters": 3}, manifest | {"parameters": [{}]}, {**manifest, "format": "other"}, []):
        (tmp_path / "manifest.json").write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=r"folder: got .* whose manifest\.json is"):
            load_many(tmp_path)


def test_a_solution_under_the_name_of_another_parameter_is_not_taken_for_its_own(tmp_path):
    first, _ = here([0.5, 1.0, -1.0], tmp_path)
    one, other = sorted(tmp_path.glob("0*.npz"))
    with np.load(one) as data:
        assert str(data["parameter"]) == "0.5" and str(data["parameter_hash"]) == digest(0.5)
    one.write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match=r"00000_.*\.npz: got the solution of another parameter, '1\.0', expected"):
        load_many(tmp_path)
    with pytest.warns(RuntimeWarning, match=r"of another parameter.*solved again"):
        again, made = here([0.5, 1.0, -1.0], tmp_path)
    assert made == [0.5, -1.0] and again[0].solution.cost == first[0].solution.cost
    (account,) = tmp_path.glob("*.error.json")
    account.write_text(account.read_text().replace('"-1.0"', '"-2.0"'))
    with pytest.raises(ValueError, match=r"error\.json: got the error of the parameter '-2\.0', expected"):
        load_many(tmp_path)
    # a file from before files said so
    with np.load(one) as data:
        np.savez(one, **{name: array for name, array in data.items() if not name.startswith("parameter")})
    account.unlink()
    assert load_many(tmp_path)[0].solution.cost == first[0].solution.cost


@pytest.mark.parametrize("name", ["", "..", "/etc/hostname", "../00000.npz", "00001_x.npz", 3, None])
def test_a_manifest_names_no_files_but_those_of_its_parameters(tmp_path, name):
    here([1.0], tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["parameters"][0]["file"] = name
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"folder: got .* whose manifest\.json is damaged"):
        load_many(tmp_path)


@pytest.mark.parametrize("which", ["manifest.json", "00000*.npz", "00001*.error.json"])
@pytest.mark.parametrize("kind", ["folder", "device", "pipe", "other", "deep"])
def test_whatever_stands_in_place_of_a_file_is_a_value_error(tmp_path, which, kind):
    here([1.0, -1.0], tmp_path)
    (path,) = tmp_path.glob(which)
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("[]" if kind == "other" else "[" * 100_000)
    with pytest.raises(ValueError, match=re.escape(path.name)):
        load_many(tmp_path)


def test_damaged_manifests_and_accounts_are_value_errors(tmp_path, rng):
    here([1.0, -1.0], tmp_path)
    for which in ("manifest.json", "00001*.error.json"):
        (path,) = tmp_path.glob(which)
        whole = path.read_bytes()
        for what, content in [*json_changed(whole, rng, 60), *bytes_changed(whole, rng, 60)]:
            path.write_bytes(content)
            try:
                found = load_many(tmp_path)
                assert str(found) and repr(found[1])
            except ValueError as error:
                assert str(tmp_path) in str(error), what
        path.write_bytes(whole)


def test_what_a_script_made_opens_from_another(tmp_path, monkeypatch):
    """`__main__` is the name of every script that runs: the script's own name stands for it."""
    (tmp_path / "sweep.py").write_text("def make(parameter):\n    return parameter\n")
    monkeypatch.syspath_prepend(tmp_path)
    imported = importlib.import_module("sweep").make
    main = {"__name__": "__main__"}
    exec((tmp_path / "sweep.py").read_text(), main)
    for file, spec, same in (
        (str(tmp_path / "sweep.py"), None, True), (None, SimpleNamespace(name="sweep"), True),
        (str(tmp_path / "other.py"), None, False), (None, None, False),
    ):  # fmt: skip
        module = SimpleNamespace(__spec__=spec) if file is None else SimpleNamespace(__spec__=spec, __file__=file)
        monkeypatch.setitem(sys.modules, "__main__", module)
        assert (name_of(main["make"]) == name_of(imported)) == same
        assert (digest(main["make"]) == digest(imported)) == same


def test_a_damaged_file_is_solved_again(tmp_path):
    first, _ = here([1.0], tmp_path)
    (path,) = tmp_path.glob("*.npz")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.warns(RuntimeWarning, match=r"00000_.*\.npz: got a file that is cut short .*solved again"):
        again, made = here([1.0], tmp_path)
    assert made == [1.0]
    assert_same(again[0].solution, first[0].solution)


def test_a_folder_of_another_run_is_refused(tmp_path):
    here([1.0], tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"folder: got .* with results of .*swing and DDP\(.*deadly_swing"):
        here([(1.0, "")], tmp_path, make=deadly_swing)
    with pytest.raises(ValueError, match=r"folder: got .*DDP\(.*expected those of .*swing and ILQR\("):
        here([1.0], tmp_path, solver=ILQR())
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    (tmp_path / "manifest.json").write_text('{"format": "of something else"}')
    with pytest.raises(ValueError, match=r"folder: got .* whose manifest\.json is not of this solve_many"):
        here([1.0], tmp_path)


def test_an_interrupt_keeps_what_arrived(tmp_path):
    with pytest.raises(KeyboardInterrupt, match="2 of 4 problems") as stop:
        solve_many(swing, [0.5, 1.0, 2.0, 3.0], DDP(), executor=Inline(lambda calls: calls == 2), folder=tmp_path)
    assert isinstance(stop.value, SolveManyInterrupted)
    results = stop.value.results
    assert [outcome.ending for outcome in results] == ["converged", "converged", "Interrupted", "Interrupted"]
    assert_same(results[1].solution, DDP().solve(swing(1.0)))
    again, made = here([0.5, 1.0, 2.0, 3.0], tmp_path)
    assert made == [2.0, 3.0] and again.success_rate == 1.0


def test_a_full_disk_hands_over_what_was_solved(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ResultFolder, "write", full)
    with pytest.raises(SolveManyInterrupted, match=r"1 of 2 problems .*No space left") as stop:
        here([0.5, 1.0], tmp_path)
    assert [outcome.ending for outcome in stop.value.results] == ["converged", "Interrupted"]
    assert_same(stop.value.results[0].solution, DDP().solve(swing(0.5)))


# ------------------------------------------------------------------------------------------------------- dying workers
def test_a_killed_worker_loses_nothing(tmp_path):
    parameters = [(1.0, ""), (0.5, str(tmp_path / "met")), (2.0, "always"), (1.5, ""), (3.0, "")]
    results = solve_many(deadly_swing, parameters, DDP(), workers=2, attempts=2, folder=tmp_path / "results")
    assert (tmp_path / "met").exists()
    assert [outcome.ending for outcome in results] == ["converged"] * 2 + ["WorkerLost"] + ["converged"] * 2
    assert "2 worker processes died with this parameter" in results[2].error
    for outcome in results:
        if outcome.solution is not None:
            assert_same(outcome.solution, DDP().solve(swing(outcome.parameter[0])))
    assert len(list((tmp_path / "results").glob("*.error.json"))) == 1


def test_only_the_problem_at_work_is_blamed_for_a_death(tmp_path):
    """Not those sent along with it, before it or after it."""
    work = {i: (deadly_swing, (1.0 + i, "always" if i in (2, 3) else ""), DDP()) for i in range(6)}
    crew = OwnProcesses(1)
    try:
        crew.submit(work)
        ended = {}
        while len(ended) < len(work):
            if (arrival := crew.ended()) is not None:
                ended |= [arrival]
    finally:
        crew.close(cancel=False)
    assert sorted(ended) == list(range(6)) and ended[2] is ended[3] is None
    for i in (0, 1, 4, 5):
        assert_same(ended[i].stored.read(), DDP().solve(swing(1.0 + i)))


def test_fast_problems_are_sent_ahead_and_slow_ones_one_by_one():
    crew = OwnProcesses(2)
    try:
        assert crew.wanted(1000) == 1  # nothing is known of them
        for seconds, ahead in (4e-3, 25), (40e-3, 2), (0.2, 1), (10.0, 1):
            crew._seconds, crew._answers = 10 * seconds, 10
            assert crew.wanted(1000) == ahead
            assert crew.wanted(4) == 1 and crew.wanted(0) == 0  # the last ones are for who is free
        crew._seconds = 10 * 4e-3
        for process in crew._processes:
            process.calls |= dict.fromkeys(range(13), ())
            assert crew.wanted(1000) == (25 if process is crew._processes[0] else 0)
        del process.calls[0]
        assert crew.wanted(1000) == 13
    finally:
        crew.close(cancel=True)


def test_parameters_that_cannot_be_read_and_exits_fail_alone():
    results = solve_many(leaving, [1.0, Unreadable(), 0.0, 2.0], DDP(), workers=1)
    assert [outcome.ending for outcome in results] == ["converged", "ValueError", "SystemExit", "converged"]
    assert "no number" in results[1].error and "enough" in results[2].error


def test_a_worker_that_is_killed_while_idle_is_replaced():
    crew = OwnProcesses(1)
    try:
        ((_, first),) = answers(crew, {4: (swing, 0.5, DDP())}, attempts=2)
        (idle,) = crew._processes
        os.kill(idle.process.pid, signal.SIGKILL)
        idle.process.join()
        ((key, answer),) = answers(crew, {5: (swing, 1.0, DDP())}, attempts=2)
    finally:
        crew.close(cancel=False)
    assert first.error is None
    assert key == 5 and answer.error is None


@pytest.mark.parametrize("begun", [False, True])
def test_workers_can_be_ended_as_they_start_and_later(begun):
    crew = OwnProcesses(1)
    crew.submit({0: (swing, 1.0, DDP()), 1: (asleep, 3600.0, DDP())})
    if begun:
        while crew.ended() is None:
            pass
    (worker,) = crew._processes
    crew.close(cancel=True)  # must return
    assert not worker.process.is_alive()


def test_a_given_pool_that_breaks_is_told_of(tmp_path):
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        results = solve_many(deadly_swing, [(1.0, ""), (1.0, "always"), (1.0, "")], DDP(), executor=executor)
    assert results[1].ending == results[2].ending == "BrokenProcessPool"
    assert results[0].ending == "converged"


class Forgetful:
    """A client of a scheduler that forgets the first calls, or is silent."""

    status = "running"

    def __init__(self, forgets, silent=False, workers=("a",)):
        self.forgets, self.silent, self.keys = forgets, silent, []
        self.scheduler = SimpleNamespace(tasks={}, workers=dict.fromkeys(workers))

    def submit(self, function, *arguments, pure):
        call = SimpleNamespace(key=f"call {len(self.keys)}", cancel=lambda: None)
        self.keys.append(call.key)
        call.result = lambda timeout: function(*arguments)
        forgotten = len(self.keys) <= self.forgets
        call.add_done_callback = lambda ends: None if forgotten else ends(call)
        return call

    def sync(self, function, *arguments, callback_timeout):
        if self.silent:
            raise TimeoutError
        return function(*arguments)

    def _run_on_scheduler(self, function, keys):
        return function(keys, dask_scheduler=self.scheduler)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("forgets, ending", [(2, "converged"), (3, "WorkerLost")])
def test_calls_that_a_cluster_forgets_are_tried_again_and_told_of(silent, forgets, ending, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "LOOK", 0.01)
    crew = workers.DaskWorkers(Forgetful(forgets, silent), 60.0, print, {})
    ((key, answer),) = answers(crew, {5: (swing, 1.0, DDP())}, attempts=3)
    assert key == 5
    assert answer.error is None if ending == "converged" else answer.error.startswith("WorkerLost: 3 worker processes")


def test_what_a_scheduler_still_has_to_do_has_not_vanished():
    here, gone = SimpleNamespace(address="here"), SimpleNamespace(address="gone")
    tasks = {
        "queued": ("queued", None), "waiting": ("no-worker", None), "running": ("processing", here),
        "orphan": ("processing", gone), "done": ("memory", None), "failed": ("erred", None),
    }  # fmt: skip
    tasks = {key: SimpleNamespace(state=state, processing_on=at) for key, (state, at) in tasks.items()}
    scheduler = SimpleNamespace(tasks=tasks, workers={"here": here})
    assert workers._without_end([*tasks, "unknown"], scheduler) == (["orphan", "done", "failed", "unknown"], 1)


@pytest.mark.parametrize("come", [False, True])
def test_a_cluster_without_workers_is_not_waited_for_without_an_end(come, monkeypatch):
    """Its calls end after the time that was given, unless workers come before."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "LOOK", 0.01)
    client, said = Forgetful(100, workers=()), []

    class Queued(dict):
        def get(self, key):
            return SimpleNamespace(state="no-worker", processing_on=None)

    def note(text):
        said.append(text)
        if come and said.count("no workers") == 3:
            client.scheduler.workers["late"] = None
            client.scheduler.tasks, client.forgets = {}, 0  # those of before are tried again

    client.scheduler.tasks = Queued()
    crew = workers.DaskWorkers(client, 60.0 if come else 0.05, note, {})
    found = dict(answers(crew, {3: (swing, 1.0, DDP()), 5: (swing, 2.0, DDP())}, attempts=3))
    assert sorted(found) == [3, 5] and said[:2] == ["no workers"] * 2
    if come:
        assert found[3].error is found[5].error is None and "" in said
    else:
        assert {answer.error for answer in found.values()} == {"WorkerLost: the cluster had no workers for 0.05 s"}
        assert len(client.keys) == 2


@pytest.mark.slow
def test_dask_cluster_with_a_worker_that_dies(tmp_path, capsys):
    distributed = pytest.importorskip("distributed")
    parameters = [(1.0, ""), (0.5, str(tmp_path / "met")), (1.5, ""), (2.0, ""), (-1.0, ""), (3.0, "always")]
    quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": 60, "local_directory": str(tmp_path)}
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, host="127.0.0.1", **quiet) as cluster,
        distributed.Client(cluster) as client,
    ):
        results = solve_many(deadly_swing, parameters, DDP(), executor=client, folder=tmp_path / "results")
        cluster.scale(0)  # and no worker is started again for one that has died
        until = time.monotonic() + 60.0
        while client.scheduler_info()["workers"] and time.monotonic() < until:
            time.sleep(0.1)
        capsys.readouterr()
        for executor in client, client.get_executor(retries=1):  # whose workers are all gone
            late = solve_many(swing, [1.0, 2.0], DDP(), executor=executor, no_workers_timeout=0.5, progress=True)
            assert {outcome.error for outcome in late} == {"WorkerLost: the cluster had no workers for 0.5 s"}
        assert "no workers" in capsys.readouterr().err
    assert (tmp_path / "met").exists()
    assert [outcome.ending for outcome in results] == ["converged"] * 4 + ["ValueError", "WorkerLost"]
    for outcome in results[:4]:
        assert_same(outcome.solution, DDP().solve(swing(outcome.parameter[0])))
    with np.load(next((tmp_path / "results").glob("00000*.npz"))) as data:
        assert str(data["problem_name"]) == "1 threads"


# ------------------------------------------------------------------------------------------------------------ threads
class Watched:
    """A solver that notes, of each thread, what it prepares and its scratch."""

    def __init__(self, count):
        self.all_at_work, self.found = Barrier(count, timeout=60), {}

    def solve(self, problem):
        if get_ident() not in self.found:
            self.all_at_work.wait()
        solution = DDP().solve(problem)
        self.found[get_ident()] = [*slots._kept.slots, scratch(100), num_threads(), problem.name]
        return solution


def test_threads_find_the_same_bits_and_share_no_scratch():
    """They share a system, and take turns as often as possible."""
    problem, parameters = problems.make("pendulum", horizon=15), np.linspace(-1.0, 1.0, 40)

    def make(angle):
        return replace(problem, x0=np.array([angle, 0.0]), name=f"{num_threads()} threads")

    before, often, solver = num_threads(), sys.getswitchinterval(), Watched(3)
    sys.setswitchinterval(1e-5)
    try:
        results = solve_many(make, parameters, solver, threads=True, workers=3)
    finally:
        sys.setswitchinterval(often)
    for outcome in results:
        assert outcome.solution.problem is None
        assert_same(outcome.solution, DDP().solve(make(outcome.parameter)))
    assert len(solver.found) == 3 and num_threads() == before
    *kept, _, _ = zip(*solver.found.values(), strict=False)
    assert len(set(map(id, chain(*kept)))) == len(list(chain(*kept)))
    assert {tuple(found[-2:]) for found in solver.found.values()} == {(1, "1 threads")}
    assert_same(results.with_problem(3), results[3].solution)


def test_threads_write_folders_and_keep_errors_apart(tmp_path):
    parameters = [0.5, -1.0, 0.0, 2.0]
    results = solve_many(leaving, parameters, DDP(), threads=True, workers=2, folder=tmp_path)
    assert [outcome.ending for outcome in results] == ["converged", "ValueError", "SystemExit", "converged"]
    assert "in swing" in results[1].traceback and "enough" in results[2].error
    assert_same(load_many(tmp_path)[3].solution, results[3].solution)
    MADE.clear()
    more = solve_many(leaving, [*parameters[:2], 1.0, 2.0], DDP(), threads=True, folder=tmp_path)
    assert sorted(MADE) == [-1.0, 1.0]
    assert_same(more[0].solution, results[0].solution)


# -------------------------------------------------------------------------------------------------------- wrong input
@pytest.mark.parametrize(
    "changes, error, match",
    [
        ({"make_problem": "swing"}, TypeError, "make_problem: got str, expected a function"),
        ({"make_problem": lambda mass: swing(mass)}, TypeError, "make_problem: .*lambda.*; define it at module level"),
        ({"solver": "ddp"}, TypeError, "solver: got 'ddp', expected a solver such as"),
        ({"solver": DDP}, TypeError, "solver: got <class .*DDP'>, expected a solver such as"),
        ({"parameters": []}, ValueError, "parameters: got none"),
        ({"parameters": 3}, TypeError, "parameters: got int, expected a sequence"),
        ({"parameters": {"mass": 1.0}}, TypeError, "parameters: got dict, expected a sequence"),
        ({"parameters": [1.0, lambda: 0]}, TypeError, r"parameters\[1\]: got .*cannot be sent to another process"),
        ({"executor": 2}, TypeError, "executor: got int, expected a concurrent"),
        ({"workers": 0}, ValueError, "workers: got 0"),
        ({"workers": 2, "executor": Inline()}, ValueError, "workers: got 2 and an executor as well"),
        ({"threads": 1}, TypeError, "threads: got 1, expected True or False"),
        ({"threads": True, "executor": Inline()}, ValueError, "threads: got True and an executor as well"),
        ({"attempts": 0}, ValueError, "attempts: got 0"),
        ({"no_workers_timeout": 0.0}, ValueError, "no_workers_timeout: got 0.0, expected a positive number of seconds"),
        ({"no_workers_timeout": "1 h"}, TypeError, "no_workers_timeout: got"),
    ],
)
def test_wrong_input(changes, error, match, tmp_path):
    arguments = {"make_problem": swing, "parameters": [1.0], "solver": DDP(), "folder": tmp_path / "results"} | changes
    with pytest.raises(error, match=match):
        solve_many(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_solver_of_something_else():
    @dataclass(frozen=True)
    class Guess:
        def solve(self, problem):
            return problem.us_init

    results, _ = here([1.0], solver=Guess())
    assert results[0].error == "TypeError: solver: solve returned ndarray, expected a trajopt.Solution"


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys, monkeypatch):
    for name in ("TTY_COMPATIBLE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    here([1.0] * 3, progress=True)
    assert capsys.readouterr().err == "solving 1/3\nsolving 2/3\nsolving 3/3\n"
    here([1.0] * 50, progress=True, solver=ILQR(max_iterations=0))
    lines = capsys.readouterr().err.splitlines()
    assert 10 <= len(lines) <= 21 and lines[-1] == "solving 50/50"


def test_progress_says_what_is_waited_for(capsys, monkeypatch):
    for terminal, color in (False, "0"), (True, "1"):
        for name in ("TTY_COMPATIBLE", "FORCE_COLOR"):
            monkeypatch.setenv(name, color)
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with counted(True, 3) as count:
            count(1)
            for text in ("no workers", "no workers", ""):
                count.note(text)
                time.sleep(0.2 * terminal)  # it is drawn now and then
            count(2)
        written = capsys.readouterr().err
        assert "no workers" in written if terminal else written == "solving 1/3\nsolving 1/3: no workers\nsolving 3/3\n"


@pytest.mark.parametrize(
    "progress, terminal, shown", [(True, False, True), (False, True, False), (None, False, False), (None, True, True)]
)
def test_progress_is_shown_on_a_terminal_or_if_asked(progress, terminal, shown, capsys, monkeypatch):
    for name in ("TTY_COMPATIBLE", "FORCE_COLOR"):  # rich draws as on a terminal; the latter is older
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    here([1.0, 2.0], progress=progress)
    captured = capsys.readouterr()
    assert captured.out == "" and ("2/2" in captured.err) == shown


def test_threads_where_calls_are_shared(monkeypatch):
    """By default threads solve problems of a `ParametricProblem` whose iterations are compiled, processes others."""
    problem = problems.make("pendulum", horizon=20)
    started = []

    class Started(workers.OwnThreads):
        def __init__(self, count):
            started.append(count)
            super().__init__(count)

    monkeypatch.setattr("trajopt.batch.many.OwnThreads", Started)
    monkeypatch.setattr("trajopt.batch.many.OwnProcesses", None)
    of_x0, x0s = ParametricProblem(problem, "x0"), [[0.0, 0.0], [0.1, 0.0]]
    many = solve_many(of_x0, x0s, DDP(), workers=2)
    assert started == [2]
    for x0, outcome in zip(x0s, many, strict=True):
        assert outcome.solution.xs.tobytes() == DDP().solve(of_x0(np.array(x0))).xs.tobytes()
    python = ParametricProblem(swing(1.0), "x0")
    for make_problem, solver in ((python, DDP()), (of_x0, DDP(hessian="tensor")), (of_x0, DDP(max_iterations=1))):
        with pytest.raises(TypeError):  # processes, of which there are none here
            solve_many(make_problem, x0s, solver, workers=2)
    assert started == [2]
