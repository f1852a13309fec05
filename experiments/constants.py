"""The tuned constants of the solver, and what solves are like with half and with twice of each.

    python -m experiments.constants [--starts N] [--seed N] [--only CONSTANT ...] [--out DIR]

Solves the 26 feasible problems of `experiments.constraints` by DDP from N starts each, in ten minutes for three.  A
solve counts if it converges and is feasible.  Constants that compiled kernels contain cannot be changed like that, and
have no figures.  Writes DIR/constants.json.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from rich.table import Table

import trajopt
from experiments.constraints.ablation import solves
from experiments.constraints.catalogue import NAMES
from experiments.harness import Experiment, Run, count, option, seed, table

ROOT = Path(trajopt.__file__).parent
FILES = [*sorted((ROOT / "solvers").glob("*.py")), *sorted((ROOT / "backward").glob("*.py")), ROOT / "rows.py"]
PLACES = {"MU", "GAPS"}
"""Names that count places of arguments, which nobody tunes."""
COMPILED = {"helper", "routine", "lean_routine", "driver", "shared_kernel", "by_address"}
"""Decorators of functions that are compiled."""
FACTORS = {"half": 0.5, "twice": 2.0}
STARTS, LIMIT = 3, 60.0


class Constant(NamedTuple):
    """A constant: its module, name, value as it is written, and the text below it; an empty one if it has none."""

    module: str
    name: str
    value: str
    text: str


def is_number(node: ast.expr) -> bool:
    """True for a number, a tuple of some, or what is computed from one."""
    numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    calls = any(isinstance(part, ast.Call) and ast.unparse(part.func) != "float" for part in ast.walk(node))
    bounds = isinstance(node, ast.Call) and ast.unparse(node.func) == "Bound"
    numeric = any(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers)
    return numeric and (bounds or not calls)


def constants() -> list[Constant]:
    """All constants of the solvers, the backward pass and the rows of constraints."""
    found = []
    for file in FILES:
        module = ".".join(file.relative_to(ROOT.parent).with_suffix("").parts)
        body = ast.parse(file.read_text(encoding="utf-8")).body
        for node, below in zip(body, [*body[1:], None], strict=True):
            if not isinstance(node, ast.Assign) or not isinstance(target := node.targets[0], ast.Name | ast.Tuple):
                continue
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            same = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(names) > 1
            values = node.value.elts if same and isinstance(node.value, ast.Tuple) else [node.value] * len(names)
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            for name, value in zip(map(ast.unparse, names), values, strict=True):
                if name.isupper() and name not in PLACES and is_number(value):
                    found.append(Constant(module, name, ast.unparse(value), " ".join(str(text).split())))
    return found


def compiled_names() -> set[str]:
    """Names that compiled functions read, but for those of the compiled iteration, which makes none here."""
    found: set[str] = set()
    for file in FILES:
        if file.stem in ("compiled", "program"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and COMPILED & {ast.unparse(d) for d in node.decorator_list}:
                found |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return found


def times(value: Any, factor: float) -> Any:
    """A number, or all of a tuple, times a factor; integers stay integers above zero, and fractions below one, so
    that twice of 0.5 is 0.75.  Of the limits of a penalty (`trajopt.solvers.constrained.Bound`) the fractions and the
    largest penalty stay."""
    if hasattr(value, "_asdict"):
        changing = {key: times(each, factor) for key, each in value._asdict().items() if key in ("leap", "raises")}
        return value._replace(**changing)
    if isinstance(value, tuple):
        return tuple(times(each, factor) for each in value)
    if isinstance(value, int):
        return max(1, round(factor * value))
    return 0.5 * (1.0 + value) if 0.0 < value < 1.0 <= factor * value else factor * value


@contextmanager
def changed(constant: Constant, factor: float) -> Iterator[None]:
    """Context in which a constant is this much larger, in its own module and where others import it, and iterations are
    made in Python, which reads it there."""
    with ExitStack() as stack:
        stack.enter_context(patch("trajopt.solvers.program.program_of", lambda *_: None))
        value = getattr(import_module(constant.module), constant.name)
        for name, module in list(sys.modules.items()):
            if name.startswith("trajopt") and getattr(module, constant.name, None) is value:
                stack.enter_context(patch.object(module, constant.name, times(value, factor)))
        yield


def study(run: Run) -> dict[str, Any]:
    """All constants, with figures for those that can be changed."""
    options, fixed = run.options, compiled_names()
    chosen = [each for each in constants() if each.name in options.only]
    varied = [each for each in chosen if each.name not in fixed and not each.value.startswith("{")]  # nor sets of sizes
    advance = run.counter("solves", len(NAMES) * options.starts * (1 + len(FACTORS) * len(varied)))
    sizes = NAMES, options.starts, options.seed, LIMIT, advance
    rows = [{"module": "", "name": "as it is", "value": "", "text": "", "figures": {"half": _figures(solves(*sizes))}}]
    for constant in chosen:
        figures = {}
        for what, factor in FACTORS.items() if constant in varied else ():
            with changed(constant, factor):
                figures[what] = _figures(solves(*sizes))
        rows.append({**constant._asdict(), "figures": figures})
    return {"starts": options.starts, "seed": options.seed, "constants": rows}


def _figures(record: dict[str, Any]) -> dict[str, int]:
    return {key: record[key] for key in ("converged", "steps")}


def tables(results: dict[str, Any]) -> list[Table | str]:
    """A row for each constant: solves that converge, and steps of all relative to the solver as it is."""
    whole = results["constants"][0]["figures"]["half"]
    rows = []
    for each in results["constants"][1:]:
        cells = [
            f"{found['converged']}, {found['steps'] / whole['steps']:.2f}" if found else None
            for found in (each["figures"].get(what) for what in FACTORS)
        ]
        rows.append([each["name"], each["value"], *cells, each["text"]])
    title = f"{len(rows)} constants: solves that converge and steps, with half and twice; as it is {whole['converged']}"
    return [table(title, ("constant", "value"), tuple(FACTORS), (rows,), ("meaning",))]


KNOWN = [each.name for each in constants()]
main = Experiment(
    "constants",
    __doc__,
    study,
    options=[
        count("--starts", STARTS, "of each problem"),
        option("--only", nargs="+", choices=KNOWN, default=KNOWN, metavar="CONSTANT", help="which (default: all)"),
        seed("starts"),
    ],
    tables=tables,
    width=210,
)

if __name__ == "__main__":
    sys.exit(main())
