"""Reading the shapes of a URDF: <collision> and <visual> of every link, with the colours of their materials."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree.ElementTree import Element

import numpy as np

from dynamics.builder import ModelBuilder
from dynamics.formats.mesh_paths import MeshPaths
from dynamics.formats.remarks import Remarks
from dynamics.formats.xml import attribute_of, number_of, numbers_of, read_origin
from dynamics.geometry.geometry import PURPOSES, as_color
from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Shape, Sphere

Color = tuple[float, float, float, float]


class GeometryReader:
    """Adds the shapes of a <robot> to a builder, link by link."""

    def __init__(self, robot: Element, paths: MeshPaths, remarks: Remarks) -> None:
        self._paths, self._remarks = paths, remarks
        self._names: set[str] = set()
        self._colors: dict[str, Color] = {}
        for material in robot.iter("material"):  # one that a link gives in full may serve others by its name
            name, color = material.get("name"), _color(material)
            if name and color is not None:
                self._colors.setdefault(name, color)

    def add_all(self, builder: ModelBuilder, link: Element, name: str) -> None:
        """Add the shapes of a link, which the builder has."""
        for purpose in PURPOSES:
            for number, element in enumerate(link.findall(purpose)):
                where = f"<link name={name!r}> <{purpose}>"
                shape = self._shape(element, where)
                if shape is None:
                    continue
                own = element.get("name")
                label = own if own and own not in self._names else f"{name}_{purpose}_{number}"
                while label in self._names:
                    label += "_"
                self._names.add(label)
                color = self._color_of(element) if purpose == "visual" else None
                builder.add_geometry(name, shape, read_origin(element, where), purpose, label, color)

    def _shape(self, element: Element, where: str) -> Shape | None:
        """The shape of a <collision> or <visual>; None, which is noted, for none or one of an unknown kind."""
        geometry = element.find("geometry")
        kinds = [] if geometry is None else list(geometry)
        if not kinds or kinds[0].tag not in _SHAPES:
            found = f"<{kinds[0].tag}>" if kinds else "no <geometry>"
            self._remarks.add("shapes of an unknown kind are left out", f"{where} has {found}")
            return None
        kind = kinds[0]
        where = f"{where} <geometry>"
        if kind.tag == "mesh":
            return self._mesh(kind, where)
        try:
            return _SHAPES[kind.tag](kind, where)
        except ValueError as error:
            raise error if str(error).startswith("<") else ValueError(f"{where} <{kind.tag}>: {error}") from None

    def _mesh(self, element: Element, where: str) -> Mesh:
        path = self._paths.find(attribute_of(element, "filename", f"{where} <mesh>"))
        scale = element.get("scale", "1 1 1")
        count = len(scale.split())
        values = numbers_of(element, "scale", count if count in (1, 4) else 3, where, "1 1 1")
        if count == 4:
            self._remarks.add(
                "scales of meshes with four numbers, read as the first three", f"{where} <mesh> {scale!r}"
            )
            values = values[:3]
        if not values.all():
            raise ValueError(f"{where} <mesh>: attribute 'scale' is {scale!r}, expected nonzero numbers")
        return Mesh(path, values if len(values) == 3 else float(values[0]))

    def _color_of(self, element: Element) -> Color | None:
        material = element.find("material")
        if material is None:
            return None
        own = _color(material)
        return self._colors.get(material.get("name", "")) if own is None else own


def _color(material: Element) -> Color | None:
    color = material.find("color")
    if color is None or color.get("rgba") is None:
        return None
    where = f"<material name={material.get('name')!r}>"
    return as_color(f"{where} <color>: attribute 'rgba'", np.clip(numbers_of(color, "rgba", 4, where), 0.0, 1.0))


def _capsule(element: Element, where: str) -> Capsule:
    half = 0.5 * number_of(element, "length", where)
    return Capsule(number_of(element, "radius", where), (0.0, 0.0, -half), (0.0, 0.0, half))


_SHAPES: dict[str, Callable[[Element, str], Shape]] = {
    "sphere": lambda element, where: Sphere(number_of(element, "radius", where)),
    "box": lambda element, where: Box(0.5 * numbers_of(element, "size", 3, where)),
    "cylinder": lambda element, where: Cylinder(
        number_of(element, "radius", where), number_of(element, "length", where)
    ),
    "capsule": _capsule,
    "ellipsoid": lambda element, where: Ellipsoid(numbers_of(element, "radii", 3, where)),
    "mesh": lambda element, where: Mesh(attribute_of(element, "filename", where)),
}
"""By the tag inside <geometry>; capsule and ellipsoid are extensions that other readers have too."""
