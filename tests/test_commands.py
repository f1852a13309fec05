"""Every command that the documentation names is there, takes the options it is shown with, and is run by something.

A new one gets a row in `COVERED`: the line of `.ci/run` by which it runs, or the test that runs it at small size.  A
new experiment needs none: a run of all tests fails unless one of them runs it to its end (`tests/conftest.py`).
"""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import problems
from tests.conftest import BY_MAKE, NEEDS
from trajopt.command_line.cli import build_parser

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COVERED = {
    "make demo": "make demo",
    "make test": "make test",
    "make lint": "make test",
    "make test-docs": "make test-docs",
    "make docs": "make test-docs",
    "make test-narrow": "make test-narrow",
    "make test-skipped": "make test-skipped",
    "make peers": "make test-skipped",
    "make test-lowest": "make test-lowest",
    "make budget": "make budget",
    "make bench": "make bench",
    "make wheel": "make wheel",
    "make help": "tests/test_commands.py::test_recipes",
    "make clean": "tests/test_commands.py::test_clean",
    "make distclean": "tests/test_commands.py::test_clean",
    "make benchmarks": "tests/test_commands.py::test_recipes",  # of experiments that tests run
    "make tutorials": "tests/docs/test_tutorials.py::test_a_tutorial_is_executed",
    "make test-processors": "tests/test_processors.py::test_each_configuration_runs_the_tests",
    "python -m tests.processors": "tests/test_processors.py::test_each_configuration_runs_the_tests",
    "python -m trajopt": "tests/test_wheel.py::test_it_works_in_a_folder_with_others_of_its_names",
    "trajopt --version": "tests/test_wheel.py::test_it_works_in_a_folder_with_others_of_its_names",
    "trajopt compile": "tests/dynamics/test_compilation_ahead.py::test_the_command_compiles_what_a_problem_needs",
    "trajopt list": "tests/trajopt/test_cli.py::test_list",
    "trajopt solve": "tests/trajopt/test_cli.py::test_solve_takes_a_solver_a_folder_and_a_seed",
    "trajopt compare": "tests/trajopt/test_cli.py::test_compare_writes_figures_and_numbers",
    "trajopt view": "tests/trajopt/test_cli.py::test_view_solves_or_loads",
    "trajopt new": "tests/trajopt/test_new_script.py::test_a_robot_that_comes_along",
    "trajopt bench": "tests/problems/test_bench.py::test_quick_bench",
}
"""Command without its options -> where it runs."""
WRITTEN_FOR = {"NAME": "arm", "NN_name": "01_pendulum", "DIR": "results"}
"""What stands for something else in the texts -> such a thing."""


# ------------------------------------------------------------------------------------------------ what is documented
def commands_of(text):
    """Commands of the project in the backticks of a text and in its blocks of code that are no Python, as words."""
    fence = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```", re.M | re.S)
    found = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", fence.sub("", text))]
    for language, lines in fence.findall(text):
        if language in ("", "sh", "text"):
            found += [line.partition("#")[0].strip() for line in lines.splitlines()]
    ours = re.compile(r"(make [a-z]|python -m [a-z]|trajopt (-|[a-z]))")
    # whatever follows the name of a target is a variable, else it is a sentence
    return [
        words for words in map(shlex.split, filter(ours.match, found)) if words[0] != "make" or only_variables(words)
    ]


def only_variables(words):
    return all("=" in word for word in words[2:])


def documented():
    """Every command of the texts, and every target that `make help` shows."""
    found = [tuple(words) for text in TEXTS for words in commands_of(text.read_text(encoding="utf-8"))]
    found += [tuple(shown.split()) for shown in re.findall(r"make [a-z-]+", help_text())]
    return list(dict.fromkeys(found))


def help_text():
    """What `make help` prints of targets."""
    return "\n".join(line for line in MAKEFILE.splitlines() if line.startswith('\t@echo "make '))


def name_of(words):
    """A command without its options."""
    return " ".join(words[: 3 if words[0] == "python" else 2])


def test_commands_are_found_in_texts():
    text = "`make a\nwheel`, `make it`: `make wheel ARGS='-k x'`.\n```python\nmake = trajopt\n```\n"
    text += (
        "```sh\ntrajopt solve arm --out x  # more\nls\n```\n`python -m experiments.tasks\n--quick`, `trajopt.view(s)`"
    )
    assert commands_of(text) == [
        ["make", "it"], ["make", "wheel", "ARGS=-k x"], ["python", "-m", "experiments.tasks", "--quick"],
        ["trajopt", "solve", "arm", "--out", "x"],
    ]  # fmt: skip
    assert ("make", "wheel") in documented() and ("trajopt", "list") in documented() and len(documented()) > 40


@pytest.mark.parametrize("words", documented(), ids=" ".join)
def test_it_is_run_by_something(words):
    name = name_of(words)
    if name.startswith("python -m experiments."):
        assert name.removeprefix("python -m experiments.") in problems.experiments()
    else:
        assert name in COVERED, f"a row for {name!r} in COVERED: which test or line of .ci/run runs it?"


@pytest.mark.parametrize("place", sorted(set(COVERED.values())))
def test_places_where_commands_run(place):
    path, _, name = place.partition("::")
    if name:
        found = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
        assert name in {node.name for node in found if isinstance(node, ast.FunctionDef)}
    else:
        assert re.search(rf"^{place}( |$)", CI, re.M)


def test_every_experiment_is_listed():
    """Else no run of tests would miss it, nor `trajopt list` name it."""
    files = [path for path in (ROOT / "experiments").rglob("*.py") if re.search(r"^main = ", path.read_text(), re.M)]
    parts = [path.relative_to(ROOT / "experiments").with_suffix("").parts for path in files]
    assert {".".join(part for part in of if part != "__main__") for of in parts} == set(problems.experiments())


def test_experiments_that_only_some_runs_reach():
    assert set(problems.experiments()) >= BY_MAKE | set(NEEDS)
    assert all(re.search(rf"^make {target}( |$)", CI, re.M) for target in ("wheel", "budget"))
    peers = " ".join(PROJECT["optional-dependencies"]["peers"])
    assert "crocoddyl" in peers and "pin==" in peers, "what they need comes with `make test-skipped`"


# ------------------------------------------------------------------------------------------------ what they are given
def check(words):
    """Whether a command exists and takes its options; others than the project's own are left to themselves."""
    words = [WRITTEN_FOR.get(word, word) for word in words]
    program, *rest = words
    if program == "trajopt" and rest[0] not in ("bench", "--version"):
        build_parser().parse_args(rest)
    elif words[:2] == ["python", "-m"] and rest[1].startswith("experiments."):
        assert find_spec(rest[1]), rest[1]
        try:
            package = import_module(rest[1])
            main = (package if hasattr(package, "main") else import_module(f"{rest[1]}.__main__")).main
        except ImportError as error:  # of a library that is not installed
            pytest.skip(str(error))
        main.parser().parse_args(rest[2:])
    elif words[:2] == ["python", "-m"] and rest[1].split(".")[0] in ("tests", "docs", "trajopt"):
        assert find_spec(rest[1]), rest[1]
    elif words[:3] == ["python", "-m", "pytest"]:
        assert all((ROOT / word).exists() for word in rest[2:] if word.startswith("tests"))


@pytest.mark.parametrize("words", [words for words in documented() if words[0] != "make"], ids=" ".join)
def test_it_takes_the_options_it_is_shown_with(words):
    check(words)


def test_extras_that_are_named():
    named = {
        extra
        for text in TEXTS
        for extras in re.findall(r"\.\[([\w,]+)\]", text.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert {"view", "robots"} <= named <= set(PROJECT["optional-dependencies"])


# ------------------------------------------------------------------------------------------------ make
STAND_IN = """#!{python} -S
import json, os, sys
with open({record!r}, "a") as file:
    print(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]), file=file)
"""
TARGETS = sorted(set(re.findall(r"[a-z-]+", re.search(r"^\.PHONY: (.*)", MAKEFILE, re.M)[1])) - {"clean", "distclean"})


@pytest.fixture
def make(tmp_path):
    """`make` in a copy of what it reads, where installed programs only keep how they were called; returns that."""
    if shutil.which("make") is None:
        pytest.skip("needs the program make")
    (tmp_path / "tests").mkdir()
    for name in ("Makefile", "pyproject.toml", "tests/lowest.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    record = tmp_path / "record.txt"
    extras = ("", *(f"-{extra}" for extra in PROJECT["optional-dependencies"]))
    for folder, stamps in (
        (".venv", ("created", *(f"installed{extra}" for extra in extras))),
        (".venv-lowest", ("installed",)),
    ):
        (tmp_path / folder / "bin").mkdir(parents=True)
        for program in ("python", "trajopt", "ruff", "pyright", "lint-imports"):
            path = tmp_path / folder / "bin" / program
            path.write_text(STAND_IN.format(python=sys.executable, record=str(record)))
            path.chmod(0o755)
        for stamp in stamps:
            (tmp_path / folder / f".{stamp}").touch()

    def run(*words):
        record.write_text("")
        (tmp_path / "out").mkdir(exist_ok=True)
        done = subprocess.run(["make", *words, "OUT=out"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in record.read_text().splitlines()]

    run.folder = tmp_path
    return run


@pytest.mark.parametrize("target", TARGETS)
def test_recipes(make, target):
    """What a target calls exists and takes its options."""
    calls = make(target)
    assert calls or target in ("help", "peers")
    for words in calls:
        check(words)


@pytest.mark.parametrize(
    "words", [words for words in documented() if words[0] == "make" and len(words) > 2], ids=" ".join
)
def test_variables_go_to_what_is_called(make, words):
    variables = dict(word.split("=", 1) for word in words[2:])
    calls = make(*words[1:])
    if "ARGS" in variables:
        given = shlex.split(variables["ARGS"])
        assert any(call[-len(given) :] == given for call in calls)


def test_benchmarks_are_those_of_the_page(make):
    calls = [call for call in make("benchmarks") if call[2] != "json.tool"]
    shown = {path.stem for path in (ROOT / "docs" / "benchmarks").glob("*.json")}
    assert {call[2].removeprefix("experiments.") for call in calls} == shown


def test_clean(make):
    folder = make.folder
    (folder / "build" / "lib").mkdir(parents=True)
    (folder / "tests" / "__pycache__").mkdir()
    make("clean")
    assert not (folder / "build").exists() and not (folder / "tests" / "__pycache__").exists()
    assert (folder / ".venv").exists() and (folder / "tests" / "lowest.py").exists()
    make("distclean")
    assert not (folder / ".venv").exists() and not (folder / ".venv-lowest").exists()


def test_every_target_is_in_its_help():
    shown = set(re.findall(r"make ([a-z-]+)", help_text()))
    assert set(TARGETS) | {"clean", "distclean"} == shown | {"help"}
