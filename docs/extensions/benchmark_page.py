"""The directive `benchmark`: tables of an experiment, drawn from the JSON that it wrote to `docs/benchmarks/`.

    ```{benchmark} convergence
    ```

The experiment itself makes the tables of its results, as in the terminal; command, date and machine stand above them.
With the option `:iterations:` all that is shown is a row of iterations for each problem, a column for each solver.
"""

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from rich.table import Table
from rich.text import Text
from sphinx.util.docutils import SphinxDirective

from experiments.harness import NONE

FOLDER = Path(__file__).parents[1] / "benchmarks"
ABOUT = ("command", "date", "machine")


def experiment(name):
    """The experiment that wrote a JSON."""
    package = find_spec(f"experiments.{name}").submodule_search_locations is not None
    return import_module(f"experiments.{name}" + ".__main__" * package).main


def plain(cell):
    """Text of a cell without rich's markup."""
    return Text.from_markup(cell).plain if isinstance(cell, str) else str(cell)


def columns_of(table):
    """Headings, texts and whether they are numbers, of the columns of a table of rich in which something stands."""
    found = [(plain(c.header), [plain(cell) for cell in c.cells], c.justify == "right") for c in table.columns]
    return [column for column in found if {*column[1]} - {"", NONE}]


def row_node(cells, right):
    cells = zip(cells, right, strict=True)
    entries = [nodes.entry("", nodes.paragraph(text=c), classes=["text-right"] * r) for c, r in cells]
    return nodes.row("", *entries)


def table_node(table):
    headings, texts, right = zip(*columns_of(table), strict=True)
    group = nodes.tgroup(cols=len(headings))
    group += [nodes.colspec(colwidth=1) for _ in headings]
    group += nodes.thead("", row_node(headings, right))
    group += nodes.tbody("", *(row_node(row, right) for row in zip(*texts, strict=True)))
    result = nodes.table("", classes=["figures", "colwidths-auto"])
    if table.title:
        result += nodes.title(text=plain(table.title))
    result += group
    return result


def iterations(results):
    """A table of problems and the iterations of every solver."""
    solvers = list(next(iter(results["problems"].values())))
    table = Table("problem")
    for solver in solvers:
        table.add_column(solver, justify="right")
    for name, runs in results["problems"].items():
        table.add_row(name, *(str(runs[solver]["iterations"]) for solver in solvers))
    return table


def when_and_where(date, machine):
    """Date, processor, threads and versions in words."""
    versions = ", ".join(f"{key} {machine[key]}" for key in ("python", "numpy", "numba"))
    return (
        f"on {date}; {machine['processor']}, {machine['cores']} cores, {machine['lanes']} lanes, "
        f"{machine['threads']} thread{'s' * (machine['threads'] != 1)}; {versions}"
    )


class Benchmark(SphinxDirective):
    required_arguments = 1
    option_spec: ClassVar = {"iterations": directives.flag}

    def run(self):
        name = self.arguments[0]
        path = FOLDER / f"{name}.json"
        self.env.note_dependency(str(path))
        found = json.loads(path.read_text(encoding="utf-8"))
        results = {key: value for key, value in found.items() if key not in ABOUT}
        about = nodes.paragraph("", "", nodes.literal(text=found["command"]))
        about += nodes.Text(f", {when_and_where(found['date'], found['machine'])}")
        result = [about]
        for each in [iterations(results)] if "iterations" in self.options else experiment(name).tables(results):
            if isinstance(each, Table):
                result.append(table_node(each))
                if each.caption:
                    result.append(nodes.paragraph(text=plain(each.caption)))
            else:
                result.append(nodes.paragraph(text=plain(each)))
        return result


def setup(app):
    app.add_directive("benchmark", Benchmark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
