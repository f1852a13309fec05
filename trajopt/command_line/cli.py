"""The command line: trajopt list | solve NAME | compare NAME | view FILE_OR_NAME | new NAME | compile | bench."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from trajopt.capabilities import Pictures, capability
from trajopt.command_line.new_script import add_new, write_new

# --------------------------------------------------------------------------------------------
# Packages of problems for the command line: `problems`, which comes with this package, and registered ones.
#
# A distribution registers a module like it, with functions names(), describe(name) and make(name), as an entry point:
#
#     [project.entry-points."trajopt.problems"]
#     my_robots = "my_robots.problems"


GROUP = "trajopt.problems"
OWN = "problems"
SIBLINGS = ("dynamics", OWN)


class _Siblings(MetaPathFinder):
    """Finder of the packages that came with this one beside it, whatever other packages on the path have their names.

    ``python -m`` looks in the current folder first, where users keep folders called `problems`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in SIBLINGS:
            return None
        return PathFinder.find_spec(fullname, [str(Path(__file__).resolve().parents[2])])


@contextmanager
def siblings_first() -> Iterator[None]:
    """Context in which `dynamics` and `problems` are those that came with this package."""
    finder = _Siblings()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class ProblemPackages:
    """The problems of all packages, those of `problems` first; of two with the same name the first is used."""

    def __init__(self) -> None:
        self._own = import_module(OWN)
        self._home: dict[str, Any] = dict.fromkeys(self._own.names(), self._own)
        for entry in sorted(entry_points(group=GROUP)):
            try:
                package = entry.load()
                names = list(package.names())
            except Exception as error:  # a broken package must not disable the others
                _say(f"no problems from {entry.value}, {type(error).__name__}: {error}")
                continue
            for name in names:
                if self._home.setdefault(name, package) is not package:
                    _say(f"{entry.value} has a problem {name!r} too, which is left out")

    def names(self) -> list[str]:
        """All names, package by package."""
        return list(self._home)

    def describe(self, name: str) -> str:
        """A description of a problem in one line."""
        return self._home[name].describe(name)

    def make(self, name: str) -> Any:
        """The problem of this name."""
        return self._home[name].make(name)

    def experiments(self) -> dict[str, str]:
        """The scripts of a checkout, each with what it measures."""
        return self._own.experiments()


# --------------------------------------------------------------------------------------------
# The commands.


HESSIANS = ("parallel", "tensor")
OK, NOT_CONVERGED, USAGE, INTERRUPTED = 0, 1, 2, 130
HOST, PORT = "127.0.0.1", 8080


class _Refused(Exception):
    """A command that cannot be carried out with these arguments."""


def build_parser() -> argparse.ArgumentParser:
    """The argument parser with its seven commands."""
    parser = argparse.ArgumentParser(
        prog="trajopt",
        description="Trajectory optimization with exact second-order dynamics.",
        epilog="Exit code 0: done; 1: a solver did not converge, or a kernel did not compile; 2: wrong arguments.",
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
        command.add_argument("--report", action="store_true", help="write all there is to know to a page, report.html")
    compare.set_defaults(animate=False, view=False)
    _add_view(commands, solve)
    add_new(commands)
    ahead = commands.add_parser(
        "compile",
        help="compile kernels ahead, so that no problem waits for them",
        description="Compile all kernels, by as many processes as TRAJOPT_COMPILE_PROCESSES says (default: one for "
        "each processor, at most 8), into the cache of this user.",
    )
    ahead.add_argument(
        "--for", dest="words", type=_words, default=[], metavar="WORD,WORD,...",
        help="only those that problems need with such a word in their name or their parts, as quadruped, rods",
    )  # fmt: skip
    commands.add_parser("bench", help="measure speed", description="Measure speed.", add_help=False)
    return parser


class _Version(argparse.Action):
    """Prints the version; looks at the installed distributions only then."""

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


def _add_view(commands: Any, solve: argparse.ArgumentParser) -> None:
    """Add the command `view`, and `solve --view`."""
    solve.add_argument("--view", action="store_true", help="show the motion in the browser, as 'trajopt view' does")
    view = commands.add_parser(
        "view",
        help="show a motion in the browser",
        description="Show a saved solution, or a problem solved by DDP, in the browser until Ctrl-C.",
    )
    view.add_argument("name", metavar="FILE_OR_NAME", help="an .npz that 'trajopt solve' wrote, or a problem")
    view.add_argument("--problem", metavar="NAME", help="what the file is a solution of (default: what it says itself)")
    as_solve = {"solver": "ddp", "hessian": "parallel", "perturb": 0.0, "seed": 0, "max_iterations": 500}
    view.set_defaults(**as_solve, animate=False, report=False, view=True)
    for command in (solve, view):
        command.add_argument("--host", default=HOST, help="address of the page (default: this machine only)")
        command.add_argument("--port", type=int, default=PORT, help=f"default: {PORT}, or the next one that is free")


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected words with commas between them")
    return words


def _scale(text: str) -> float:
    value = float(text)
    if not (np.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"got {text}, expected a finite number >= 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"got {text}, expected an integer >= 1")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"got {text}, expected an integer >= 0")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    with siblings_first():
        return _run(list(sys.argv[1:] if argv is None else argv))


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["bench"]:  # its options are its own
        return int(import_module("problems.bench").main(arguments[1:]) or OK)
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as end:
        return int(end.code or OK)
    if options.command == "new":
        return _new(options)
    if options.command == "compile":
        return _compile(options)
    problems = ProblemPackages()
    if options.command == "list":
        return _list(problems)
    saved = options.command == "view" and options.name not in problems.names()
    try:
        return _view_saved(problems, options) if saved else _solve(problems, options)
    except _Refused as error:
        _say(error)
        return USAGE


def _say(what: object) -> None:
    """Write a line to stderr."""
    from dynamics.printed import printable  # beside `trajopt`, whatever the current folder holds

    sys.stderr.write(f"trajopt: {printable(str(what))}\n")


def _new(options: argparse.Namespace) -> int:
    try:
        path = _attempt(write_new, options.name, options.robot, options.dynamics, Path())
    except _Refused as error:
        _say(error)
        return USAGE
    sys.stdout.write(f"wrote {path}\n")
    return OK


def _compile(options: argparse.Namespace) -> int:
    from trajopt.command_line.compile_kernels import compile_kernels

    try:
        failed = _attempt(compile_kernels, options.words)
    except _Refused as error:
        _say(error)
        return USAGE
    except KeyboardInterrupt:
        _say("interrupted; what was compiled is kept, and the command goes on from there")
        return INTERRUPTED
    for line in failed:
        _say(f"not compiled: {line}")
    return NOT_CONVERGED if failed else OK


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
    if options.name not in problems.names():
        raise _unknown("no problem", options.name, problems)
    if options.command == "view" and options.problem is not None:
        raise _Refused(f"--problem: {options.name} is a problem itself, not the file of a solution")
    if options.view:
        _check_page(options)
    elif options.command == "solve" and (options.host, options.port) != (HOST, PORT):
        raise _Refused("--host and --port: got one without --view")
    from trajopt.results.comparison import compare

    problem = problems.make(options.name)
    if (options.animate or options.view) and capability(problem.system, Pictures).skeleton is None:
        done = "animated" if options.animate else "viewed"
        raise _Refused(f"{options.name} cannot be {done}, its system has no skeleton")
    us = problem.us_init + options.perturb * np.random.default_rng(options.seed).standard_normal(problem.us_init.shape)
    results = compare(problem, _solvers(options), us)
    console.print(results)
    if options.command != "view":
        folder = options.out or Path("results") / options.name
        written = _write(results, folder, options.animate)
        if options.report:
            written.append(results.report(folder / "report.html", _solvers(options)))
        for path in written:
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    if options.view:
        _show(results[options.solver], options)
    return OK if results.converged else NOT_CONVERGED


def _unknown(what: str, name: str, problems: Any) -> _Refused:
    from dynamics.validation import did_you_mean  # beside `trajopt`, whatever the current folder holds

    names = list(problems.names())
    return _Refused(f"{what} {name!r}{did_you_mean(name, names)}\nproblems: {', '.join(names)}")


def _view_saved(problems: Any, options: argparse.Namespace) -> int:
    """Show the solution in a file; its problem is made again."""
    path = Path(options.name)
    if path.suffix != ".npz" and not path.is_file():
        raise _unknown("neither a file nor a problem", options.name, problems)
    _check_page(options)
    from trajopt.results.results_files import problem_name_in
    from trajopt.results.solution import Solution

    name = options.problem or _attempt(problem_name_in, path)
    if name is None:
        raise _Refused(f"{path} does not say of what problem it is; give --problem")
    if name not in problems.names():
        raise _unknown("--problem: got" if options.problem else f"{path} is of a problem of your own,", name, problems)
    return _show(_attempt(Solution.load, path, problems.make(name)), options)


def _check_page(options: argparse.Namespace) -> None:
    from trajopt.plotting.viewer import check_page

    _attempt(check_page, options.port, options.host)


def _show(solution: Any, options: argparse.Namespace) -> int:
    """Serve the page until the keyboard interrupts."""
    from trajopt.plotting import view

    sys.stdout.write("Ctrl-C closes the page.\n")
    sys.stdout.flush()
    try:
        _attempt(view, solution, options.port, host=options.host)
    except KeyboardInterrupt:  # before the page was served
        pass
    return OK


def _attempt(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The function's result; its errors in arguments end the command with their message."""
    try:
        return function(*args, **options)
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise _Refused(str(error)) from error


def _solvers(options: argparse.Namespace) -> dict[str, Any]:
    from trajopt.solvers.solver import DDP, ILQR

    ilqr = ILQR(max_iterations=options.max_iterations)
    ddp = DDP(max_iterations=options.max_iterations, hessian=options.hessian)
    if options.command == "compare":
        return {"ilqr": ilqr, "ddp": ddp}
    return {options.solver: ddp if options.solver == "ddp" else ilqr}


def _write(results: Any, folder: Path, animated: bool) -> list[Path]:
    """Write convergence.png, motion.png and one npz per solver; animation.gif of a finite solution if it is asked
    for."""
    from trajopt.plotting import animate, plot_convergence, plot_trajectory
    from trajopt.results.results_files import save_solution

    plot_convergence(results, folder / "convergence.png")
    plot_trajectory(results, folder / "motion.png")
    finite = [solution for solution in results.values() if np.isfinite(solution.xs).all()]
    return [
        folder / "convergence.png",
        folder / "motion.png",
        *(save_solution(solution, folder / f"{name}.npz") for name, solution in results.items()),
        *(animate(solution, folder / "animation.gif") for solution in finite[:animated]),
    ]
