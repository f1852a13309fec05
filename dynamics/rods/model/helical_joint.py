"""A joint that rods have besides those of rigid robots: a nut on a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dynamics.joints import Axis, unit_axis
from dynamics.validation import as_array


@dataclass(frozen=True)
class Helical:
    """A turn about an axis and a shift along it, of `pitch` metres per radian: one degree of freedom, the angle.

    Of rod models alone; rigid models do not take it.

    Parameters
    ----------
    axis : 'x', 'y', 'z' or a vector (3,)
    pitch : m/rad; the lead of a thread is 2 pi times as large; negative of left-handed threads

    Raises
    ------
    ValueError : an axis that is none, a pitch that is no finite number.

    Examples
    --------
    >>> builder = rods.RodModelBuilder()
    >>> builder.add_body("nut", "world", rods.Helical("z", pitch=0.01), mass=1.0, inertia=0.01 * np.eye(3))
    >>> rods.link_placement(builder.build(), "nut", [np.pi])[1].round(4)  # half a turn lifts it by pi times the pitch
    array([0.    , 0.    , 0.0314])
    """

    axis: Axis
    pitch: float
    nv: ClassVar[int] = 1

    def __post_init__(self):
        object.__setattr__(self, "axis", unit_axis(self.axis))
        object.__setattr__(self, "pitch", float(as_array("pitch", self.pitch, ())))
