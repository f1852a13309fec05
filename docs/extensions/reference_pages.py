"""The pages of the reference: every public name on the page of its subject, generated from the docstrings.

A subject is told by the modules that its names come from: a new name of a known module finds its page by itself.
"""

import argparse
import inspect
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import problems as benchmark_problems
from docs.extensions.docstrings import escaped

PACKAGES = ("trajopt", "dynamics", "dynamics.rods")


class Subject(NamedTuple):
    """A page of the reference."""

    slug: str
    title: str
    homes: tuple[str, ...]
    """Modules, with all below them; the longest that fits decides."""
    about: str


SUBJECTS = (
    Subject("problem", "Problems", ("trajopt.problem",), "What is to be solved, and checks of it."),
    Subject(
        "costs", "Costs", ("trajopt.costs", "trajopt.interfaces.residual", "trajopt.problem.control_rate",
        "trajopt.problem.with_free_durations", "trajopt.problem.waypoints"),
        "Terms of the objective, residuals and activations.",
    ),
    Subject(
        "constraints", "Constraints", ("trajopt.problem.constraints", "trajopt.problem.limits", "trajopt.problem.jerk",
        "trajopt.problem.periodic"),
        "Limits of controls, states and any residual.",
    ),
    Subject("solvers", "Solvers", ("trajopt.solvers", "trajopt.backward"), "iLQR, DDP and their options."),
    Subject("results", "Results", ("trajopt.results",), "What a solve returns, and what can be done with it."),
    Subject(
        "sensitivities", "Sensitivities and certificates", ("trajopt.results.sensitivity", "trajopt.optimality"),
        "Derivatives of solutions, second-order certificates and covariances.",
    ),
    Subject(
        "systems", "Systems of your own", ("trajopt.interfaces.system", "trajopt.callable_system",
        "trajopt.problem.control_rate", "trajopt.problem.free_duration", "trajopt.problem.with_free_durations"),
        "Dynamics from a function, and systems around systems.",
    ),
    Subject("plotting", "Pictures", ("trajopt.plotting", "trajopt.problem.scenery"), "Plots, animations and views."),
    Subject("batch", "Many problems", ("trajopt.batch", "trajopt.families"), "A problem for each of many parameters."),
    Subject(
        "models", "Robots", ("dynamics.model", "dynamics.formats"),
        "Models from files and from the builder, joints, springs, actuators.",
    ),
    Subject(
        "shapes", "Shapes", ("dynamics.geometry", "dynamics.collisions"),
        "Shapes of bodies, and which of them can meet.",
    ),
    Subject(
        "algorithms", "Kinematics and dynamics", ("dynamics.algorithms", "dynamics.ik", "dynamics.simd"),
        "Functions of a model, for one point or a batch of them.",
    ),
    Subject("derivatives", "Derivatives", ("dynamics.derivatives",), "First and second derivatives, and regressors."),
    Subject(
        "contacts", "Contacts and loops", ("dynamics.contacts",), "Dynamics under contacts, impacts, closed chains.",
    ),
    Subject(
        "robot_systems", "Systems of robots", ("dynamics.systems", "dynamics.gait"),
        "Discrete-time systems that a problem takes.",
    ),
    Subject("residuals", "Residuals of robots", ("dynamics.residuals",), "For costs and constraints alike."),
    Subject(
        "rod_models", "Soft robots: models", ("dynamics.rods.model", "dynamics.rods.robot.builder",
        "dynamics.rods.loads", "dynamics.rods.robot.soft_robot"),
        "Rods, sections, strains, tendons, chambers and loads.",
    ),
    Subject(
        "rod_dynamics", "Soft robots: kinematics and dynamics", ("dynamics.rods.kinematics",
        "dynamics.rods.algorithms", "dynamics.rods.robot.reactions"),
        "Functions of a rod model.",
    ),
    Subject(
        "rod_motions", "Soft robots: shapes and motions", ("dynamics.rods.statics", "dynamics.rods.stepping"),
        "Equilibria, vibrations, simulations, and the system that a problem takes.",
    ),
    Subject("rod_residuals", "Soft robots: residuals", ("dynamics.rods.robot",), "For costs and constraints alike."),
)  # fmt: skip


def home(package, name):
    """The module that a public name comes from."""
    module = import_module(package)._MODULE[name]
    return module if module.startswith(package + ".") else f"{package}.{module}"


def subject_of(module):
    """The subject of a module's names; LookupError if it has none."""
    fits = [(len(h), s) for s in SUBJECTS for h in s.homes if module == h or module.startswith(h + ".")]
    if not fits:
        raise LookupError(f"{module} belongs to no subject of docs/extensions/reference_pages.py")
    return max(fits, key=lambda fit: fit[0])[1]


def names_of(subject):
    """(package, name) of all public names of a subject; classes before functions."""
    found = [(p, n) for p in PACKAGES for n in import_module(p).__all__ if subject_of(home(p, n)) == subject]
    return sorted(found, key=lambda f: (PACKAGES.index(f[0]), f[1][0].islower(), f[1].lower()))


def directive(package, name):
    """How autodoc is told to document a name; a second name of an object points at the first."""
    value, full = getattr(import_module(package), name), f"{package}.{name}"
    for other in PACKAGES[: PACKAGES.index(package)]:
        if getattr(import_module(other), "_MODULE", {}).get(name) and getattr(import_module(other), name) is value:
            return [f".. py:class:: {full}", "", f"   The same as ``{other}.{name}``.", ""]
    if not inspect.isclass(value):
        kind = "function" if callable(value) else "data"
        return [f".. auto{kind}:: {full}", ""]
    lines = [f".. autoclass:: {full}"]
    builtin = {b.__name__ for b in value.__mro__[1:] if b.__module__.partition(".")[0] not in ("trajopt", "dynamics")}
    if value.__mro__[1:] != (object,):
        lines += [f"   :inherited-members: {', '.join(sorted(builtin))}"]
    return [*lines, ""]


def first_sentence(package, name):
    """What the summary says of a name."""
    text = (inspect.getdoc(getattr(import_module(package), name)) or "").split("\n\n")[0]
    return " ".join(text.split())


def table(rows):
    lines = [".. list-table::", "   :widths: auto", "   :class: summary", ""]
    for first, second in rows:
        lines += [f"   * - ``{first}``", f"     - {escaped(second)}"]
    return [*lines, ""]


def heading(text, line="="):
    return [text, line * len(text), ""]


def page(subject):
    names = names_of(subject)
    lines = [*heading(subject.title), subject.about, ""]
    lines += table([(f"{p}.{n}", first_sentence(p, n)) for p, n in names])
    return lines + [line for p, n in names for line in directive(p, n)]


def problems_page():
    """The functions of `problems`, and the problems."""
    functions = ("names", "describe", "make", "model_names", "model_path", "experiments")
    lines = [*heading("Benchmark problems"), "Problems by name, as the command line has them.", ""]
    lines += ["Pictures, iterations and times of all of them are in the :doc:`gallery </gallery/index>`.", ""]
    lines += [line for name in functions for line in (f".. autofunction:: problems.{name}", "")]
    lines += heading("The problems", "-")
    return lines + table([(n, benchmark_problems.describe(n)) for n in benchmark_problems.names()])


def command_line_page():
    """What `--help` says of the command and of each of its commands."""
    from trajopt.command_line.cli import build_parser

    parser = build_parser()
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices
    lines = [*heading("Command line"), "``python -m trajopt`` is the same as ``trajopt``.", ""]
    for name, command in {"": parser, **commands}.items():
        text = command.format_help().rstrip().split("\n")
        title = f"trajopt {name}".strip()
        lines += [*heading(title, "-"), ".. code-block:: text", "", *("   " + line for line in text), ""]
    return lines


def write(folder, slug, lines, suffix=".rst"):
    """Leaves a file alone that says so already: Sphinx then does not read it again."""
    text, path = "\n".join(lines).rstrip() + "\n", folder / f"{slug}{suffix}"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write_pages(app):
    """Writes `reference/`, which git ignores."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    pages = {s.slug: page(s) for s in SUBJECTS}
    pages |= {"problems": problems_page(), "command_line": command_line_page()}
    for slug, lines in pages.items():
        write(folder, slug, lines)
    groups = {
        "trajopt": [s for s in SUBJECTS if s.homes[0].startswith("trajopt.")],
        "dynamics": [s for s in SUBJECTS if s.homes[0].startswith("dynamics.") and not s.slug.startswith("rod_")],
        "dynamics.rods": [s for s in SUBJECTS if s.slug.startswith("rod_")],
    }
    lines = [*heading("Reference"), "Every public name, by subject.", ""]
    for name, subjects in groups.items():
        lines += heading(f"``{name}``", "-")
        lines += [line for s in subjects for line in (f":doc:`{s.title} <{s.slug}>`", f"   {s.about}", "")]
    lines += [*heading("Besides", "-"), ":doc:`Benchmark problems <problems>`", "   Each by its name.", ""]
    lines += [":doc:`Command line <command_line>`", "   What each command takes.", ""]
    lines += [".. toctree::", "   :hidden:", "", *(f"   {slug}" for slug in pages)]
    write(folder, "index", lines)


def setup(app):
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
