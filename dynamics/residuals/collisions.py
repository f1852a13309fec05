"""All that a robot must not hit: its own shapes among each other, and obstacles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.configuration import neutral
from dynamics.collisions.collision_pairs import Disabled, collision_geometry, collision_pairs, simplified
from dynamics.geometry.geometry import Geometry, shape_in_place
from dynamics.geometry.shapes import Box, Shape
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.distance import Distance
from dynamics.validation import as_array, as_flag, as_items, as_kind, as_whole_number

Obstacle = Geometry | tuple[Shape, Any]


class Collisions(Distance):
    """Distances of a robot's shapes from each other and from obstacles, as a residual with `lower` and `upper`.

    Shapes are those of `collision_geometry`, meshes by capsules; pairs are those of `collision_pairs`.  Of two boxes
    the first counts as its capsule.

    Parameters
    ----------
    model : RigidBodyModel, whose shapes count, those on the world as obstacles
    obstacles : more of them: `Geometry`, or (shape, position (3,)), or (shape, (R, p)) in the world; or a mapping from
        names to such.  Some may move: (shape, place), the place as of `Distance`, with rows for knots or a function of
        time
    self_collision : whether two bodies of the robot may not meet either
    closest : the number of pairs that get rows, those that come closest along states; by default all pairs.  Pairs with
        obstacles that move always get rows, and are not counted
    along : (K, nx) states, such as those of a first plan; by default the neutral configuration at rest
    margin, smoothing : as for `Distance`
    disabled : path or text of an SRDF file, whose disabled pairs are left out, or pairs of names of links

    Attributes
    ----------
    all_pairs : tuple of pairs of Geometry, with rows or without
    pairs, component_names, lower, upper : as of `Distance`

    Raises
    ------
    ValueError, TypeError
        What `collision_pairs` and `Distance` raise; no pair at all; an obstacle that is none.

    Notes
    -----
    Which pairs have rows never changes while a problem is solved, so that rows stay smooth and multipliers remain
    those of their pairs.  After a solve, `missed(xs)` names pairs without rows that come too close; ``replaced(xs)``
    gives the residual with rows for those that come closest along the plan, for another solve.
    """

    kernels = Distance.kernels
    all_pairs: tuple[tuple[Geometry, Geometry], ...]
    closest: int | None

    def __init__(
        self,
        model: RigidBodyModel,
        obstacles: Mapping[str, Obstacle] | Iterable[Obstacle] = (),
        self_collision: bool = True,
        closest: int | None = None,
        along: ArrayLike | None = None,
        margin: float = 0.0,
        smoothing: float = 1e-4,
        disabled: Disabled = None,
    ) -> None:
        found = collision_geometry(model)
        among = collision_pairs(model, found, disabled).pairs
        if not as_flag("self_collision", self_collision):
            among = tuple(pair for pair in among if min(pair[0].body, pair[1].body) < 0)
        moving = [geometry for geometry in found if geometry.body >= 0]
        scene, places = _obstacles(obstacles, {geometry.name for geometry in found})
        others = [(a, b) for b in scene for a in moving if a.body != b.body]
        self._begin(model, tuple(map(_one_box, [*among, *others])), closest, along, margin, smoothing, places)

    def _begin(self, model, pairs, closest, along, margin, smoothing, places) -> None:
        if not pairs:
            raise ValueError(
                "model: got no shapes that can meet, nor one that obstacles could, expected bodies with shapes "
                "(ModelBuilder.add_geometry, <collision> of a file)"
            )
        still = tuple(pair for pair in pairs if not any(each.name in places for each in pair))
        count = len(still) if closest is None else as_whole_number("closest", closest, 1)
        chosen = pairs
        if along is not None:
            along = as_array("along", along, (None, model.nq + model.nv))
        if count < len(still):
            xs = np.concatenate([neutral(model), np.zeros(model.nv)])[None] if along is None else along
            least = _least(Distance(model, still, 0.0), xs)
            near = [still[i] for i in np.sort(np.argsort(least, kind="stable")[:count])]
            chosen = (*near, *(pair for pair in pairs if pair not in still))
        Distance.__init__(self, model, chosen, smoothing, margin, places)
        self._set(all_pairs=pairs, closest=closest)

    @property
    def _seen(self) -> tuple[tuple[Geometry, Geometry], ...]:
        return self.all_pairs

    def missed(self, xs: ArrayLike) -> tuple[tuple[str, str, float], ...]:
        """Pairs that come closer than the margin along states xs (K, nx), though they have no rows.

        Names of both and the smallest distance, m.
        """
        xs = as_array("xs", xs, (None, self.model.nq + self.model.nv))
        rest = tuple(pair for pair in self.all_pairs if pair not in self.pairs)
        least = _least(Distance(self.model, rest, 0.0), xs) if rest else ()
        return tuple((a.name, b.name, float(d)) for (a, b), d in zip(rest, least, strict=True) if d < self.margin)

    def replaced(self, xs: ArrayLike) -> Self:
        """With as many rows, for the pairs that come closest along states xs (K, nx)."""
        new = object.__new__(type(self))
        new._begin(self.model, self.all_pairs, self.closest, xs, self.margin, self.smoothing, self.places)
        return new


def _least(distances: Distance, xs: ArrayLike) -> np.ndarray:
    """Of each pair the smallest distance along the states."""
    found, names = distances.distances(xs).min(axis=0), distances.component_names
    least = {name: np.inf for name in names}
    for name, d in zip(names, found.tolist(), strict=True):
        least[name] = min(least[name], d)
    return np.array(list(least.values()))


def _one_box(pair: tuple[Geometry, Geometry]) -> tuple[Geometry, Geometry]:
    a, b = pair
    if isinstance(a.shape, Box) and isinstance(b.shape, Box):
        return replace(a, shape=simplified(a.shape, "capsule")), b
    return a, b


def _moves(item: Any) -> bool:
    """Whether an obstacle has places for knots, or a function of time."""
    if not isinstance(item, tuple) or len(item) != 2 or isinstance(item, Geometry):
        return False
    place = item[1]
    parts = zip(place, (2, 1), strict=True) if isinstance(place, tuple) and len(place) == 2 else [(place, 1)]
    return callable(place) or any(isinstance(part, np.ndarray) and part.ndim > of_one for part, of_one in parts)


def _obstacles(
    given: Mapping[str, Obstacle] | Iterable[Obstacle], taken: set[str]
) -> tuple[list[Geometry], dict[str, Any]]:
    """As shapes of the world, with names that are not taken, and the places of those that move."""
    if not isinstance(given, Mapping):
        items = as_items("obstacles", given, "shapes in their places")
        given = {item.name if isinstance(item, Geometry) else f"obstacle_{i}": item for i, item in enumerate(items)}
        if len(given) < len(items):
            raise ValueError("obstacles: got two of one name, expected new names")
    found, places = [], {}
    for name, item in given.items():
        if _moves(item):
            shape = as_kind(f"obstacles[{name!r}]: shape", item[0], Shape, "a shape such as Sphere(0.1)")
            item, places[str(name)] = Geometry(str(name), "world", -1, simplified(shape, "box")), item[1]
        if not isinstance(item, Geometry):
            shape, place = shape_in_place(f"obstacles[{name!r}]", item)
            item = Geometry(str(name), "world", -1, simplified(shape, "box"), place)
        if item.name in taken:
            raise ValueError(f"obstacles: there already is a shape named {item.name!r}, expected a new name")
        found.append(item)
    return found, places
