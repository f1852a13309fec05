"""Scripts that solve many problems: interrupted from the keyboard, and without the guard that processes need."""

import os
import signal
import subprocess
import sys
import time
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
    solve_many(make, [1.0, 2.0, 3.0], DDP(), workers=1, folder=Path(sys.argv[1], "results"))

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may have had it ignored
GUARD
    main()
"""


def start(tmp_path, guard):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("GUARD", guard))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_ends_the_workers(tmp_path):
    with start(tmp_path, 'if __name__ == "__main__":') as process:
        pid = tmp_path / "pid"
        deadline = time.monotonic() + 120
        while not (pid.exists() and pid.read_text()) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
    assert process.returncode != 0 and "SolveManyInterrupted: 1 of 3 problems were finished" in error
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert len(list((tmp_path / "results").glob("00000*.npz"))) == len(list((tmp_path / "results").glob("0*"))) == 1


def test_a_script_without_its_guard_is_told_so(tmp_path):
    with start(tmp_path, "if True:") as process:
        error = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert 'it must call solve_many under `if __name__ == "__main__":` only' in error.splitlines()[-1]
