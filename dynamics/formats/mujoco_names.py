"""Names of the parts of MuJoCo's models, unnamed ones included: one rule for robots and their states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def body_names(m: Any) -> list[str]:
    """Names of the bodies of a compiled model, "body3" for an unnamed one."""
    own = ["world"] + [m.body(i).name for i in range(1, m.nbody)]
    return named(own, lambda i: [f"body{i}"])


def joint_names(m: Any) -> list[str]:
    """Names of the joints of a compiled model; an unnamed one is called "joint3", or after its body."""
    bodies = body_names(m)
    return named([m.joint(j).name for j in range(m.njnt)], lambda j: [f"joint{j}", f"{bodies[m.jnt_bodyid[j]]}_joint"])


def named(own: Sequence[str | None], proposals: Callable[[int], list[str]]) -> list[str]:
    """The given names, and for each missing one the first proposal that is not taken."""
    taken, names = {*own}, []
    for i, name in enumerate(own):
        if not name:
            proposed = proposals(i)
            name = next((each for each in proposed if each not in taken), proposed[-1])
            while name in taken:
                name += "_"
            taken.add(name)
        names.append(name)
    return names
