"""What a run of tests says of those that it skips, and how they run later."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import pytest_xdist_make_scheduler

HERE = Path(__file__).parent
WHOLE = "import pytest\npytest.importorskip('lateral')\ndef test_a(): pass\ndef test_b(): pass\n"
PARTS = """
import pytest

def test_runs(): pass

@pytest.mark.parametrize("i", range(3))
def test_parts(i):
    pytest.importorskip("lateral")

@pytest.mark.skip(reason="on Sundays")
def test_never(): pass
"""


@pytest.fixture
def run(tmp_path):
    """pytest in a folder with these tests and the project's own `conftest`; lines that it prints."""
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_whole.py").write_text(WHOLE)
    (tmp_path / "test_parts.py").write_text(PARTS)

    def run(*arguments):
        # PYTHONPATH as an editable installation would have it
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(tmp_path / "library")])}
        command = [sys.executable, "-m", "pytest", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return run


def test_skips_are_told_by_reason_and_run_later(run, tmp_path):
    lines = run("-n", "2")
    told = lines[next(i for i, line in enumerate(lines) if line.strip("= ") == "skipped") + 1 :]
    missing = "could not import 'lateral': No module named 'lateral'"
    assert told[:2] == [f"   4  {missing}  (test_parts.py, test_whole.py)", "   1  on Sundays  (test_parts.py)"]
    assert told[-1].strip("= ").startswith("1 passed, 5 skipped in ")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "lateral.py").touch()
    assert "5 passed, 1 skipped" in run("-n", "0", "--skipped")[-1]
    assert "1 skipped" in run("-n", "0", "--skipped")[-1]


def test_nothing_is_said_where_nothing_is_skipped(run):
    lines = run("-k", "runs", "--ignore", "test_whole.py", "-n", "0")
    assert not any("skipped" in line for line in lines)
    assert lines[-1].strip("= ").startswith("1 passed")


class Process:
    """One of several that run tests, and the tests that it was sent."""

    def __init__(self, name):
        self.gateway, self.sent, self.shutting_down = SimpleNamespace(id=name), [], False

    def send_runtest_some(self, places):
        self.sent += places

    def shutdown(self):
        self.shutting_down = True


def test_a_test_at_which_a_process_ends_is_not_run_again():
    """Two end at a time, the second one in the last test of its file; all other tests are run by new processes."""
    pytest.importorskip("xdist")
    option = SimpleNamespace(loadscopereorder=True)
    scheduler = pytest_xdist_make_scheduler(SimpleNamespace(option=option, getvalue=lambda _: ["2*popen"]), None)
    tests = [f"test_{file}.py::test_{i}" for file in "abcd" for i in range(3)]
    first, second, *new = map(Process, "1234")

    def begin(*processes):
        for each in processes:
            scheduler.add_node(each)
        for each in processes:
            scheduler.add_node_collection(each, tests)
            if scheduler.collection_is_completed:
                scheduler.schedule()

    begin(first, second)
    assert (first.sent, second.sent) == ([0, 1, 2], [3, 4, 5])
    scheduler.mark_test_complete(first, 0)
    for place in (3, 4):
        scheduler.mark_test_complete(second, place)
    assert (first.sent[3:], second.sent[3:]) == ([6, 7, 8], [9, 10, 11])
    for each, place in ((first, 1), (second, 5)):
        for process in new:
            if process not in scheduler.nodes:
                scheduler.add_node(process)
        assert scheduler.remove_node(each) == tests[place]
    for each in new:
        scheduler.add_node_collection(each, tests)
        scheduler.schedule()
    left = [2, *range(6, 12)]
    for _ in list(left):
        each = next(each for each in new if each.sent)
        scheduler.mark_test_complete(each, place := each.sent.pop(0))
        left.remove(place)
    assert left == [] and scheduler.tests_finished and not scheduler.workqueue
