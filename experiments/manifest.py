"""The list of what compiles for which kind of problem (`dynamics.compilation.manifest`), written by running them all.

    python -m experiments.manifest [--only NAME ...] [--keep CACHE] [--write]

Each problem is solved by iLQR and by DDP, prepared and solved again, its plan executed and explained, some are
exported, each example is run, in a process of its own with one cache for all, which is empty at first.  What each one
compiles or loads is recorded, stage by stage: functions, the types of their arguments, seconds of processor time.

Those who need a function are told from those who do not, at the same stage, by as few features as do so of those that
they have all in common.  If at a later stage others need it, too, a further list of features says which.

With --write the file of the package is replaced, after runs at all levels that this processor has: the numbers of lanes
differ.  Without, the run fails if the file lacks a function.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dynamics.compilation import EXECUTED, EXPLAINED, PREPARED, SOLVERS, STAGES
from dynamics.compilation.manifest import FILE, declared_in
from dynamics.simd import shipped
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
from dynamics.compilation import EXECUTED, EXPLAINED, PREPARED, manifest
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


def subject(problem, *doing):
    last[0] = features[id(problem)] = manifest.features_of(*vars(problem).values())


dispatchers.UnwrappedDispatcher.compile = recording(dispatchers.UnwrappedDispatcher.compile)
dispatchers.KeepingDispatcher.compile = recording(dispatchers.KeepingDispatcher.compile)
PROGRESS.subject = subject
what, name = sys.argv[1:3]
own, of_system, stages = [], [], {}
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

    name, solver = name.split()
    problem, solver = problems.make(name), getattr(trajopt, solver)(max_iterations=30)
    own, of_system = sorted(features[id(problem)]), sorted(manifest.features_of(problem.system))
    plan = solver.solve(problem)
    stages[""] = len(seen)
    for stage, calls in {
        PREPARED: (
            lambda: solver.prepare(problem).warm_up(),
            lambda: type(solver)(max_iterations=1).prepare(problem).warm_up(),
        ),
        EXECUTED: (
            lambda: plan.policy()(0.5 * plan.problem.system.dt, plan.xs[0]),
            lambda: trajopt.simulate(plan),
        ),
        EXPLAINED: (lambda: plan.explain(),),
    }.items():
        for call in calls:
            with suppress(Exception):
                call()
        stages[stage] = len(seen)
print()
print(json.dumps([own, [[key, seconds.get(key), at] for key, at in seen.items()], stages, of_system]))
"""


class Record(NamedTuple):
    """What was compiled or loaded: features of a problem, with the solver's, or none of an example or an export; keys
    of functions in the order in which they came, seconds of compilation, None if it was there, and the features of the
    problem that was made last; how many of them at the end of each stage, of a problem; features of its system."""

    features: list[str]
    found: list[list[Any]]
    stages: dict[str, int]
    of_system: list[str]

    def place(self, key: str) -> int:
        """Where a function stands, behind all where it does not."""
        return next((i for i, (other, *_) in enumerate(self.found) if other == key), len(self.found))


def record(what: str, name: str, cache: Path, folder: Path, level: str | None = None) -> Record:
    """What a run compiles or loads.

    what : "problem", "exported", "example", or "all" problems, two iterations each, whatever the name
    name : of a problem and a solver, "arm DDP", of an exported problem, or a path
    level : of x86-64, by default the processor's own"""
    alone = {"TRAJOPT_COMPILE_PROCESSES": "0", "TRAJOPT_QUIET": "1", "MPLBACKEND": "agg"}
    env = {**os.environ, **alone, "TRAJOPT_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    env |= shipped.environment_of(level) if level else {}
    command = [sys.executable, "-c", _RECORD, what, name]
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{what} {name}: ended with {done.returncode}")
    own, *rest = json.loads(done.stdout.splitlines()[-1])
    return Record(own + name.split()[1:] if what == "problem" else own, *rest)


def requirement(
    used: Iterable[str], features: Mapping[str, frozenset[str]], common: frozenset[str], first: Collection[str] = ()
) -> list[str]:
    """As few of the common features of the problems `used` as tell them from the others; of two that do so as well the
    one that is among the `first`, as those of systems, which say more of what compiles than a cost does."""
    left, found = [features[name] for name in sorted(set(features) - set(used))], []
    order = sorted(common, key=lambda feature: (feature not in first, feature))
    while left:
        best = min(order, key=lambda feature: sum(feature in other for other in left), default=None)
        if best is None:
            break
        remaining = [other for other in left if best in other]
        if len(remaining) == len(left):
            break
        left, found = remaining, [*found, best]
    return sorted(found)


def joined(one: Record, other: Record) -> Record:
    """Runs of the same at two levels."""
    ends = {stage: (one.stages[stage], other.stages[stage]) for stage in one.stages} or {"": (None, None)}
    found: dict[str, list[Any]] = {}
    stages: dict[str, int] = {}
    a = b = 0
    for stage, (i, j) in ends.items():
        for row in (*one.found[a:i], *other.found[b:j]):
            known = found.setdefault(row[0], row)
            known[1] = max(known[1] or 0.0, row[1] or 0.0)
        a, b = i or 0, j or 0
        if one.stages:
            stages[stage] = len(found)
    return Record(one.features, list(found.values()), stages, one.of_system)


ORDER = "", PREPARED, EXECUTED, EXPLAINED
"""Of stages; each has what those before it have."""


def needs_of(key: str, runs: Mapping[str, Record]) -> list[frozenset[str]]:
    """The lists of features of those who need a function."""
    found: list[frozenset[str]] = []
    for i, stage in enumerate(ORDER):
        features = {run: frozenset(x.features).union(ORDER[1 : i + 1]) for run, x in runs.items()}
        users = {run for run, x in runs.items() if x.place(key) < x.stages[stage]}
        left = {run for run in features if not any(needs <= features[run] for needs in found)}
        if users & left:
            mine = frozenset.intersection(*(features[run] for run in users & left))
            others = {run: features[run] for run in left}
            of_systems = frozenset().union(*(runs[run].of_system for run in users & left))
            needs = frozenset(requirement(users & left, others, mine - STAGES, of_systems))
            found.append(needs | {stage} if stage else needs)
    return found


def listed(runs: Mapping[str, Record], known: Mapping[str, float]) -> dict[str, Any]:
    """The manifest, as JSON, of what was recorded, by words of which the first is the name of a problem or example;
    known: seconds of functions, if nobody has compiled them."""
    solves = {run: x for run, x in runs.items() if x.stages}
    seconds: dict[str, float] = {}
    at: dict[str, frozenset[str]] = {}
    every: dict[str, frozenset[str]] = {}
    for run, x in runs.items():
        name = run.split()[0] if x.stages else run
        own = STAGES.union(x.features) if x.stages else {OF_EXAMPLES}.union(*(then for *_, then in x.found))
        every[name] = every.get(name, frozenset()).union(own)
        for key, cost, features_then in x.found:
            seconds[key] = max(seconds.get(key, 0.0), cost or 0.0)
            at.setdefault(key, frozenset(features_then))
    needed: dict[str, list[frozenset[str]]] = {}
    for key in seconds:
        needed[key] = needs_of(key, solves)
        if not needed[key]:
            others = {run: frozenset(x.features) for run, x in solves.items()}
            needs = frozenset(requirement((), others, at[key]))
            same = any(needs <= frozenset(x.features) for x in solves.values())
            needed[key] = [frozenset({OF_EXAMPLES}) if same else needs]  # nothing else tells those who need it
    for run, x in runs.items():
        if not x.stages:  # an example's features are those of its functions, too
            every[run] = every[run].union(*(needs for key, *_ in x.found for needs in needed[key][:1]))
    words = sorted(frozenset().union(*every.values(), *(needs for lists in needed.values() for needs in lists)))
    kinds: dict[str, int] = {}
    functions = []
    for key, lists in needed.items():
        module, name, types = json.loads(key)
        places = [kinds.setdefault(json.dumps(kind), len(kinds)) for kind in types]
        needs = [sorted(words.index(x) for x in own) for own in lists]
        functions.append([module, name, places, round(seconds[key] or known.get(key, 0.0), 2), needs])
    places = declared_in()
    modules = sorted({module for module, *_ in functions} & set(places))
    return {
        "features": words,
        "types": [json.loads(kind) for kind in kinds],
        "functions": functions,
        "jobs": {name: sorted(words.index(x) for x in own) for name, own in every.items()},
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


def keys(content: Mapping[str, Any]) -> dict[str, float]:
    """The functions with their types, and seconds of their compilation."""
    return {
        json.dumps([module, name, [content["types"][i] for i in at]]): seconds
        for module, name, at, seconds, *_ in content["functions"]
    }


def study(run: Run) -> dict[str, Any]:
    jobs = {f"{name} {solver}": ("problem", f"{name} {solver}") for name in names() for solver in sorted(SOLVERS)}
    jobs |= {f"{name} exported": ("exported", name) for name in EXPORTED}
    jobs |= {path.stem: ("example", str(path)) for path in scripts().values() if not lacking(path)}
    chosen = [name for name in jobs if not run.options.only or {name, name.split()[0]} & set(run.options.only)]
    levels = shipped.host_levels() if run.options.write else []
    found: dict[str, Record] = {}
    with tempfile.TemporaryDirectory() as temporary:
        cache = Path(run.options.keep or Path(temporary) / "cache").resolve()
        for name, level in run.track([(name, level) for level in levels or [None] for name in chosen], "running"):
            folder = Path(temporary) / (level or "native") / name
            folder.mkdir(parents=True)
            new = record(*jobs[name], cache, folder, level)
            found[name] = joined(found[name], new) if name in found else new
    have = keys(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.is_file() else {}
    content = listed(found, have)
    lacking_here = sorted(set(keys(content)) - set(have))
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
