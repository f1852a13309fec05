"""The runs as on other processors: what they tell pytest, and what this processor cannot do."""

import subprocess

import pytest

from dynamics.simd import shipped
from dynamics.simd.shipped import LEVELS
from tests import processors


@pytest.fixture
def runs(monkeypatch):
    """Environments and arguments of the runs of pytest; one fails."""
    found = []

    def run(command, env):
        found.append((env, command[3:]))
        return subprocess.CompletedProcess(command, int(env.get("OPENBLAS_CORETYPE") == "Zen"))

    monkeypatch.setattr(processors.subprocess, "run", run)
    for name in ("OPENBLAS_CORETYPE", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_each_configuration_runs_the_tests(runs, monkeypatch):
    monkeypatch.setattr(processors, "host_levels", lambda: list(LEVELS))
    assert processors.main(["--", "-k", "sweep"]) == 1
    assert all(arguments == ["-k", "sweep"] for _, arguments in runs)
    told = [{name: env.get(name) for name in ("OPENBLAS_CORETYPE", "NUMBA_CPU_NAME")} for env, _ in runs]
    assert [list(filter(None, names.values()))[-1] for names in told] == ["Haswell", "Zen", "x86-64-v3", "x86-64-v4"]
    assert processors.main(["narrow"]) == 0
    assert {"OPENBLAS_CORETYPE": "Haswell", "NUMBA_CPU_FEATURES": ""}.items() <= runs[-1][0].items()
    assert processors.main(["unheard of"]) == 2 and len(runs) == 5


def test_what_the_processor_cannot_do_is_said(runs, monkeypatch, capsys):
    features = dict.fromkeys(LEVELS["x86-64-v3"], True)
    monkeypatch.setattr(shipped.llvm, "get_host_cpu_features", lambda: features | {"avx512f": True})
    assert processors.main(["four-lanes", "eight-lanes"]) == 0
    printed = capsys.readouterr().out
    assert len(runs) == 1 and "eight-lanes: skipped, this processor is none of x86-64-v4" in printed
