"""The part of a builder that knows where on links something acts, makes nodes there, and takes laws of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynamics.rods.loads.external_loads import LoadList
from dynamics.rods.loads.laws import law_of
from dynamics.rods.model.closed_joint import Closure, Pose
from dynamics.rods.model.cross_section import Circular
from dynamics.rods.model.load_arrays import LAW
from dynamics.rods.model.rod_model import Rod
from dynamics.rods.model.segment_list import SegmentList
from dynamics.rods.robot.rod_segments import node_at, split
from dynamics.validation import as_array, as_flag, as_items, as_name, look_up


class LoadBuilder:
    """Places on the links of a `RodModelBuilder`, and loads after laws."""

    _segments: SegmentList
    _links: dict[str, int]
    _rods: dict[str, Rod]
    _loads: LoadList
    _closures: list[Closure]

    def add_load(
        self,
        link: str,
        law: Callable[..., Any],
        controls: Sequence[str] = (),
        at: float | None = None,
        per_length: bool = False,
    ) -> None:
        """Let a law of your own act on a link: a function of its pose, its velocity and controls.

        The function is called once with symbols in place of numbers, as those of `trajopt.CallableSystem` are; what it
        does with them is run, and differentiated exactly, by kernels that are there already.

        Parameters
        ----------
        link : a link added before
        law : (R, p, w, v, u) -> (6,) moment about p, N m, and force, N, axes of the world, for the axes R (3, 3) of the
            link's frame, of a rod those of its section, the frame's origin p (3,), its angular velocity w (3,) and its
            velocity v (3,), axes of the world, and its own controls u (k,), in which the wrench is affine, with factors
            that do not depend on velocities.  It should have two continuous derivatives
        controls : names of its controls, which become controls of the robot, after all others
        at : where on a rod, X / length above 0 and at most 1; by default the tip
        per_length : for a rod, whether the wrench is one per length, N and N/m, all along it

        Raises
        ------
        TypeError : no function.
        ValueError : an unknown link, a place out of range, a name given twice, a law that cannot be used.
        """
        segment, along, k = self._segment_of(link), as_flag("per_length", per_length), len(self._loads.laws)
        names = [as_name(f"controls[{i}]", name) for i, name in enumerate(as_items("controls", controls, "names"))]
        for i, name in enumerate(names):
            if name in self._loads.control_names or name in names[:i]:
                raise ValueError(f"controls[{i}]: {name!r} is taken")
        at = None if at is None else self._place_on(link, at)
        if along and (at is not None or link not in self._rods):
            raise ValueError(f"per_length: got True of {link!r} at {at}, expected a rod, and no place on it")
        made = law_of(law, len(names))
        if along:
            rod = self._rods[link]
            for node in np.flatnonzero(rod.weights):
                self._loads.add(rod.segments.start + int(node) - 1, LAW, [k, rod.weights[node]])
        else:
            self._loads.add(segment if at is None or at == 1.0 else self._node(link, at), LAW, [k, 1.0])
        self._loads.laws.append(made)
        self._loads.control_names += names

    def _place_on(
        self, link: str, at: float, label: str = "", base: float | None = None, argument: str = "at"
    ) -> float:
        """X / length of a rod, above 0, or `base`; ValueError for another place."""
        at = float(as_array(label + argument, at, ()))
        if not 0.0 < at <= 1.0 and at != base:
            least = "above 0" if base is None else "at least 0"
            raise ValueError(f"{label}{argument}: got {at}, expected X / length {least} and at most 1")
        if at != 1.0 and link not in self._rods:
            raise ValueError(f"{label}{argument}: got {at} of {link!r}, expected 1; only rods have other places")
        return at

    def _frame_on(self, link: str, at: float, placement: Pose) -> tuple[int, Pose]:
        """The segment at whose end a frame is fixed that is placed so in that of a link, and its placement there."""
        if link == "world":
            return -1, placement
        if at > 0.0:
            return (self._links[link] if at == 1.0 else self._node(link, at)), placement
        s = self._rods[link].segments.start
        R, p = self._segments.before[s][:9].reshape(3, 3), self._segments.before[s][9:]
        return self._segments.parent[s], (R @ placement[0], p + R @ placement[1])

    def _segment_of(self, link: str, argument: str = "link") -> int:
        return look_up(argument, link, self._links)

    def _node(self, rod: str, at: float) -> int:
        """The segment that ends at X = at length of a rod; where there is none, one is split there."""
        part = self._rods[rod]
        segment = node_at(part, at * part.length)
        if segment is not None:
            return segment
        self._rods[rod], first = split(self._segments, part, at * part.length)
        self._links = {name: s + (s >= first) for name, s in self._links.items()}
        for name, other in self._rods.items():
            own = other.segments
            if name != rod and own.start >= first:
                self._rods[name] = replace(other, segments=slice(own.start + 1, own.stop + 1))
        self._loads.make_room(first)
        moved = [tuple(s + (s >= first) for s in closure.segments) for closure in self._closures]
        self._closures = [replace(one, segments=pair) for one, pair in zip(self._closures, moved, strict=True)]
        return first

    def _circular(self, name: str) -> tuple[Rod, Circular]:
        rod = look_up("rod", name, self._rods)
        if not isinstance(rod.section, Circular):
            raise ValueError(f"rod: {name!r} has a {type(rod.section).__name__} section, expected Circular")
        return rod, rod.section
