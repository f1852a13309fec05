"""The part of a builder that lets links touch things and each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.loads.contacts import Contact, RodContact, SphereContact
from dynamics.rods.model.load_arrays import CONTACT
from dynamics.rods.model.rod_model import LinkContact
from dynamics.rods.robot.load_builder import LoadBuilder
from dynamics.validation import as_array, as_kind, as_not_negative, as_positive, look_up

MOST_NODES = 1000
"""Of a rod that touches something."""


class _Spheres(NamedTuple):
    """Of a link that touches: segments whose ends carry them, centres in these frames, radii, X along a rod."""

    segments: list[int]
    places: np.ndarray
    radii: np.ndarray
    X: np.ndarray


class ContactBuilder(LoadBuilder):
    """Contacts of a `RodModelBuilder`."""

    _contacts: list[LinkContact]

    def add_contact(
        self,
        link: str,
        contact: Contact,
        radius: float | None = None,
        point: ArrayLike = (0.0, 0.0, 0.0),
        spacing: float | None = None,
    ) -> None:
        """Let a link touch something, as spheres.

        Parameters
        ----------
        link : a rod, with spheres about its nodes but the one at its base; or a body, with one about a point of it
        contact : PlaneContact, SphereContact, CapsuleContact or CylinderContact; RodContact of another rod or itself
        radius : of the spheres, m, by default that of a circular rod at the node, and zero of a body
        point : (3,) centre of the sphere, in the body's frame
        spacing : the distance of a rod's nodes, m, above which it gets others in between, as does the rod of a
            RodContact; by default the points of the quadrature and the tip touch

        Raises
        ------
        ValueError : an unknown link, numbers out of range, a rod of another section without a radius.
        TypeError : another kind of contact.
        """
        as_kind("contact", contact, Contact, "a contact such as PlaneContact")
        place, touching = as_array("point", point, (3,)), [(link, radius)]
        if isinstance(contact, RodContact):
            touching.append((contact.rod, contact.radius))
        self._check(link, contact, place, touching, spacing)
        for name, _ in touching:
            self._refine(name, spacing)
        own, *others = (self._spheres(name, r, place, spacing is not None) for name, r in touching)
        if isinstance(contact, RodContact):
            for i, k in np.ndindex(len(own.X), len(others[0].X)):
                if contact.rod != link or others[0].X[k] - own.X[i] > (contact.apart or 0.0):
                    numbers = contact.numbers(float(own.radii[i] + others[0].radii[k]), own.places[i])
                    self._loads.contacts.append((own.segments[i], others[0].segments[k], numbers))
        else:
            target = self._links[contact.link] if isinstance(contact, SphereContact) and contact.link else -1
            for s, centre, r in zip(own.segments, own.places, own.radii, strict=True):
                if target >= 0 or contact.resists:
                    self._loads.contacts.append((s, target, contact.numbers(r, centre)))
                else:
                    self._loads.add(s, CONTACT, contact.numbers(r, centre))
        centres = own.X[:, None] * [1.0, 0.0, 0.0] if link in self._rods else own.places
        self._contacts.append(LinkContact(link, contact, centres, own.radii))

    def _check(self, link: str, contact: Contact, place: np.ndarray, touching: list, spacing: float | None) -> None:
        """ValueError for what `add_contact` does not take."""
        self._segment_of(link)
        if isinstance(contact, SphereContact) and contact.link is not None:
            look_up("contact: link", contact.link, self._links)
            if contact.link == link:
                raise ValueError(f"contact: link: got {link!r} on both sides, expected two links")
        if isinstance(contact, RodContact):
            look_up("contact: rod", contact.rod, self._rods)
            if (contact.rod == link) != (contact.apart is not None):
                wanted = "a distance along the rod, m" if contact.rod == link else "None for two links"
                raise ValueError(f"contact: apart: got {contact.apart}, expected {wanted}")
        if link not in self._rods and spacing is not None:
            raise ValueError(f"spacing: got {spacing} of the body {link!r}, expected None; only rods have nodes")
        if link in self._rods and place.any():
            raise ValueError(f"point: got {place} of the rod {link!r}, expected (0, 0, 0)")
        for name, radius in touching:
            if radius is not None:
                as_not_negative("radius", radius)
            elif name in self._rods:
                self._circular(name)
            if spacing is not None:
                rod = self._rods[name]
                count = rod.length / as_positive("spacing", spacing)
                if count > MOST_NODES:
                    raise ValueError(f"spacing: got {spacing} m, for {count:.0f} nodes, expected at most {MOST_NODES}")

    def _spheres(self, link: str, radius: float | None, place: np.ndarray, everywhere: bool) -> _Spheres:
        """Of a body, or of a rod, at nodes that loads made in it too or not."""
        if link not in self._rods:
            return _Spheres([self._links[link]], place[None], np.array([radius or 0.0]), np.zeros(1))
        rod = self._rods[link]
        kept = np.flatnonzero((rod.weights > 0.0) | (rod.nodes == rod.length) | everywhere)
        kept = kept[kept > 0]
        X = rod.nodes[kept]
        radii = self._circular(link)[1].radii(X / rod.length) if radius is None else np.full(len(X), radius)
        return _Spheres([rod.segments.start + int(k) - 1 for k in kept], np.zeros((len(X), 3)), radii, X)

    def _refine(self, name: str, spacing: float | None) -> None:
        """Make nodes in a rod, so that they are no further from each other."""
        if spacing is not None:
            rod = self._rods[name]
            for start, end in zip(rod.nodes[:-1], rod.nodes[1:], strict=True):
                for X in np.linspace(start, end, int(np.ceil((end - start) / spacing)) + 1)[1:-1]:
                    self._node(name, X / rod.length)
