"""Which public object a literal names."""

import re

PACKAGES = ("trajopt", "dynamics", "dynamics.rods", "problems")
NAME = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)(\(.*\))?", re.S)
FILES = (".py", ".md", ".json", ".npz", ".png", ".gif", ".csv", ".urdf")
INSTANCES = {
    "solution": "trajopt.Solution",
    "problem": "trajopt.Problem",
    "prepared": "trajopt.PreparedSolver",
    "solver": "trajopt.DDP",
    "model": "dynamics.RigidBodyModel",
    "robot": "dynamics.RigidBodyModel",
    "builder": "dynamics.ModelBuilder",
    "rods": "dynamics.rods",
}
"""What pages call an object, and its class."""


def full_name(text, known, context=""):
    """The documented object, of those known, that a literal names in the docstring of `context`, or None.

    A word without capital, dot, underscore or parentheses may be any argument: it names functions only in full.
    """
    match = NAME.fullmatch(text)
    if not match or text.endswith(FILES):
        return None
    name, call = match.groups()
    head, _, rest = name.partition(".")
    wordlike = not call and not rest and "_" not in name and name.islower()
    homes = [context, *(package for package in PACKAGES if context.startswith(package + ".")), *PACKAGES]
    candidates = [name, *(f"{home}.{name}" for home in homes if home and not (wordlike and home in PACKAGES))]
    if rest and head in INSTANCES:
        candidates += [f"{INSTANCES[head]}.{rest}", INSTANCES[head]]
    if rest and head[0].isupper():
        candidates += [f"{home}.{head}" for home in PACKAGES]  # a field of a class
    return next((candidate for candidate in candidates if candidate in known), None)
