"""The command line: trajopt list | solve NAME | compare NAME | bench."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from trajopt.capabilities import Skeleton, capability
from trajopt.problem_packages import ProblemPackages, siblings_first
from trajopt.validation import did_you_mean

HESSIANS = ("parallel", "value", "costate", "tensor")
OK, NOT_CONVERGED, USAGE = 0, 1, 2
COMPILE = "_compile"
SECOND = "import sys; sys.path[:] = {path!r}; from trajopt.cli import main; sys.exit(main())"
"""This program in a second process, which looks for modules where this one does and not in the current folder."""


def build_parser() -> argparse.ArgumentParser:
    """The argument parser with its four commands."""
    parser = argparse.ArgumentParser(
        prog="trajopt",
        description="Trajectory optimization with exact second-order dynamics.",
        epilog="Exit code 0: done; 1: a solver did not converge; 2: wrong arguments.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and where it is installed")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="list the problems", description="List the problems by name.")
    solve = commands.add_parser(
        "solve", help="solve a problem with one solver", description="Solve a problem; write figures and numbers."
    )
    solve.add_argument("--solver", choices=("ddp", "ilqr"), default="ddp", help="default: ddp")
    solve.add_argument("--animate", action="store_true", help="write a moving picture, animation.gif")
    compare = commands.add_parser(
        "compare",
        help="solve a problem with iLQR and DDP",
        description="Solve a problem with iLQR and with DDP; print a table, write figures and numbers.",
    )
    for command in (solve, compare):
        _add_problem_options(command)
    commands.add_parser("bench", help="measure speed", description="Measure speed.", add_help=False)
    return parser


class _Version(argparse.Action):
    """Looks at what is installed only when it is asked for."""

    def __call__(self, parser, *_: Any) -> None:
        from dynamics.distribution import ROOT, distribution, intruders, version

        found = distribution()
        name = "not installed" if found is None else f"distribution {found.metadata['Name']}"
        print(f"trajopt {version()} from {ROOT} ({name})")
        for other in intruders():
            sys.stderr.write(
                f"trajopt: {other} is installed too, a different project whose packages have the same names; each "
                "overwrites the other's files.  Uninstall both, then install this one again\n"
            )
        parser.exit()


def _add_problem_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="a problem; 'trajopt list' shows them")
    command.add_argument("--out", type=Path, metavar="DIR", help="folder to write to (default: results/NAME)")
    command.add_argument(
        "--perturb", type=_scale, default=0.0, metavar="SIGMA",
        help="add normal random numbers of this standard deviation to the initial controls (default: 0)",
    )  # fmt: skip
    command.add_argument("--seed", type=_seed, default=0, help="seed of those random numbers (default: 0)")
    command.add_argument(
        "--hessian", choices=HESSIANS, default="parallel", help="multiplier of DDP (default: parallel)"
    )
    command.add_argument("--max-iterations", type=_count, default=500, metavar="N", help="default: 500")


def _scale(text: str) -> float:
    value = float(text)
    if not (np.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"got {text}, wanted a finite number >= 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"got {text}, wanted an integer >= 1")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"got {text}, wanted an integer >= 0")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    with siblings_first():
        return _run(list(sys.argv[1:] if argv is None else argv))


def _run(arguments: list[str]) -> int:
    if arguments[:1] == [COMPILE]:  # a second process of this program, see `compile_ahead`
        from trajopt.compile_ahead import compile_exact

        compile_exact(ProblemPackages().make(arguments[1]))
        return OK
    if arguments[:1] == ["bench"]:  # its options are its own
        return int(import_module("problems.bench").main(arguments[1:]) or OK)
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as end:
        return int(end.code or OK)
    problems = ProblemPackages()
    return _list(problems) if options.command == "list" else _solve(problems, options)


def _list(problems: Any) -> int:
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "problem", box=None)
    for name in problems.names():
        table.add_row(name, problems.describe(name))
    console = Console()
    console.print(table)
    scripts = Table("python -m experiments.", "measures (run it in the checkout)", box=None)
    for name, purpose in problems.experiments().items():
        scripts.add_row(name, purpose)
    if scripts.row_count:
        console.print()
        console.print(scripts)
    return OK


def _solve(problems: Any, options: argparse.Namespace) -> int:
    from rich.console import Console

    console = Console()
    names = list(problems.names())
    if options.name not in names:
        hint = did_you_mean(options.name, names)
        sys.stderr.write(f"trajopt: no problem {options.name!r}{hint}\nproblems: {', '.join(names)}\n")
        return USAGE
    from dynamics.simd import PROGRESS
    from trajopt.comparison import compare
    from trajopt.compile_ahead import compiling_together

    PROGRESS.announce, before = True, PROGRESS.compiled
    problem = problems.make(options.name)
    exact = options.command == "compare" or options.solver == "ddp"
    cold = PROGRESS.compiled > before
    animated = options.command == "solve" and options.animate
    if animated and capability(problem.system, Skeleton) is None:
        sys.stderr.write(f"trajopt: {options.name} cannot be animated, its system has no skeleton\n")
        return USAGE
    us = problem.us_init + options.perturb * np.random.default_rng(options.seed).standard_normal(problem.us_init.shape)
    with compiling_together(problem, cold and exact, ["-c", SECOND.format(path=sys.path), COMPILE, options.name]):
        results = compare(problem, _solvers(options), us)
    console.print(results)
    for path in _write(results, options.out or Path("results") / options.name, animated):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    return OK if results.converged else NOT_CONVERGED


def _solvers(options: argparse.Namespace) -> dict[str, Any]:
    from trajopt.solvers.ddp import DDP
    from trajopt.solvers.ilqr import ILQR

    ilqr = ILQR(max_iterations=options.max_iterations)
    ddp = DDP(max_iterations=options.max_iterations, hessian=options.hessian)
    if options.command == "compare":
        return {"ilqr": ilqr, "ddp": ddp}
    return {options.solver: ddp if options.solver == "ddp" else ilqr}


def _write(results: Any, folder: Path, animated: bool) -> list[Path]:
    """convergence.png, motion.png and one npz per solver; animation.gif of a finite solution if it is asked for."""
    from trajopt.plotting import animate, plot_convergence, plot_trajectory
    from trajopt.results_files import save_solution

    plot_convergence(results, folder / "convergence.png")
    plot_trajectory(results, folder / "motion.png")
    finite = [solution for solution in results.values() if np.isfinite(solution.xs).all()]
    return [
        folder / "convergence.png",
        folder / "motion.png",
        *(save_solution(solution, folder / f"{name}.npz") for name, solution in results.items()),
        *(animate(solution, folder / "animation.gif") for solution in finite[:animated]),
    ]
