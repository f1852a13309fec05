"""How tests are shared out to processes, and what all of them watch.

Tests that compile the same large kernels stay together: with an empty kernel cache, two processes that reach contact
dynamics at the same time would wait for each other.

The scratch of every driver is guarded (`dynamics.simd.scratch_guard`), and a run of all tests fails unless every driver
was called and wrote its scratch to the end: sizes and what is sliced from them are written in different places.  It
fails too if no test ran one of the experiments to its end.

At its end a run says what was skipped and why; `pytest --skipped` then runs what has been skipped so far.
"""

import ast
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from ctypes import CDLL
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest

os.environ |= {"TRAJOPT_COMPILE_PROCESSES": "0", "TRAJOPT_QUIET": "1"}  # the suite's processes share what they compile
os.environ["TRAJOPT_GUARD_SCRATCH"] = "1"  # read when `dynamics.simd` is imported, here and in processes started here


@pytest.fixture(scope="session", autouse=True)
def compiled_iterations():
    """Programs are prepared for the first iteration of every solve, which for users' wait until that is worth while."""
    from trajopt.solvers import program

    program.LONGEST = 0
    yield


@pytest.fixture
def rng() -> np.random.Generator:
    """Seeded random numbers."""
    return np.random.default_rng(2026)


@pytest.fixture(autouse=True, scope="session")
def _launches_by_address():
    """Every driver is called by its address too, and computes the same bits."""
    from tests.reference.prepared import called_twice

    with called_twice():
        yield


GROUPS = {
    "soft": ("rod_", "rods", "soft", "link_translation"),
    "contact": ("contact", "knot_contract", "hybrid", "quadruped", "sweep_leading", "test_problems"),
    "callable": ("test_callable",),
}
"""Parts of the names of files whose robots are soft, touch the ground, or are functions of the user."""
LONG = "test_wrapped_systems", "test_export", "test_wheel", "test_kernel_cache", "test_solve_many"
"""Parts of the names of other files that take long."""
SOFT_PROBLEMS = ("soft_manipulator", "hybrid_arm", "-manipulator", "-hybrid", "closed chains")
"""Parts of the names of tests of soft robots in other files."""


def group_of(nodeid: str) -> str:
    """One of `GROUPS`, or else the file's own."""
    path, _, name = nodeid.partition("::")
    if any(problem in name for problem in SOFT_PROBLEMS):
        return "soft"
    file = path.rsplit("/", 1)[-1]
    return next((group for group, parts in GROUPS.items() if any(part in file for part in parts)), path)


def rank_of(group: str) -> int:
    """When a group is run, from zero."""
    long = next((rank for rank, part in enumerate(LONG, 1) if part in group), len(LONG) + 1)
    return 0 if group in GROUPS else long


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """These groups come first, then other files that take long, so that no process waits for another one at the end."""
    if config.option.skipped:
        before = skipped_before(config)
        left_out = [item for item in items if before.isdisjoint(places_of(item.nodeid))]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: rank_of(group_of(item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """A group at a time to each process, in the order of the tests.  (Marks for `--dist loadgroup` do not serve: with
    pytest 9.2 xdist 3.8 overlooks them, its issue 1386.)

    Where a process ends in a test, as at the time limit, xdist 3.8 would run that test again, in the next process and
    the next, and stops with an error of its own if two end at a time."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        def remove_node(self, node: Any) -> str | None:
            """Returns the test at which a process has ended, which counts as run."""
            work = self.assigned_work[node]
            group, test = next(((g, test) for g in work.values() for test, done in g.items() if not done), ({}, None))
            if test is not None:
                group[test] = True
            for name in [name for name, group in work.items() if all(group.values())]:
                del work[name]  # whoever gets a group without tests would wait for more
            super().remove_node(node)
            return test

        def _reschedule(self, node: Any) -> None:
            if node in self.registered_collections:  # a new process has to tell its tests first
                super()._reschedule(node)

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


# ------------------------------------------------------------------------------------------------ memory
_give_back_memory = getattr(CDLL(None), "malloc_trim", None)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Give memory back to the system at the end of each file: glibc keeps what LLVM frees between what it keeps itself,
    a quarter of the memory of a process that compiles."""
    if _give_back_memory is not None and (nextitem is None or nextitem.path != item.path):
        _give_back_memory(0)


# ------------------------------------------------------------------------------------------------ scratch
ROOT = Path(__file__).parents[1]
ROOM = "dynamics.rods"
"""Package whose sizes serve one knot in plain numbers too, with groups of LANES."""
unused: dict[str, int] = {}
"""Of each driver called in any process: the fewest numbers at the end of its scratch that a call left alone."""


@cache
def drivers() -> set[str]:
    """Module and name of every driver for `launch` in the project, those that are declared with the others."""
    import dynamics
    from dynamics.model.knot_driver import DRIVERS
    from dynamics.residuals.kernel_residual import RESIDUALS

    for module in walk_packages(dynamics.__path__, "dynamics."):
        import_module(module.name)
    found = {f"{declared.module_name}.drive" for declared in (*DRIVERS, *RESIDUALS)}
    for file in (*ROOT.glob("dynamics/**/*.py"), *ROOT.glob("experiments/**/*.py")):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and "driver" in map(ast.unparse, node.decorator_list):
                found.add(f"{module}.{node.name}")
    return found


def complaints() -> list[str]:
    """What a run of all tests has found wrong with the scratch of drivers."""
    never = [f"{name}: no test calls it through `launch`" for name in sorted(drivers() - unused.keys())]
    least = {}  # of each module, whose drivers may share one size
    for name, count in unused.items():
        module = name.rpartition(".")[0]
        least[module] = 0 if module.startswith(ROOM) else min(count, least.get(module, count))
    never += [f"{module}: asks for {n} numbers of scratch too many" for module, n in sorted(least.items()) if n]
    return never + [f"experiments.{name}: no test runs it to its end" for name in sorted(expected() - completed)]


# ------------------------------------------------------------------------------------------------ experiments
BY_MAKE = {"wheel"}
"""Experiments that continuous integration runs by `make wheel`."""
NEEDS = {"peers": "crocoddyl", "public_robots.pictures": "pinocchio", "mujoco_gaits": "example_robot_data"}
"""Experiments that are nothing without a library."""
completed: set[str] = set()
"""Experiments that have run to their end in any process."""


def expected() -> set[str]:
    """Experiments that a run of all tests runs."""
    from problems import experiments

    return set(experiments()) - BY_MAKE - {name for name, library in NEEDS.items() if find_spec(library) is None}


def note(found: dict[str, int], experiments: Iterable[str]) -> None:
    """Keep what a process has seen."""
    for name, count in found.items():
        unused[name] = min(count, unused.get(name, count))
    completed.update(experiments)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    """One of several processes has ended."""
    seen = getattr(node, "workeroutput", {})
    note(seen.get("unused", {}), seen.get("completed", ()))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    from dynamics.simd import scratch_guard

    config, harness = session.config, sys.modules.get("experiments.harness.experiment")
    found = {name: count for name, count in scratch_guard.unused.items() if name in drivers()}
    note(found, harness.COMPLETED if harness else ())
    if hasattr(config, "workeroutput"):  # of one of several processes
        config.workeroutput |= {"unused": unused, "completed": sorted(completed)}
    elif all_tests(config) and exitstatus == 0 and complaints():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if all_tests(config) and (lines := complaints()):
        terminalreporter.section("scratch of drivers, experiments")
        terminalreporter.write("".join(f"{line}\n" for line in lines))
    if skipped := terminalreporter.stats.get("skipped", []):
        terminalreporter.section("skipped")
        terminalreporter.write("".join(f"{line}\n" for line in reasons(skipped)))
    remember(config, {report.nodeid for report in skipped}, terminalreporter.stats)


# ------------------------------------------------------------------------------------------------ what was skipped
SKIPPED = "trajopt/skipped"
"""Where pytest's cache holds the tests, or whole files, that have been skipped and have not run since."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--skipped", action="store_true", help="only the tests that runs before have skipped")


def reasons(skipped: Sequence[pytest.TestReport]) -> list[str]:
    """How many were skipped for each reason, and in which files, most first."""
    found = defaultdict(list)
    for report in skipped:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found[why.removeprefix("Skipped: ")].append(Path(report.nodeid.partition("::")[0]).name)
    return [
        f"{len(files):4d}  {why}  ({', '.join(sorted(set(files)))})"
        for why, files in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def places_of(nodeid: str) -> set[str]:
    """A test and its file, which is skipped as a whole where it needs a library."""
    return {nodeid, nodeid.partition("::")[0]}


def skipped_before(config: pytest.Config) -> set[str]:
    cache = getattr(config, "cache", None)  # pytest has none with -p no:cacheprovider
    return set(cache.get(SKIPPED, ())) if cache else set()


def remember(config: pytest.Config, skipped: set[str], stats: Mapping[str, list]) -> None:
    """Add what was skipped now, without what has run since."""
    ended = [report.nodeid for kind in ("passed", "failed", "error") for report in stats.get(kind, ())]
    ran = set().union(*map(places_of, ended))
    if getattr(config, "cache", None) and not config.option.collectonly:
        config.cache.set(SKIPPED, sorted((skipped_before(config) - ran) | skipped))


def all_tests(config: pytest.Config) -> bool:
    """Whether none is left out on the command line."""
    choices = "keyword", "markexpr", "deselect", "lf", "ignore", "collectonly", "skipped"
    chosen = any(getattr(config.option, name, None) for name in choices)
    return config.args == config.getini("testpaths") and not chosen
