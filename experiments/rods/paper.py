"""What Mathew et al. 2025 report: MATLAB R2024a on an i9-13900HX.  Table 3, and times per call from the text."""

from typing import NamedTuple


class PaperRow(NamedTuple):
    """Seconds for ten seconds of motion, and milliseconds per call; None where the paper gives no number.

    Attributes
    ----------
    differences : ode15s (ode113 of parallel robot and vehicle) without the derivatives
    exact : ode15s with the analytic derivatives
    step, newmark : s, Newmark's method and its step
    jacobian : ms, the Jacobian of forward dynamics by differences and analytic
    statics : ms, an equilibrium with the Jacobian by differences and analytic
    """

    differences: float | None
    exact: float
    step: float
    newmark: float
    jacobian: tuple[float, float]
    statics: tuple[float, float] | None = None

    @property
    def best(self) -> float:
        """The shortest time, s."""
        return min(x for x in (self.differences, self.exact, self.newmark) if x is not None)


TABLE = {
    "cable_manipulator": PaperRow(5.4, 1.25, 0.002, 24.43, (10.5, 1.3), (28.2, 3.3)),
    "serial_arm": PaperRow(7.08, 2.49, 0.001, 231.0, (32.1, 2.5), (49.9, 6.3)),
    "fin_ray_finger": PaperRow(None, 994.0, 0.01, 69.0, (498.0, 23.7)),
    "parallel_robot": PaperRow(4500.0, 2.46, 0.01, 17.62, (82.9, 5.1), (166.4, 8.97)),
    "contact": PaperRow(30.61, 7.8, 0.002, 46.64, (23.7, 2.3)),
    "underwater_vehicle": PaperRow(496.0, 1.17, 0.01, 60.91, (216.0, 11.9)),
}
