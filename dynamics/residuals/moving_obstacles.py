"""Obstacles that move, of residuals that are distances: bodies behind those of the robot, which no joint carries.

Their places are the targets of the residual (`dynamics.residuals.moving_target`): at each knot kernels have them in the
lanes `target`, PLACE numbers for each obstacle.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dynamics.algorithms.kinematics import BODY, POSITION, ROTATION
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.world_shape import WorldShape, world_shape
from dynamics.residuals.kernel_residual import KernelResidual
from dynamics.residuals.moving_target import Targets, as_places, places_at
from dynamics.simd import kernel
from dynamics.simd.sizes import Size
from dynamics.spatial import load3, load9, store3, store9
from dynamics.validation import as_kind

moving_count = Size("moving_count", "pairs.moving.size")
PLACE = 12
"""Numbers of the place of an obstacle: R, row-major, and p."""


@kernel
def place_obstacles(pairs, target, body):
    """Poses of the obstacles that move into their slots of body."""
    for k in range(pairs.moving.size):
        b = pairs.moving[k] * BODY
        store9(body, b + ROTATION, load9(target, k * PLACE))
        store3(body, b + POSITION, load3(target, k * PLACE + 9))


class MovingObstacles(KernelResidual):
    """Base of distances from shapes of the world of which some may move.

    Its constructors end with `_set_places`, after `_finish`.

    Attributes
    ----------
    places : mapping of names of shapes that move to their places, (R, p) with one for all knots or one for each knot,
        or a function of time
    """

    places: Mapping[str, Any]
    _found: dict[str, Targets]
    _moving = "places"

    def _set_places(self, found: Mapping[str, Targets], at: np.ndarray | None = None) -> None:
        """What `found_places` returns, for the knots `at`; None for all knots."""
        rows = [of_one for _, of_one in found.values() if of_one is not None]
        counts = {len(of_one) for of_one in rows} - {1}
        if len(counts) > 1:
            each = ", ".join(f"{len(of_one)} of {name!r}" for name, (_, of_one) in found.items() if of_one is not None)
            raise ValueError(f"places: got {each}, expected as many of each, one per knot, or one")
        whole = None
        if len(rows) == len(found):
            K = max(counts, default=1)
            whole = np.hstack([np.empty((K, 0)), *(np.broadcast_to(of_one, (K, PLACE)) for of_one in rows)])
        self._set(places={name: place for name, (place, _) in found.items()}, _found=dict(found))
        self._set_target(None, whole, at)

    @property
    def adjustable(self) -> tuple[str, ...]:
        """The places of obstacles that move, where there are some."""
        return ("places",) if self.places else ()

    def adjusted(self, **values: Any) -> Self:
        """With other places of some of the obstacles that move; raises what the constructor does."""
        places = as_kind("places", values["places"], Mapping, "a mapping of names to places")
        if unknown := [name for name in places if name not in self.places]:
            known = ", ".join(map(repr, self.places))
            raise ValueError(f"places: got {unknown[0]!r}, which does not move, expected some of {known}")
        new = copy.copy(self)
        others = {name: as_places(f"places[{name!r}]", place) for name, place in places.items()}
        new._set_places({**self._found, **others}, self._knots)
        return new

    def at_times(self, times: np.ndarray) -> Self:
        """See `RobotResidual`."""
        new = self
        if any(map(callable, self.places.values())):
            new, found = copy.copy(self), dict(self._found)
            for name, place in self.places.items():
                if callable(place):
                    found[name] = places_at(f"places[{name!r}]", place, self._times_of_all(times))
            new._set_places(found, self._knots)
        return super(MovingObstacles, new).at_times(times)

    def _moving_scenery(self, shapes: Mapping[str, Geometry], around: np.ndarray) -> list[WorldShape]:
        """Of those that move, which are among the shapes by name, their last places and their paths."""
        found = []
        for name, (R, p) in self.places.items():
            path = np.atleast_2d(p)
            found.append(world_shape(shapes[name].shape, R.reshape(-1, 3, 3)[-1], path[-1], around))
            if len(path) > 1:
                found.append(WorldShape(np.stack([path[:-1], path[1:]], axis=1)))
        return found


def found_places(places: Mapping[str, Any] | None, shapes: Iterable[Any]) -> dict[str, Targets]:
    """The argument `places`, checked, by names of shapes of the world among those given."""
    given = {} if places is None else as_kind("places", places, Mapping, "a mapping of names to places")
    world = {each.name for each in shapes if isinstance(each, Geometry) and each.body < 0}
    for name in given:
        if name not in world:
            known = ", ".join(map(repr, sorted(world))) or "none"
            raise ValueError(f"places: got {name!r}, expected names of shapes of the world, here {known}")
    return {name: as_places(f"places[{name!r}]", place) for name, place in given.items()}


def in_own_axes(geometry: Any, places: Mapping[str, Any]) -> Any:
    """A shape of the world without its placement, if it has another place; anything else as it is."""
    moves = isinstance(geometry, Geometry) and geometry.body < 0 and geometry.name in places
    return replace(geometry, placement=None) if moves else geometry
