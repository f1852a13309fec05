"""An experiment: a study with options and progress, and the JSON, tables and pictures of what it finds."""

import argparse
import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console, RenderableType
from rich.progress import Progress

from experiments.harness.options import Option
from experiments.harness.timing import threads
from trajopt.plotting.report.page import machine
from trajopt.plotting.style import save

COMPLETED: set[str] = set()
"""Names of the experiments that have run to their end in this process."""
Results = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One run of an experiment, as its study sees it: options, progress, and files besides those that are declared."""

    options: argparse.Namespace
    console: Console
    progress: Progress
    folder: Path
    files: list[Path] = field(default_factory=list)

    def track(self, items: Collection[T], what: str) -> Iterator[T]:
        """The items one by one, with a bar of progress; names among them are shown beside it."""
        task = self.progress.add_task(what, total=len(items))
        for item in items:
            name = f"{what}: {item}" if isinstance(item, str) else what
            self.progress.update(task, description=name, refresh=True)
            yield item
            self.progress.update(task, advance=1, refresh=True)

    def counter(self, what: str, total: int) -> Callable[..., None]:
        """A call that advances a bar of progress by one, or by the number it is given."""
        task = self.progress.add_task(what, total=total)
        return lambda steps=1: self.progress.update(task, advance=steps, refresh=True)

    def show(self, *what: RenderableType) -> None:
        """Print tables or lines, an empty line between them."""
        for i, each in enumerate(what):
            if i > 0:
                self.console.print()
            self.console.print(each)

    def file(self, name: str) -> Path:
        """Where to write a file; the report tells of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.files.append(self.folder / name)
        return self.files[-1]

    def picture(self, name: str, figure: Figure) -> None:
        """Write a figure."""
        save(figure, self.file(name))


@dataclass(frozen=True)
class Experiment:
    """The command ``python -m experiments.NAME``; called with its arguments, it returns the exit code.

    Attributes
    ----------
    name : of the module in `experiments`; its last part is the name of the JSON file
    description : docstring of the module, of which --help shows the first line
    study : what is measured, as a dict that JSON can hold
    options : besides --out
    tables : of the results, printed in this order
    pictures : file name -> figure of the results
    out : default of --out, results/NAME where it is not given
    width : of the tables, in characters: they are wide, and a narrow terminal or a file gets them whole
    threads : of the study; None leaves them as they are
    failed : whether the results are those of a failure, for the exit code 1
    """

    name: str
    description: str | None
    study: Callable[[Run], Results]
    options: Sequence[Option] = ()
    tables: Callable[[Results], Iterable[RenderableType]] = lambda results: ()
    pictures: Mapping[str, Callable[[Results], Figure]] = field(default_factory=dict)
    out: str | None = None
    width: int = 160
    threads: int | None = None
    failed: Callable[[Results], bool] = lambda results: False

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        options = self.parser().parse_args(argv)
        is_file = options.out.suffix == ".json"
        folder = options.out.parent if is_file else options.out
        console = Console(width=self.width)
        # without a thread of its own, which would disturb what is timed, progress is shown when there is any
        bars = Progress(console=Console(stderr=True), transient=True, auto_refresh=False)
        with threads(self.threads), bars as progress:
            run = Run(options, console, progress, folder)
            results = self.study(run)
            about = {"command": self._command(argv), "date": date.today().isoformat(), "machine": machine()}
            text = json.dumps({**about, **results}, indent=1, default=_plain)
        run.show(*self.tables(results))
        file = options.out.name if is_file else f"{self.name.rpartition('.')[2]}.json"
        run.file(file).write_text(text + "\n", encoding="utf-8")
        for name, draw in self.pictures.items():
            run.picture(name, draw(results))
        for path in run.files:
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)
        COMPLETED.add(self.name)
        return int(self.failed(results))

    def _command(self, argv: Sequence[str] | None) -> str:
        """How it was called; where it wrote to is left out."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--out")
        _, others = parser.parse_known_args(argv)
        return shlex.join(["python", "-m", f"experiments.{self.name}", *others])

    def parser(self) -> argparse.ArgumentParser:
        """The parser of its options."""
        description = (self.description or "").split("\n", 1)[0]
        result = argparse.ArgumentParser(prog=f"python -m experiments.{self.name}", description=description)
        for add in self.options:
            add(result)
        out = Path(self.out or f"results/{self.name.partition('.')[0]}")
        result.add_argument("--out", type=Path, default=out, help="folder, or its JSON file (default: %(default)s)")
        return result


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays as Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no part of json")
