"""The command line, in process, with a small stand-in for the problems package."""

import dataclasses
import io
import subprocess
import sys
import types
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from rich.console import Console

from tests.trajopt.cases import cartpole, pendulum, tip
from trajopt import DDP, ILQR, compare
from trajopt.command_line import cli
from trajopt.command_line.cli import GROUP, main

MAKERS = {"pendulum": pendulum, "tip": tip}


@pytest.fixture
def problems(monkeypatch, tmp_path):
    """A package `problems` with two problems and a bench that records its arguments; runs in an empty folder."""
    package = types.ModuleType("problems")
    package.names = lambda: list(MAKERS)
    package.describe = lambda name: f"the {name} problem"
    package.experiments = lambda: {"study": "measures much"}
    package.make = lambda name: MAKERS[name]()
    bench = types.ModuleType("problems.bench")
    bench.calls = []
    bench.main = bench.calls.append
    package.bench = bench
    monkeypatch.setitem(sys.modules, "problems", package)
    monkeypatch.setitem(sys.modules, "problems.bench", bench)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return package


def test_list(problems, capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "pendulum" in out and "the tip problem" in out and "measures much" in out


def test_list_where_there_is_no_checkout(problems, capsys):
    problems.experiments = dict
    assert main(["list"]) == 0
    assert "experiments" not in capsys.readouterr().out


def register(monkeypatch, **packages):
    """Stand-ins for the problem packages of other distributions."""
    entries = [EntryPoint(name, f"their_{name}", GROUP) for name in packages]
    monkeypatch.setattr(cli, "entry_points", lambda group: entries if group == GROUP else [])
    for name, package in packages.items():
        monkeypatch.setitem(sys.modules, f"their_{name}", package)


def test_problems_that_others_register(problems, monkeypatch, capsys):
    """They come after ours; what is broken or has a name that is taken is told, and the rest is used."""
    theirs = types.SimpleNamespace(names=lambda: ["hopper", "tip"], describe=lambda name: f"their {name}")
    theirs.make = lambda name: MAKERS["pendulum"]()
    register(monkeypatch, mine=theirs, broken=types.SimpleNamespace(), absent=None)
    assert main(["list"]) == 0
    out, error = capsys.readouterr()
    assert out.index("the tip problem") < out.index("their hopper") and "their tip" not in out
    assert "their_mine has a problem 'tip' too, which is left out" in error
    assert "no problems from their_broken, AttributeError" in error
    assert "no problems from their_absent, ModuleNotFoundError" in error
    assert main(["solve", "hopper", "--out", "out"]) == 0
    assert main(["solve", "hoper"]) == 2 and "did you mean 'hopper'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "decoy, arguments, told",
    [
        ("problems/__init__.py", ["solve", "pendulm"], "no problem 'pendulm'; did you mean 'pendulum'?"),
        ("problems/notes.txt", ["solve", "pendulm"], "no problem 'pendulm'; did you mean 'pendulum'?"),
        ("dynamics.py", ["--version"], "trajopt "),
    ],
)
def test_the_current_folder_may_hold_what_has_our_names(tmp_path, decoy, arguments, told):
    """``python -m`` looks there first."""
    (tmp_path / decoy).parent.mkdir(exist_ok=True)
    (tmp_path / decoy).write_text("raise RuntimeError('not this one')")
    command = [sys.executable, "-m", "trajopt", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert told in done.stdout + done.stderr


def test_compare_writes_figures_and_numbers(problems, tmp_path, capsys):
    assert main(["compare", "tip"]) == 0
    folder = tmp_path / "results" / "tip"
    assert {p.name for p in folder.iterdir()} == {"convergence.png", "motion.png", "ilqr.npz", "ddp.npz"}
    out = capsys.readouterr().out
    assert "ilqr" in out and "converged" in out and "results/tip/motion.png" in out
    reference = DDP().solve(tip())
    with np.load(folder / "ddp.npz", allow_pickle=False) as data:
        np.testing.assert_array_equal(data["us"], reference.us)
        np.testing.assert_array_equal(data["xs"], reference.xs)
        np.testing.assert_array_equal(data["log_gradient_norm"], reference.history("gradient_norm"))
        assert str(data["status"]) == "converged" and float(data["cost"]) == reference.cost
        assert list(data["log_step"]) == [record.step for record in reference.log]
        assert float(data["time_total"]) > 0


def test_solve_takes_a_solver_a_folder_and_a_seed(problems, tmp_path):
    def us(folder, *options):
        assert main(["solve", "pendulum", "--out", str(tmp_path / folder), *options]) == 0
        (numbers,) = (tmp_path / folder).glob("*.npz")
        with np.load(numbers) as data:
            return numbers.name, data["log_cost"]

    plain, again, perturbed, repeated, other = (
        us("a", "--solver", "ilqr"),
        us("b", "--solver", "ilqr", "--seed", "7"),
        us("c", "--perturb", "0.1", "--seed", "7", "--hessian", "tensor"),
        us("d", "--perturb", "0.1", "--seed", "7", "--hessian", "tensor"),
        us("e", "--perturb", "0.1", "--seed", "8", "--hessian", "tensor"),
    )
    assert plain[0] == "ilqr.npz" and perturbed[0] == "ddp.npz"
    assert plain[1][0] == again[1][0]  # a seed without a perturbation changes nothing
    assert perturbed[1][0] == repeated[1][0]
    assert len({plain[1][0], perturbed[1][0], other[1][0]}) == 3


def test_solve_animates_what_has_a_skeleton(problems, tmp_path, capsys, monkeypatch):
    assert main(["solve", "pendulum", "--animate"]) == 0
    assert (tmp_path / "results" / "pendulum" / "animation.gif").read_bytes()[:6] == b"GIF89a"
    assert "results/pendulum/animation.gif" in capsys.readouterr().out
    monkeypatch.setitem(MAKERS, "cartpole", cartpole)
    assert main(["solve", "cartpole", "--animate"]) == 2
    assert "cartpole cannot be animated, its system has no skeleton" in capsys.readouterr().err
    assert not (tmp_path / "results" / "cartpole").exists()


@pytest.fixture
def pages(monkeypatch):
    """Calls of a stand-in for `trajopt.view`, with viser installed."""
    calls = []
    monkeypatch.setitem(sys.modules, "viser", types.ModuleType("viser"))
    monkeypatch.setattr("trajopt.plotting.view", lambda solution, port, host: calls.append((solution, port, host)))
    return calls


def test_view_solves_or_loads(problems, pages, tmp_path, capsys):
    assert main(["solve", "pendulum", "--view", "--port", "18500", "--host", "localhost"]) == 0
    assert main(["view", "pendulum"]) == 0
    saved = tmp_path / "results" / "pendulum" / "ddp.npz"
    assert main(["view", str(saved)]) == 0
    assert [call[1:] for call in pages] == [(18500, "localhost"), *[(8080, "127.0.0.1")] * 2]
    for solution, _, _ in pages:
        assert solution.problem.name == "pendulum"
        np.testing.assert_array_equal(solution.xs, pages[0][0].xs)
    saved.unlink()
    assert main(["view", "pendulum"]) == 0 and not saved.exists()  # writes nothing
    assert main(["view", "tip", "--port", "0"]) == 0 and pages[-1][1] == 0


def test_view_of_a_file_says_what_is_wrong_with_it(problems, pages, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(MAKERS, "cartpole", cartpole)

    def refused(*arguments):
        assert main(["view", *arguments]) == 2
        return capsys.readouterr().err

    own, unnamed = tmp_path / "own.npz", tmp_path / "unnamed.npz"
    solution = DDP().solve(pendulum())
    dataclasses.replace(solution, problem=dataclasses.replace(solution.problem, name="mine")).save(own)
    dataclasses.replace(solution, problem=None).save(unnamed)
    assert "neither a file nor a problem 'pendulm'; did you mean 'pendulum'?" in refused("pendulm")
    assert "no.npz" in refused("no.npz")
    assert "own.npz is of a problem of your own, 'mine'" in refused(str(own))
    assert "unnamed.npz does not say of what problem it is; give --problem" in refused(str(unnamed))
    assert "--problem: got 'pendulm'; did you mean 'pendulum'?" in refused(str(own), "--problem", "pendulm")
    (tmp_path / "broken.npz").write_bytes(own.read_bytes()[:1000])
    assert "broken.npz: got a file that is cut short" in refused(str(tmp_path / "broken.npz"))
    assert "pendulum is a problem itself" in refused("pendulum", "--problem", "tip")
    assert "cartpole cannot be viewed, its system has no skeleton" in refused("cartpole")
    assert "port: got 70000" in refused("pendulum", "--port", "70000")
    assert "host: got '192.0.2.1'" in refused(str(own), "--host", "192.0.2.1")
    assert pages == []
    for file in (own, unnamed):
        assert main(["view", str(file), "--problem", "pendulum"]) == 0
    assert [call[0].problem.name for call in pages] == ["pendulum"] * 2
    assert main(["solve", "pendulum", "--port", "1234"]) == 2
    assert "--host and --port: got one without --view" in capsys.readouterr().err


def test_view_says_what_to_install_before_it_solves(problems, capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "viser", None)
    for arguments in (["view", "pendulum"], ["solve", "pendulum", "--view"], ["view", "results.npz"]):
        assert main(arguments) == 2
        assert "trajopt.view needs viser: pip install" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_wrong_name_lists_the_right_ones(problems, capsys, tmp_path):
    for command in ("solve", "compare"):
        assert main([command, "pendulm"]) == 2
        error = capsys.readouterr().err
        assert "no problem 'pendulm'; did you mean 'pendulum'?" in error and "problems: pendulum, tip" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["optimize"], ["solve"], ["solve", "tip", "--solver", "sqp"], ["solve", "tip", "--perturb", "-1"],
        ["solve", "tip", "--perturb", "nan"], ["solve", "tip", "--max-iterations", "0"],
        ["solve", "tip", "--seed", "-3"], ["compare", "tip", "--solver", "ddp"],
        ["compare", "tip", "--animate"], ["compare", "tip", "--view"], ["view"], ["view", "tip", "--port", "x"],
    ],
)  # fmt: skip
def test_wrong_arguments(problems, arguments, capsys):
    assert main(arguments) == 2
    assert "usage: trajopt" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["list", "solve", "compare", "view"])
def test_help(problems, command, capsys):
    assert main([command, "--help"]) == 0
    assert f"usage: trajopt {command}" in capsys.readouterr().out


def test_a_solver_that_does_not_converge_shows_in_the_exit_code(problems, capsys):
    assert main(["solve", "tip", "--max-iterations", "1"]) == 1
    assert "max_iterations" in capsys.readouterr().out


def test_bench_passes_its_arguments_on(problems):
    assert main(["bench", "--quick", "3"]) == 0
    assert main(["bench", "--help"]) == 0
    assert problems.bench.calls == [["--quick", "3"], ["--help"]]


def test_comparison_is_a_mapping_and_a_table():
    comparison = compare(tip(), {"first": ILQR(max_iterations=2), "second": DDP()})
    assert list(comparison) == ["first", "second"] and len(comparison) == 2
    assert not comparison.converged and comparison["second"].converged
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(comparison)
    text = console.export_text()
    assert "…" not in text  # nothing is cut off in an ordinary terminal
    for word in ("tip", "solver", "gradient", "deriva-", "rollouts", "max_iterations", "converged"):
        assert word in text
    assert f"{comparison['second'].cost:.9g}" in text


def test_import_loads_neither_kernels_nor_figures():
    heavy = ("numba", "matplotlib", "scipy", "rich", "problems")
    code = f"import sys, trajopt; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_public_name_can_be_had():
    import trajopt

    assert set(trajopt.__all__) == set(dir(trajopt))
    for name in trajopt.__all__:
        assert getattr(trajopt, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'iLQR'"):
        trajopt.iLQR  # noqa: B018


def test_no_module_hides_a_public_name():
    """Importing a submodule binds its name in the package; no such name may be one of the public functions."""
    code = """
import pkgutil, types, trajopt
for module in pkgutil.walk_packages(trajopt.__path__, "trajopt."):
    if not module.name.endswith(("__main__", "trajopt.jax", "trajopt.torch")):
        __import__(module.name)
print([name for name in trajopt.__all__ if isinstance(getattr(trajopt, name), types.ModuleType)])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
