"""Scripts that solve many problems: interrupted, killed, and without the guard that processes need."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from tests.trajopt.test_solve_many import swing
from trajopt import DDP
from trajopt.batch.many import solve_many

def make(parameter):
    if parameter == 2.0:
        Path(sys.argv[1], "pid").write_text(str(os.getpid()))
        time.sleep(600)
    return swing(parameter)

def main():
    solve_many(make, [1.0, 2.0, 3.0], DDP(), workers=WORKERS, threads=THREADS, folder=Path(sys.argv[1], "results"))

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may have had it ignored
GUARD
    main()
"""


def start(tmp_path, guard, workers=1, threads=None):
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.replace("GUARD", guard).replace("WORKERS", str(workers)).replace("THREADS", str(threads))
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def await_the_endless_problem(process, tmp_path):
    """The file with the process id of the worker that has begun it."""
    pid = tmp_path / "pid"
    deadline = time.monotonic() + 120
    while not (pid.exists() and pid.read_text()) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return pid


def alive(session):
    """Processes of a session that run; those that ended and wait for init to take note of it do not."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # ended meanwhile
            state, _, _, own = stat.read_text().rpartition(")")[2].split()[:4]
            if int(own) == session and state not in "ZX":
                found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("threads", [False, True])
def test_ctrl_c_ends_the_workers(tmp_path, threads):
    with start(tmp_path, 'if __name__ == "__main__":', threads=threads) as process:
        pid = await_the_endless_problem(process, tmp_path)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
    assert process.returncode != 0 and "SolveManyInterrupted: 1 of 3 problems were finished" in error
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert len(list((tmp_path / "results").glob("00000*.npz"))) == len(list((tmp_path / "results").glob("0*"))) == 1


def test_workers_end_with_a_caller_that_is_killed(tmp_path):
    """One in the midst of a problem, another with nothing to do; no process of their session is left."""
    with start(tmp_path, 'if __name__ == "__main__":', workers=2) as process:
        pid = await_the_endless_problem(process, tmp_path)
        assert int(pid.read_text()) in alive(process.pid)
        process.kill()
        process.wait(timeout=60)
    deadline = time.monotonic() + 60
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = alive(process.pid)
    for orphan in left:
        os.kill(orphan, signal.SIGKILL)
    assert left == []


def test_a_script_without_its_guard_is_told_so(tmp_path):
    with start(tmp_path, "if True:") as process:
        error = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert 'it must call solve_many under `if __name__ == "__main__":` only' in error.splitlines()[-1]
