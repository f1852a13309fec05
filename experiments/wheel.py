"""The wheel with kernels compiled for two levels of x86-64: builds it, and runs what must not compile anything with it.

    python -m experiments.wheel [--levels LEVEL ...] [--only NAME ...] [--all] [--out DIR]

What `trajopt compile` compiles at each level that this processor reaches, of which no solve is part, goes into the
wheel as machine code, for this version of Python, of numba and of numpy (`dynamics.simd.shipped`); then the wheel is
installed into a new environment, where the quick start and the quadruped must not compile anything, with --all no
example and no problem of the gallery.  Examples whose extra is not installed are left out, which is said; with --only,
all others are too, and kernels that they do not need.
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
from collections.abc import Collection, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

from dynamics.simd import shipped
from dynamics.simd.kernel_cache import without_intermediate_code
from experiments.harness import Experiment, Run, option, records
from problems import names

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "trajopt", "dynamics", "problems"
FILES = "pyproject.toml", "README.md", "LICENSE"
CHECKED = "quick_start", "quadruped"
"""Examples that run from the wheel."""
_COMPILED = "from dynamics.simd import PROGRESS; print(PROGRESS.compiled)"
COUNT = f"import runpy, sys; runpy.run_path(sys.argv[1]); {_COMPILED}"
SOLVE = f"""
import sys, problems, trajopt
trajopt.compare(problems.make(sys.argv[1]), {{"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}})
{_COMPILED}
"""
"""Programs that print last how many functions they have compiled."""


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


def programs() -> dict[str, tuple[str, ...]]:
    """Commands of Python by name of the example or problem; exit codes of solves that do not converge are theirs."""
    solves = {name: ("-c", SOLVE, name) for name in names()}
    return {name: ("-c", COUNT, str(path)) for name, path in scripts().items()} | solves


def compile_kernels(only: Collection[str], level: str, cache: Path, folder: Path) -> None:
    """Compile kernels of this level, all or those that some problems and examples need, into `cache`: of this checkout,
    whatever else is installed."""
    variables = {"PYTHONPATH": str(ROOT), "TRAJOPT_CACHE_DIR": str(cache), **shipped.environment_of(level)}
    _call(sys.executable, "-m", "trajopt", "compile", *only and ("--for", ",".join(only)), folder=folder, **variables)


# ------------------------------------------------------------------------------------------------ the wheel
def _ship(place: Path, target: Path) -> None:
    """Copy the files of a folder of kernels that have machine code, and only that of them."""
    for path in place.rglob("*.nbc"):
        content = without_intermediate_code(path)
        if content is not None:
            copy = target / path.relative_to(place)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)


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
                    _ship(place, target / level / place.parent.name / place.name)
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


def check(wheel: Path, folder: Path, levels: Collection[str], chosen: Collection[str]) -> Iterator[dict[str, object]]:
    """Examples and problems in a new environment with the wheel: what they compile, and how long they take."""
    _call(sys.executable, "-m", "venv", folder / "environment", folder=folder)
    python = folder / "environment" / "bin" / "python"
    _call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel.resolve(), folder=folder)
    _call(python, "-c", "import trajopt, dynamics.simd, matplotlib.pyplot", folder=folder)  # byte code
    for level in levels:
        for name in chosen:
            variables = {"TRAJOPT_CACHE_DIR": str(folder / f"cache-{level}"), **shipped.environment_of(level)}
            start = perf_counter()
            printed = _call(python, *programs()[name], folder=folder, **variables)
            seconds = perf_counter() - start
            yield {"example": name, "level": level, "compiled": int(printed.split()[-1]), "seconds": seconds}


def study(run: Run) -> dict[str, Any]:
    """Build the wheel, one level after the other, each by several processes, and check it."""
    levels, only = run.options.levels or shipped.host_levels(), run.options.only or []
    if not levels or not set(levels) <= set(shipped.host_levels()):
        raise SystemExit(f"this processor is none of {', '.join(levels or shipped.LEVELS)}")
    chosen = [name for name in programs() if name in (only or programs())]
    left_out = {name: why for name, script in scripts().items() if name in chosen and (why := lacking(script))}
    run.show(*(f"left out: {why}" for why in left_out.values()))
    chosen = [name for name in chosen if name not in left_out]
    if not chosen:
        raise SystemExit("--only: got nothing that can run here, expected names of examples and problems")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        caches = {level: folder / "caches" / level for level in levels}
        start = perf_counter()
        for level in run.track(levels, "compiling"):
            compile_kernels(chosen if only else (), level, caches[level], folder)
        wheel = build(ROOT, caches, run.folder)
        built = perf_counter() - start
        run.files.append(wheel)
        tried = chosen if run.options.all or only else [name for name in CHECKED if name in chosen]
        rows = list(check(wheel, folder, levels, tried))
    about = {"wheel": wheel.name, "megabytes": wheel.stat().st_size / 1e6, "levels": levels, "seconds": built}
    return {**about, "left_out": left_out, "checked": rows}


def failed(results: dict[str, Any]) -> bool:
    """Whether something was compiled."""
    return any(row["compiled"] for row in results["checked"])


def tables(results: dict[str, Any]) -> list[Any]:
    made = f"{results['wheel']}: {results['megabytes']:.1f} MB, in {results['seconds']:.0f} s"
    return [records(made, results["checked"])]


main = Experiment(
    "wheel",
    __doc__,
    study,
    options=[
        option("--levels", nargs="+", choices=shipped.LEVELS, metavar="LEVEL", help=f"of {', '.join(shipped.LEVELS)}"),
        option("--only", nargs="+", choices=programs(), metavar="NAME", help="these examples and problems alone"),
        option("--all", action="store_true", help="try all examples and problems with it"),
    ],
    tables=tables,
    failed=failed,
)

if __name__ == "__main__":
    sys.exit(main())
