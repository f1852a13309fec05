"""What a system may offer besides the members of `trajopt.System`: a small protocol each, and one way to ask for them.

Nothing here is inherited from.  A system that has all members of a protocol has the capability; one that lacks them, or
holds None in their place, does without.  `capability` is how this package asks, always.  A system around another one
forwards every member, or refuses it with a reason, as `trajopt.ControlRateSystem` does.
"""

from functools import cache
from typing import Any, Protocol, TypeVar

import numpy as np

C = TypeVar("C")


# ------------------------------------------------------------------------------------------------ the state manifold
class Euclidean(Protocol):
    """Says whether `difference` is plain subtraction; True where it is not said."""

    @property
    def euclidean(self) -> bool:
        """False: the states live on a manifold, and the system has a `DifferenceExpansion`."""
        ...


class PlainTangent(Protocol):
    """Of a manifold: says that `integrate` is plain addition, all numbers of a state being free; False where it is not
    said."""

    @property
    def plain_tangent(self) -> bool:
        """True: derivatives along the tangent are those by the numbers of the state, as a `FunctionResidual` has."""
        ...


class DescribedStates(Protocol):
    """Says what its states are, so that policies on a manifold can be saved and used without the system."""

    @property
    def state_space(self) -> Any:
        """Factors, one behind the other in a state and in a tangent, a tuple of tuples of names and numbers: of
        ("euclidean", n), ("so3",), ("se3",), ("se2",), as `trajopt.interfaces.state_space` has them."""
        ...


class DifferenceExpansion(Protocol):
    """Derivatives of `difference`, which a system on a manifold must have."""

    def difference_expansion(self, x_ref: np.ndarray, xs: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expand r = difference(x_ref, xs) along the tangent of xs (K, nx); x_ref (nx,) or (K, nx).

        Returns J (K, ndx, ndx), the Jacobian of r, and H (K, ndx, ndx), the Hessian of mu'r with mu (K, ndx).
        """
        ...


class IntegrateJacobian(Protocol):
    """Knows how the numbers of a state change along its tangent, for derivatives by these numbers
    (`Sensitivity.vjp(..., ambient=True)`, layers)."""

    def integrate_jacobian(self, xs: np.ndarray) -> np.ndarray:
        """J (K, nx, ndx), the Jacobian of integrate(xs, dx) in dx at dx = 0, xs (K, nx)."""
        ...


class DifferenceWithJacobian(Protocol):
    """The difference and its Jacobian together: costs use it in place of `difference` and `difference_expansion`."""

    def difference_with_jacobian(self, x_ref: np.ndarray, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """difference(x_ref, xs) (K, ndx) and its Jacobian (K, ndx, ndx) in xs; x_ref (nx,) or (K, nx)."""
        ...


class DifferenceResidual(Protocol):
    """The difference from one state as a residual that sums its weighted squares (see `trajopt.problem.objective`)."""

    def difference_residual(self, x_ref: np.ndarray) -> Any:
        """r = difference(x_ref, x), x_ref (nx,)."""
        ...


class CheckedStates(Protocol):
    """Knows which states are points of its manifold."""

    def check_state(self, xs: np.ndarray) -> None:
        """Raise ValueError if one of the states xs (K, nx) is none."""
        ...


# ------------------------------------------------------------------------------------------------ the start
class CheckedStart(Protocol):
    """Knows where a trajectory can begin."""

    def check_start(self, x0: np.ndarray) -> None:
        """Raise ValueError if it cannot sensibly begin at x0 (nx,)."""
        ...


class AdvisedStart(Protocol):
    """Knows that a solve hardly succeeds from controls alone."""

    @property
    def start_advice(self) -> str:
        """Which states to start from, and how these are made, in words that follow "start from"."""
        ...


class QuasiStatic(Protocol):
    """Knows what holds it still."""

    def quasi_static(self, x: np.ndarray) -> np.ndarray:
        """Controls (nu,), or (N, nu) of all knots, that hold the system still at x (nx,)."""
        ...


# ------------------------------------------------------------------------------------------------ knots and time
class KnotByKnot(Protocol):
    """Dynamics that differ from knot to knot."""

    @property
    def horizon(self) -> int:
        """Number of knots, which a trajectory must have."""
        ...

    def window(self, start: int, stop: int) -> Any:
        """The system of the knots start <= t < stop alone; one of a single knot takes batches of any length, all at
        that knot."""
        ...


class Phases(Protocol):
    """Has phases, as of one set of contacts."""

    @property
    def phase_starts(self) -> np.ndarray:
        """The knots at which they begin."""
        ...


class TimedSteps(Protocol):
    """Can step for any time."""

    def timed(self) -> Any:
        """The same system with one more control, behind the others: how long a step takes, s."""
        ...


class Durations(Protocol):
    """Knots that do not all take dt."""

    @property
    def durations(self) -> np.ndarray:
        """Seconds (N,) that each takes, by which running costs are weighed; a knot may take no time."""
        ...


class FreeDurations(Protocol):
    """Knots that take as long as their states say."""

    def durations_along(self, xs: np.ndarray) -> np.ndarray:
        """Seconds (N,) that the knots of a trajectory xs (N+1, nx) take; `durations` are those that costs know."""
        ...


class IdleKnots(Protocol):
    """Knots with controls that are without effect."""

    @property
    def idle(self) -> np.ndarray:
        """Which (N,) they are."""
        ...


class Refinement(Protocol):
    """Can move in finer steps, which say how wrong its own are."""

    @property
    def integrator_order(self) -> int:
        """The power of dt with which the error of its integrator falls."""
        ...

    def refined(self, substeps: int) -> Any:
        """A system of the same states and controls in steps of dt/substeps, so many for each knot that takes time and
        one for each that takes none, whose integrator is of the highest order that suits; ValueError for what does
        not."""
        ...


class Resimulation(Protocol):
    """Can move as in continuous time, whatever that takes."""

    def resimulated(self) -> Any:
        """A system of the same states, controls and dt, whose steps are to tight tolerances what its own approximate;
        it has `step` and `rollout`, and need have no derivatives."""
        ...


class OtherModels(Protocol):
    """Can be made of another model."""

    def with_model(self, model: Any) -> Any:
        """The same system, step, controls and contacts included, of another model of the same states; TypeError or
        ValueError for one that is not."""
        ...


class SingleJoints(Protocol):
    """Has joints that have one degree of freedom each."""

    @property
    def single_joints(self) -> dict[str, tuple[int, int]]:
        """Of each, by its name, where in a state its position and its velocity are."""
        ...

    def joint_efforts(self, us: np.ndarray) -> np.ndarray:
        """What the controls us (K, nu) exert on each of them (K, joints), N m or N."""
        ...


class JointFeedback(Protocol):
    """Has joints that controls drive, whose own motion can be fed back to them (`trajopt.results.joint_feedback`)."""

    @property
    def joint_feedback(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of J driven degrees of freedom: the components of a tangent (J,) that are their positions, those (J,) that
        are their velocities, and efforts (J, nu), what each control exerts on each of them, N m or N."""
        ...

    def joint_inertias(self, xs: np.ndarray) -> np.ndarray:
        """Inertias (K, J) of these, kg m^2 or kg, at states xs (K, nx): torque over acceleration where nothing else is
        pushed or held."""
        ...


# ------------------------------------------------------------------------------------------------ expansions
class SemiImplicit(Protocol):
    """Says whether fx and fu have the structure of semi-implicit Euler steps; False where it is not said."""

    @property
    def semi_implicit(self) -> bool:
        """fx[:, :n] = [I 0] + dt fx[:, n:] and fu[:, :n] = dt fu[:, n:] exactly, with n = ndx/2 and dt each knot's
        duration: a structured backward pass then reads only the lower halves."""
        ...


class PartlySemiImplicit(Protocol):
    """That structure from a row on, where not all rows have it: the six of a floating base move on a group."""

    @property
    def semi_implicit_from(self) -> int:
        """b < n with fx[:, b:n] = [0 I 0] + dt fx[:, n + b:] and fu[:, b:n] = dt fu[:, n + b:]: the backward pass then
        reads the first b rows and the lower halves."""
        ...


class JointExpansion(Protocol):
    """Derivatives of first and second order from one evaluation of the dynamics."""

    def write_expansion(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        lam: np.ndarray,
        fx: np.ndarray,
        fu: np.ndarray,
        Hxx: np.ndarray,
        Hux: np.ndarray,
        Huu: np.ndarray,
    ) -> None:
        """Write what `linearize` and `hessian_products` return into the arrays given."""
        ...


class AccelerationControlled(Protocol):
    """Wants accelerations as the sweep's controls, its own an output (see `trajopt.solvers.inverse`)."""

    @property
    def acceleration_control(self) -> Any:
        """The map between the two, as `dynamics.systems.acceleration_control` has it."""
        ...


class ParameterGradient(Protocol):
    """Knows how its steps depend on parameters pi of its own, as inertial ones of a robot's bodies."""

    def parameter_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """d/dpi sum_t lam_t'f(xs_t, us_t; pi), in the form that it has them in; xs (N, nx), us (N, nu), lam (N, ndx)
        of tangents at the next states."""
        ...


# ------------------------------------------------------------------------------------------------ owners of terms
class Serving(Protocol):
    """Says what terms may be made for (see `trajopt.interfaces.owners`)."""

    @property
    def serves(self) -> tuple[Any, ...]:
        """First the space of its states, last all that a term can know of it at all of its knots; compared by ==."""
        ...


# ------------------------------------------------------------------------------------------------ limits
class NeutralState(Protocol):
    """Has a state that limits are counted from; of others that is zero."""

    @property
    def neutral_state(self) -> np.ndarray:
        """A state (nx,) of the manifold."""
        ...


class StateLimits(Protocol):
    """Knows limits of its states."""

    def state_limits(self, position: bool = True, velocity: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """lower and upper (ndx,) of the tangent at the neutral state, infinite where none is or is asked for."""
        ...


class ControlLimits(Protocol):
    """Knows limits of its controls."""

    def control_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """lower and upper (nu,), infinite where there are none."""
        ...


class ControlSpeeds(Protocol):
    """Has motors for controls, and knows how fast they turn."""

    @property
    def control_speeds(self) -> tuple[np.ndarray, np.ndarray]:
        """S (nu, n) and w_0 (nu,): their speeds are S v, v the last n numbers of a state, and at most w_0, infinite
        where it knows no limit.  Torque times speed is the power that a control brings."""
        ...


# ------------------------------------------------------------------------------------------------ pictures and names
class Skeleton(Protocol):
    """Can be drawn."""

    def skeleton(self, xs: np.ndarray) -> np.ndarray:
        """Line segments (K, segments, 2, 3), m, at the states xs (K, nx)."""
        ...


class Solids(Protocol):
    """Has bodies that can be seen."""

    def solids(self, fine: bool = True) -> tuple[Any, ...]:
        """Surfaces, each with `body`, its number or -1 for what never moves, `vertices` (V, 3), m, in the body's axes,
        `faces` (F, 3) of the vertices' numbers, and `color`, four numbers up to 1, or None; few faces unless fine.
        What bends has as `body` (V,), that of each vertex; what legends are to name has a `label`."""
        ...

    def body_placements(self, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotations (K, B, 3, 3) and positions (K, B, 3), m, of the bodies in the world at states xs (K, nx)."""
        ...


class Scenery(Protocol):
    """Brings along what never moves, as a rail; obstacles and targets are the problem's (`trajopt.problem.scenery`)."""

    @property
    def scenery(self) -> Any:
        """Their line segments (S, 2, 3), m, or a tuple of shapes as a problem's."""
        ...


class ContactPoints(Protocol):
    """Has frames that are in contact at some knot."""

    def contact_points(self, xs: np.ndarray) -> np.ndarray:
        """Positions (K, F, 3), m, world axes, of all frames that ever are, at any states xs (K, nx)."""
        ...


class ContactForces(Protocol):
    """Knows the forces at its contact points."""

    def contact_forces(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Forces (N, F, 3), N, on the frames at the knots, world axes, zero where a frame is not held."""
        ...


class ContactFrames(Protocol):
    """Knows what the frames are called that are in contact at some knot."""

    @property
    def contact_frames(self) -> tuple[str, ...]:
        """Names of the F frames of `ContactPoints` and `ContactForces`, in their order."""
        ...


class CenterOfMass(Protocol):
    """Knows where its centre of mass is."""

    def center_of_mass(self, xs: np.ndarray) -> np.ndarray:
        """Positions (K, 3), m, world axes."""
        ...


class Quantities(Protocol):
    """Knows what of its motion is worth seeing against time, where its coordinates say little."""

    def quantities(self, xs: np.ndarray) -> tuple[tuple[str, tuple[str, ...], np.ndarray], ...]:
        """Panels of a figure: a label with a unit, the names of n curves, their values (K, n) at states xs (K, nx)."""
        ...


class Coordinates(Protocol):
    """Mechanical: a state is positions and velocities."""

    @property
    def nq(self) -> int:
        """The first nq numbers of a state are positions, all others velocities."""
        ...


class Noisy(Protocol):
    """Knows that its steps are less exact than double precision: those of a function in single precision, or of a
    simulator that iterates."""

    def step_noise(self, xs: np.ndarray) -> np.ndarray:
        """Standard deviation (N, ndx) of the steps between the states xs (N+1, nx) of a trajectory."""
        ...


class StateNames(Protocol):
    """Names for plots."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """Those of the numbers of a state (nx,)."""
        ...


class TangentNames(Protocol):
    """Names for limits and reports."""

    @property
    def tangent_names(self) -> tuple[str, ...]:
        """Those of the components of a tangent vector (ndx,), all different: "elbow", "elbow velocity", ..."""
        ...


class TangentUnits(Protocol):
    """Units for reports of errors."""

    @property
    def tangent_units(self) -> tuple[str, ...]:
        """Those of the components of a tangent vector (ndx,): "rad", "m", "rad/s", "m/s", or "" where there is none."""
        ...


class ControlNames(Protocol):
    """Names for plots, limits and reports."""

    @property
    def control_names(self) -> tuple[str, ...]:
        """Those of the controls (nu,)."""
        ...


class ControlUnits(Protocol):
    """Units for plots."""

    @property
    def control_units(self) -> tuple[str, ...]:
        """Those of the controls (nu,): "N", "N m", "Pa", or "" of those with units of their own."""
        ...


CAPABILITIES: tuple[type, ...] = (
    Euclidean, PlainTangent, DescribedStates, DifferenceExpansion, IntegrateJacobian, DifferenceWithJacobian,
    DifferenceResidual, CheckedStates, CheckedStart, AdvisedStart, QuasiStatic, KnotByKnot, Phases, TimedSteps,
    Durations, FreeDurations, IdleKnots, Refinement, Resimulation, OtherModels, SingleJoints, JointFeedback,
    SemiImplicit, PartlySemiImplicit, JointExpansion,
    AccelerationControlled, ParameterGradient, Serving, NeutralState, StateLimits, ControlLimits, ControlSpeeds,
    Skeleton, Solids, Scenery, Noisy,
    ContactPoints, ContactForces, ContactFrames, CenterOfMass, Quantities, Coordinates, StateNames, TangentNames,
    TangentUnits,
    ControlNames, ControlUnits,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------ asking
@cache
def members(kind: type) -> tuple[str, ...]:
    """Names of the members of a capability."""
    return tuple(name for name in vars(kind) if not name.startswith("_"))


def capability(system: Any, kind: type[C]) -> C | None:
    """The system as one with this capability, None if it has not got it.

    Raises TypeError for a system that has some of the members that belong together, but not all.
    """
    names = members(kind)
    missing = [name for name in names if getattr(system, name, None) is None]
    if not missing:
        return system
    if len(missing) < len(names):
        has = ", ".join(name for name in names if name not in missing)
        raise TypeError(
            f"system: {type(system).__name__} has {has}, but lacks {', '.join(missing)}, wanted all of what makes a "
            f"trajopt.capabilities.{kind.__name__}, or nothing of it"
        )
    return None
