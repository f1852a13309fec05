"""The wheel with kernels compiled for two levels of x86-64: builds it, and runs examples from it that compile nothing.

    python -m experiments.wheel [--levels LEVEL ...] [--only NAME ...] [--out DIR]

Examples and problems run once at each level that this processor reaches.  What that compiles goes into the wheel, for
this version of Python, of numba and of numpy (`dynamics.simd.shipped`); then the wheel is installed into a new
environment, where the quick start and the quadruped must not compile anything.  Examples whose extra is not installed
are left out, which is said; with --only, all others are too.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

from dynamics.simd import shipped
from experiments.harness import Experiment, Run, option, records
from problems import names

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "trajopt", "dynamics", "problems"
FILES = "pyproject.toml", "README.md", "LICENSE"
CHECKED = "quick_start", "quadruped"
"""Examples that run from the wheel."""
COUNT = "import runpy, sys; from dynamics.simd import PROGRESS; runpy.run_path(sys.argv[1]); print(PROGRESS.compiled)"


def _call(*command: object, folder: Path, **variables: str) -> str:
    """What a command prints; this process's own ways to find modules and kernels are kept from it."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH") and "NUMBA_CPU" not in k}
    words, env = list(map(str, command)), {**kept, "MPLBACKEND": "agg", **variables}
    return subprocess.run(words, cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


# ------------------------------------------------------------------------------------------------ what runs
def scripts() -> dict[str, Path]:
    """The examples by name."""
    return {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}


def extra_of(script: Path) -> str | None:
    """The extra that an example needs, as its docstring says: needs the extra `NAME`."""
    docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    found = re.search(r"needs the extra `(\w+)`", docstring)
    return found[1] if found else None


def lacking(script: Path) -> str:
    """Why an example cannot run here: packages of its extra that are not installed; empty if it can."""
    if (extra := extra_of(script)) is None:
        return ""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    missing = []
    for requirement in project["optional-dependencies"][extra]:
        name = re.split(r"[^\w.-]", requirement)[0]
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    return f"{script.stem} needs the extra {extra}, without which {', '.join(missing)} is missing" if missing else ""


def programs() -> dict[str, tuple[object, ...]]:
    """Commands of Python that need the kernels that the wheel is to hold, by name of the example or problem."""
    solves = {name: ("-m", "trajopt", "compare", name, "--out", name) for name in names()}
    return {name: (path,) for name, path in scripts().items()} | solves


def compile_kernels(
    commands: Collection[tuple[object, ...]], level: str, cache: Path, folder: Path, done: Callable[[], object]
) -> None:
    """Run commands with the kernels of this level kept in `cache`: of this checkout, whatever else is installed."""
    variables = {"PYTHONPATH": str(ROOT), "TRAJOPT_CACHE_DIR": str(cache), **shipped.environment_of(level)}
    for command in commands:
        _call(sys.executable, *command, folder=folder, **variables)
        done()


# ------------------------------------------------------------------------------------------------ the wheel
def build(source: Path, caches: dict[str, Path], out: Path) -> Path:
    """The wheel of the packages in the folder `source`, with the kernels of these caches, by level, written to `out`.

    Those of other files than the packages', as of examples and of users, are left out."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        for name in PACKAGES:
            shutil.copytree(source / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "shipped"))
        for name in FILES:
            shutil.copy(source / name, copy)
        target = copy / shipped.FOLDER.relative_to(ROOT)
        for level, cache in caches.items():
            for place in (cache / "kernels").glob("*/project.*"):
                if place.name.split(".")[1] not in ("examples", "experiments", "tests"):
                    shutil.copytree(place, target / level / place.parent.name / place.name)
        about = {"levels": list(caches), "versions": shipped.versions()}
        (target / "about.json").write_text(json.dumps(about), encoding="utf-8")
        platform, python = sysconfig.get_platform().replace("-", "_"), f"cp{sys.version_info[0]}{sys.version_info[1]}"
        built = copy / "wheel"
        _call(
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
            "--config-settings", f"--build-option=--plat-name={platform} --python-tag={python}",
            "--wheel-dir", built, copy, folder=copy,
        )  # fmt: skip
        (wheel,) = built.iterdir()
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, out))


def check(wheel: Path, folder: Path, levels: Collection[str], examples: Collection[str]) -> Iterator[dict[str, object]]:
    """Examples in a new environment with the wheel: what they compile, and how long they take."""
    _call(sys.executable, "-m", "venv", folder / "environment", folder=folder)
    python = folder / "environment" / "bin" / "python"
    _call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel.resolve(), folder=folder)
    _call(python, "-c", "import trajopt, dynamics.simd, matplotlib.pyplot", folder=folder)  # byte code
    for level in levels:
        for name in examples:
            variables = {"TRAJOPT_CACHE_DIR": str(folder / f"cache-{level}"), **shipped.environment_of(level)}
            start = perf_counter()
            printed = _call(python, "-c", COUNT, scripts()[name], folder=folder, **variables)
            seconds = perf_counter() - start
            yield {"example": name, "level": level, "compiled": int(printed.split()[-1]), "seconds": seconds}


def study(run: Run) -> dict[str, Any]:
    """Build the wheel and check it; the levels are compiled side by side."""
    levels, every = run.options.levels or shipped.host_levels(), programs()
    if not levels or not set(levels) <= set(shipped.host_levels()):
        raise SystemExit(f"this processor is none of {', '.join(levels or shipped.LEVELS)}")
    chosen = [name for name in every if name in (run.options.only or every)]
    left_out = {name: why for name, script in scripts().items() if name in chosen and (why := lacking(script))}
    run.show(*(f"left out: {why}" for why in left_out.values()))
    commands = [every[name] for name in chosen if name not in left_out]
    examples = [name for name in scripts() if name in chosen and name not in left_out]
    if not examples:
        raise SystemExit("--only: got no example that can run here, expected one to try the wheel with")
    advance = run.counter("compiling", len(levels) * len(commands))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        caches = {level: folder / "caches" / level for level in levels}
        for level in levels:
            (folder / level).mkdir()
        with ThreadPoolExecutor() as pool:
            jobs = [
                pool.submit(compile_kernels, commands, level, caches[level], folder / level, advance)
                for level in levels
            ]
            for job in jobs:
                job.result()
        wheel = build(ROOT, caches, run.folder)
        run.files.append(wheel)
        rows = list(check(wheel, folder, levels, [name for name in CHECKED if name in examples] or examples[:1]))
    about = {"wheel": wheel.name, "megabytes": wheel.stat().st_size / 1e6, "levels": levels}
    return {**about, "left_out": left_out, "checked": rows}


def failed(results: dict[str, Any]) -> bool:
    """Whether an example compiled something."""
    return any(row["compiled"] for row in results["checked"])


main = Experiment(
    "wheel",
    __doc__,
    study,
    options=[
        option("--levels", nargs="+", choices=shipped.LEVELS, metavar="LEVEL", help=f"of {', '.join(shipped.LEVELS)}"),
        option("--only", nargs="+", choices=programs(), metavar="NAME", help="these examples and problems alone"),
    ],
    tables=lambda results: [records(f"{results['wheel']}: {results['megabytes']:.1f} MB", results["checked"])],
    failed=failed,
)

if __name__ == "__main__":
    sys.exit(main())
