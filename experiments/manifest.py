"""The list of what compiles for which kind of problem (`dynamics.compilation.manifest`), written by running them all.

    python -m experiments.manifest [--only NAME ...] [--keep CACHE] [--write]

Each problem is solved by iLQR and DDP, its plan executed, prepared and solved again, some are exported, each example is
run, in a process of its own with one cache for all, which is empty at first.  What each one compiles or loads is
recorded: functions, the types of their arguments, seconds of processor time.  A function's features are as few of those
that all problems have that need it as tell them from those that do not.

With --write the file of the package is replaced; without, the run fails if the file lacks a function.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dynamics.compilation.manifest import FILE, declared_in
from experiments.harness import Experiment, Run, option, records
from experiments.wheel import lacking, scripts
from problems import names

ROOT = Path(__file__).resolve().parents[1]
OF_EXAMPLES = "(example)"
"""In place of features, of functions that examples need without a problem, as in simulations, and exports alone."""
EXPORTED = "arm", "arm_obstacle", "pendulum_limits", "quadruped_stand", "unicycle_obstacles", "soft_manipulator_reach"

_RECORD = """
import json, runpy, sys, time, warnings
from contextlib import suppress

warnings.simplefilter("ignore")
from numba.core import event
from dynamics.compilation import manifest
from dynamics.simd import PROGRESS, dispatchers
from dynamics.simd.kernel_cache import KernelCache

seconds, stack, seen, features, last = {}, [], {}, {}, [frozenset()]
inner = dispatchers.InnerDispatcher


def key_of(function, args):
    try:
        return json.dumps([function.py_func.__module__, function.py_func.__qualname__,
                           [manifest.encode_type(t) for t in args]])
    except manifest.UnlistedTypeError:
        return None


class Clock(event.Listener):
    def on_start(self, ev):
        stack.append([time.thread_time(), 0.0])

    def on_end(self, ev):
        begin, inside = stack.pop()
        passed, function = time.thread_time() - begin, ev.data["dispatcher"]
        linked = isinstance(function, inner) or not isinstance(function, dispatchers.KeepingDispatcher)
        if not linked:
            seconds[key_of(function, ev.data["args"])] = passed - inside
        if stack:
            stack[-1][1] += inside if linked else passed


event.register("numba:compile", Clock())


def recording(compile):
    def call(self, sig):
        found = compile(self, sig)
        args = tuple(dispatchers.sigutils.normalize_signature(sig)[0])
        listed = self.py_func.__module__.partition(".")[0] in manifest.PACKAGES and isinstance(self._cache, KernelCache)
        if listed and not isinstance(self, inner) and self._cache.cache_path.name != "python":
            key = key_of(self, args)
            if key is not None:
                seen.setdefault(key, sorted(last[0]))
        return found

    return call


def subject(problem, ahead):
    last[0] = features[id(problem)] = manifest.features_of(*vars(problem).values())


dispatchers.UnwrappedDispatcher.compile = recording(dispatchers.UnwrappedDispatcher.compile)
dispatchers.KeepingDispatcher.compile = recording(dispatchers.KeepingDispatcher.compile)
PROGRESS.subject = subject
what, name = sys.argv[1:3]
own = []
if what == "example":
    sys.argv = [name]
    runpy.run_path(name, run_name="__main__")
elif what == "exported":
    import problems, trajopt

    problem = problems.make(name)
    for solver in (trajopt.ILQR(max_iterations=30), trajopt.DDP(max_iterations=30)):
        solver.prepare(problem).export(type(solver).__name__)
elif what == "all":
    import problems, trajopt

    for name in problems.names():
        for solver in (trajopt.ILQR(max_iterations=2), trajopt.DDP(max_iterations=2)):
            solver.solve(problems.make(name))
else:
    import problems, trajopt

    problem = problems.make(name)
    own = sorted(features[id(problem)])
    for solver in (trajopt.ILQR(max_iterations=30), trajopt.DDP(max_iterations=30)):
        plan = solver.solve(problem)
        for call in (
            lambda: plan.policy()(0.5 * plan.problem.system.dt, plan.xs[0]),
            lambda: solver.prepare(problem).warm_up(),
            lambda: type(solver)(max_iterations=1).prepare(problem).warm_up(),
            lambda: trajopt.simulate(plan),
            lambda: plan.explain(),
        ):
            with suppress(Exception):
                call()
print()
print(json.dumps([own, [[key, seconds.get(key), at] for key, at in seen.items()]]))
"""


def record(what: str, name: str, cache: Path, folder: Path) -> tuple[list[str], list[list[Any]]]:
    """Features of a problem, none of an example or an export, and what was compiled or loaded: a key, seconds of
    compilation, None if it was there, and the features of the problem that was made last.

    what : "problem", "exported", "example", or "all" problems, two iterations each, whatever the name"""
    alone = {"TRAJOPT_COMPILE_PROCESSES": "0", "TRAJOPT_QUIET": "1", "MPLBACKEND": "agg"}
    env = {**os.environ, **alone, "TRAJOPT_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _RECORD, what, name]
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{what} {name}: ended with {done.returncode}")
    own, found = json.loads(done.stdout.splitlines()[-1])
    return own, found


def requirement(used: Iterable[str], features: Mapping[str, frozenset[str]], common: frozenset[str]) -> list[str]:
    """As few of the common features of the problems `used` as tell them from the others."""
    left, found = [features[name] for name in sorted(set(features) - set(used))], []
    while left:
        best = min(sorted(common), key=lambda feature: sum(feature in other for other in left), default=None)
        if best is None:
            break
        remaining = [other for other in left if best in other]
        if len(remaining) == len(left):
            break
        left, found = remaining, [*found, best]
    return sorted(found)


def common_features(names: Iterable[str], features: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Those that all of these problems have."""
    return frozenset.intersection(*(features[name] for name in names))


def listed(jobs: Mapping[str, tuple[list[str], list[list[Any]]]]) -> dict[str, Any]:
    """The manifest, as JSON, of what was recorded."""
    features = {name: frozenset(own) for name, (own, _) in jobs.items() if own}
    seconds: dict[str, float] = {}
    used: dict[str, list[str]] = {}
    at: dict[str, frozenset[str]] = {}
    for name, (own, found) in jobs.items():
        for key, cost, features_then in found:
            seconds[key] = max(seconds.get(key, 0.0), cost or 0.0)
            used.setdefault(key, [])
            at.setdefault(key, frozenset(features_then))
            if own:
                used[key].append(name)
    every = {
        name: frozenset(own or [OF_EXAMPLES]).union(*(then for *_, then in found))
        for name, (own, found) in jobs.items()
    }
    words = sorted({OF_EXAMPLES}.union(*every.values()))
    kinds: dict[str, int] = {}
    functions, needed = [], {}
    for key in seconds:
        module, name, types = json.loads(key)
        needs = requirement(used[key], features, at[key] if not used[key] else common_features(used[key], features))
        if not used[key] and any(features[job].issuperset(needs) for job in features):
            needs = [OF_EXAMPLES]  # nothing tells the problems of examples that need it from others that do not
        places = [kinds.setdefault(json.dumps(kind), len(kinds)) for kind in types]
        needed[key] = frozenset(needs)
        functions.append([module, name, places, round(seconds[key], 2), [words.index(x) for x in needs]])
    for name, (_, found) in jobs.items():  # an example's features are those of its functions, too
        every[name] = every[name].union(*(needed[key] for key, *_ in found))
    named = {name: [words.index(x) for x in sorted(own)] for name, own in every.items()}
    places = declared_in()
    modules = sorted({module for module, *_ in functions} & set(places))
    return {
        "features": words,
        "types": [json.loads(kind) for kind in kinds],
        "functions": functions,
        "jobs": named,
        "written": {module: places[module] for module in modules},
    }


def written(content: Mapping[str, Any]) -> str:
    """The text of the file: a line for each function, type and job."""
    parts = []
    for name, value in content.items():
        if isinstance(value, dict):
            rows = [f"{json.dumps(key)}: {json.dumps(row)}" for key, row in value.items()]
            parts.append(f'"{name}": {{\n' + ",\n".join(rows) + "\n}")
        else:
            parts.append(f'"{name}": [\n' + ",\n".join(map(json.dumps, value)) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def keys(content: Mapping[str, Any]) -> set[str]:
    """The functions with their types."""
    return {
        json.dumps([module, name, [content["types"][i] for i in at]]) for module, name, at, *_ in content["functions"]
    }


def study(run: Run) -> dict[str, Any]:
    jobs = {name: ("problem", name) for name in names()}
    jobs |= {f"{name} exported": ("exported", name) for name in EXPORTED}
    jobs |= {path.stem: ("example", str(path)) for path in scripts().values() if not lacking(path)}
    chosen = [name for name in jobs if name in (run.options.only or jobs)]
    with tempfile.TemporaryDirectory() as temporary:
        cache = Path(run.options.keep or Path(temporary) / "cache").resolve()
        found = {name: record(*jobs[name], cache, Path(temporary)) for name in run.track(chosen, "running")}
    content = listed(found)
    have = keys(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.is_file() else set()
    lacking_here = sorted(keys(content) - have)
    if run.options.write:
        FILE.write_text(written(content), encoding="utf-8")
    run.file("manifest_new.json").write_text(written(content), encoding="utf-8")
    total = sum(row[3] for row in content["functions"])
    return {"functions": len(content["functions"]), "seconds": total, "new": lacking_here, "written": run.options.write}


main = Experiment(
    "manifest",
    __doc__,
    study,
    options=(
        option("--only", nargs="+", metavar="NAME", help="these problems and examples alone"),
        option("--keep", metavar="CACHE", help="folder of kernels to fill (default: one for this run)"),
        option("--write", action="store_true", help="replace the file of the package"),
    ),
    tables=lambda results: [
        records(
            "Functions that problems and examples need",
            [{"functions": results["functions"], "seconds": results["seconds"], "new": len(results["new"])}],
        )
    ],
    failed=lambda results: bool(results["new"]) and not results["written"],
)

if __name__ == "__main__":
    sys.exit(main())
