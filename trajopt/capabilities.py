"""The optional members of systems, in ten groups, and one way to ask for them.

A system needs the members of `trajopt.System` alone.  Whatever else it has by one of these names is used; in place of a
member that it lacks, or holds None for, `capability` puts what is written here: a default that does nothing, or None
for a member marked `NoDefault`.  A system need not inherit from a group.  A system around another one inherits from
`trajopt.problem.extended_system.ExtendedSystem`, which lifts each member or refuses it with a reason.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

import numpy as np

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class NoDefault(Generic[P, R]):
    """Marks a method of a group that has no default: the member is None where a system lacks it."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[P, R] | None:
        return None


# ------------------------------------------------------------------------------------------------ the state manifold
class StateManifold:
    """The manifold of the states, and what terms may be made for."""

    @property
    def euclidean(self) -> bool:
        """True where `difference` is plain subtraction; a system of other states has `difference_expansion`."""
        return True

    @property
    def plain_tangent(self) -> bool:
        """True for a manifold whose `integrate` is plain addition, all numbers of a state being free: derivatives along
        the tangent are those by the numbers of the state, as a `FunctionResidual` has."""
        return False

    @property
    def state_space(self) -> Any:
        """Factors of the states, one behind the other in a state and in a tangent, a tuple of tuples of names and
        numbers: of ("euclidean", n), ("so3",), ("se3",), ("se2",), as `trajopt.interfaces.state_space` has them.  With
        them policies on a manifold can be saved and used without the system."""
        return None

    @NoDefault
    def difference_expansion(self, x_ref: np.ndarray, xs: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expand r = difference(x_ref, xs) along the tangent of xs (K, nx); x_ref (nx,) or (K, nx).

        Returns J (K, ndx, ndx), the Jacobian of r, and H (K, ndx, ndx), the Hessian of mu'r with mu (K, ndx).
        """
        ...

    def difference_with_jacobian(self: Any, x_ref: np.ndarray, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """difference(x_ref, xs) (K, ndx) and its Jacobian (K, ndx, ndx) in xs; x_ref (nx,) or (K, nx).  Costs use it in
        place of `difference` and `difference_expansion`."""
        return self.difference(x_ref, xs), self.difference_expansion(x_ref, xs, np.zeros((len(xs), self.ndx)))[0]

    @NoDefault
    def prepared_integrate(self, xs: np.ndarray, dxs: np.ndarray, moved: np.ndarray) -> Callable[[], Any] | None:
        """A function without arguments that writes integrate(xs, dxs), of states (K, nx) and tangents (K, ndx) as these
        are then, into moved (K, nx); None where there is none.  Not asked for where `integrate` is plain addition."""
        ...

    @NoDefault
    def prepared_difference(self, x0s: np.ndarray, x1s: np.ndarray, dx: np.ndarray) -> Callable[[], Any] | None:
        """A function without arguments that writes difference(x0s, x1s), of states (K, nx) as these are then, into dx
        (K, ndx); None where there is none.  Not asked for where `difference` is plain subtraction."""
        ...

    @NoDefault
    def integrate_jacobian(self, xs: np.ndarray) -> np.ndarray:
        """J (K, nx, ndx), the Jacobian of integrate(xs, dx) in dx at dx = 0, xs (K, nx), for derivatives by the numbers
        of a state (`Sensitivity.vjp(..., ambient=True)`, layers)."""
        ...

    @NoDefault
    def difference_residual(self, x_ref: np.ndarray) -> Any:
        """The residual r = difference(x_ref, x), x_ref (nx,), that sums its weighted squares
        (see `trajopt.problem.objective`)."""
        ...

    @NoDefault
    def check_state(self, xs: np.ndarray) -> None:
        """Raise ValueError if one of the states xs (K, nx) is no point of the manifold."""

    @property
    def neutral_state(self: Any) -> np.ndarray:
        """The state (nx,) that limits are counted from; zeros by default."""
        return np.zeros(self.nx)

    @property
    def serves(self) -> tuple[Any, ...]:
        """Subjects that terms may be made for (see `trajopt.interfaces.terms`), compared by ==: first the space of the
        states, last all that a term can know of the system at all of its knots.  Empty where the system names none."""
        return ()


# ------------------------------------------------------------------------------------------------ names and units
class Names:
    """Names and units for plots, limits and reports; empty where there are none."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the numbers of a state (nx,)."""
        return ()

    @property
    def tangent_names(self) -> tuple[str, ...]:
        """Names of the components of a tangent vector (ndx,), all different: "elbow", "elbow velocity", ..."""
        return ()

    @property
    def tangent_units(self) -> tuple[str, ...]:
        """Units of the components of a tangent vector (ndx,): "rad", "m", "rad/s", "m/s", or "" where there is none."""
        return ()

    @property
    def control_names(self) -> tuple[str, ...]:
        """Names of the controls (nu,)."""
        return ()

    @property
    def control_units(self) -> tuple[str, ...]:
        """Units of the controls (nu,): "N", "N m", "Pa", or "" for those with units of their own."""
        return ()


# ------------------------------------------------------------------------------------------------ the start
class Start:
    """Where a trajectory can begin."""

    def check_start(self, x0: np.ndarray) -> None:
        """Raise ValueError if a trajectory cannot sensibly begin at x0 (nx,)."""

    @property
    def start_advice(self) -> str:
        """The states to start from where a solve hardly succeeds from controls alone, and how these are made, in words
        that follow "start from"; empty where controls do."""
        return ""

    @NoDefault
    def quasi_static(self, x: np.ndarray) -> np.ndarray:
        """Controls (nu,), or (N, nu) of all knots, that hold the system still at x (nx,)."""
        ...


# ------------------------------------------------------------------------------------------------ knots and time
class Knots:
    """Dynamics, durations and phases that differ from knot to knot."""

    together: ClassVar = (("horizon", "window"),)

    @property
    def horizon(self) -> int | None:
        """Number of knots, which a trajectory must have; None where all knots are alike."""
        return None

    def window(self, start: int, stop: int) -> Any:
        """The system of the knots start <= t < stop alone; one of a single knot takes batches of any length, all at
        that knot."""
        return itself(self)

    @property
    def phase_starts(self) -> np.ndarray:
        """The knots at which phases begin, as those of one set of contacts; none where there are no phases."""
        return np.zeros(0, dtype=np.intp)

    @property
    def durations(self: Any) -> Any:
        """Seconds (N,) that each knot takes, by which running costs are weighed; a knot may take no time.  One number,
        dt, where all take the same."""
        return float(self.dt)

    def durations_along(self: Any, xs: np.ndarray) -> Any:
        """Seconds (N,) that the knots of a trajectory xs (N+1, nx) take, where its states say so; `durations` are those
        that costs know."""
        return self.durations

    @property
    def idle(self) -> np.ndarray:
        """Mask (N,) of the knots with controls that are without effect; empty where there is none."""
        return np.zeros(0, dtype=bool)

    @NoDefault
    def timed(self) -> Any:
        """The same system with one more control, behind the others: how long a step takes, s."""
        ...


# ------------------------------------------------------------------------------------------------ other steps
class Steps:
    """The same motion in finer or exact steps, or of another model, and how exact its own steps are."""

    together: ClassVar = (("integrator_order", "refined"),)

    @property
    def integrator_order(self) -> int | None:
        """The power of dt with which the error of the integrator falls."""
        return None

    @property
    def implicit_step(self) -> str:
        """Method and length of steps that solve an equation, and are NaN where they find no solution, as in "sdirk2,
        dt = 0.02 s", for messages; empty where no step does."""
        return ""

    @NoDefault
    def refined(self, substeps: int) -> Any:
        """A system of the same states and controls in steps of dt/substeps, so many for each knot that takes time and
        one for each that takes none, whose integrator is of the highest order that suits; ValueError for what does
        not."""
        ...

    @NoDefault
    def resimulated(self) -> Any:
        """A system of the same states, controls and dt, whose steps are to tight tolerances what its own approximate;
        it has `step` and `rollout`, and need have no derivatives."""
        ...

    @NoDefault
    def with_model(self, model: Any) -> Any:
        """The same system, step, controls and contacts included, of another model of the same states; TypeError or
        ValueError for one that is not."""
        ...

    @NoDefault
    def step_noise(self, xs: np.ndarray) -> np.ndarray:
        """Standard deviation (N, ndx) of the steps between the states xs (N+1, nx) of a trajectory, where they are less
        exact than double precision: steps of a function in single precision, or of a simulator that iterates."""
        ...


# ------------------------------------------------------------------------------------------------ joints
class Joints:
    """Positions and velocities, and joints that controls drive."""

    together: ClassVar = (("single_joints", "joint_efforts"), ("joint_feedback", "joint_inertias"))

    @property
    def nq(self) -> int | None:
        """Number of positions of a mechanical system: the first nq numbers of a state, all others are velocities."""
        return None

    @property
    def single_joints(self) -> dict[str, tuple[int, int]]:
        """Joints of one degree of freedom by name: where in a state its position and its velocity are."""
        return {}

    @NoDefault
    def joint_efforts(self, us: np.ndarray) -> np.ndarray:
        """Efforts (K, joints), N m or N, that the controls us (K, nu) exert on each of `single_joints`."""
        ...

    @property
    def joint_feedback(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """J driven degrees of freedom whose own motion can be fed back (`trajopt.results.joint_feedback`): the
        components of a tangent (J,) that are their positions, those (J,) that are their velocities, and efforts
        (J, nu), what each control exerts on each of them, N m or N."""
        none = np.zeros(0, dtype=np.intp)
        return none, none, np.zeros((0, 0))

    @NoDefault
    def joint_inertias(self, xs: np.ndarray) -> np.ndarray:
        """Inertias (K, J) of these, kg m^2 or kg, at states xs (K, nx), with nothing else held: the largest numbers m
        known for which springs of stiffness w^2 m at all of them together oscillate at no more than w rad/s."""
        ...


# ------------------------------------------------------------------------------------------------ expansions
class Expansions:
    """Structure of the derivatives, and other ways to them."""

    @property
    def semi_implicit(self) -> bool:
        """True where fx[:, :n] = [I 0] + dt fx[:, n:] and fu[:, :n] = dt fu[:, n:] exactly, with n = ndx/2 and dt each
        knot's duration, as for semi-implicit Euler steps: a structured backward pass then reads only the lower halves.
        """
        return False

    @property
    def semi_implicit_from(self) -> int | None:
        """The row b < n from which on there is that structure, where not all rows have it, as the six of a floating
        base, which move on a group: fx[:, b:n] = [0 I 0] + dt fx[:, n + b:] and fu[:, b:n] = dt fu[:, n + b:], and the
        backward pass reads the first b rows and the lower halves."""
        return None

    @NoDefault
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
        """Write what `linearize` and `hessian_products` return into the arrays given, from one evaluation."""
        ...

    @NoDefault
    def prepared_expansion(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        fx: np.ndarray,
        fu: np.ndarray,
        lam: np.ndarray | None = None,
        *H: np.ndarray,
    ) -> Callable[[], Any] | None:
        """A function without arguments that writes what `linearize` returns into fx and fu, and with lam (N, ndx) what
        `hessian_products` returns into H, at the numbers that these arrays hold then; None where there is none."""
        ...

    @NoDefault
    def prepared_rollouts(
        self,
        x0: np.ndarray,
        xs: np.ndarray,
        us: np.ndarray,
        k: np.ndarray,
        K: np.ndarray,
        alphas: np.ndarray,
        gaps: np.ndarray | None = None,
        lower: np.ndarray | None = None,
        upper: np.ndarray | None = None,
        shift: np.ndarray | None = None,
        pull: np.ndarray | None = None,
        before: np.ndarray | None = None,
    ) -> Callable[[], tuple[np.ndarray, np.ndarray]] | None:
        """A function without arguments that returns what `closed_loop_rollout` does with the numbers that these arrays
        hold then, always the same views of arrays that the next call overwrites; None where there is none.  The last
        three arguments, and x0 (A, nx), are given where `closed_loop_rollout` takes them."""
        ...

    @NoDefault
    def prepared_steps(self, xs: np.ndarray, us: np.ndarray, following: np.ndarray) -> Callable[[], Any] | None:
        """A function without arguments that writes what `step` returns at xs (N, nx), us (N, nu), as these are then,
        into following (N, nx); None where there is none."""
        ...

    @property
    def acceleration_control(self) -> Any:
        """The map between accelerations, which the sweep has for controls, and the system's own controls, which are an
        output (`dynamics.systems.acceleration_control`, `trajopt.solvers.inverse`)."""
        return None

    @NoDefault
    def parameter_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """d/dpi sum_t lam_t'f(xs_t, us_t; pi) by parameters pi of the system's own, as inertial ones of a robot's
        bodies, in the form that it has them in; xs (N, nx), us (N, nu), lam (N, ndx) of tangents at the next states."""
        ...


# ------------------------------------------------------------------------------------------------ limits
class KnownLimits:
    """Limits of states and controls."""

    @NoDefault
    def state_limits(self, position: bool = True, velocity: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """lower and upper (ndx,) of the tangent at the neutral state, infinite where none is or is asked for."""
        ...

    @NoDefault
    def control_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """lower and upper (nu,), infinite where there are none."""
        ...

    @property
    def control_speeds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """S (nu, n) and w_0 (nu,) of motors: their speeds are S v, v the last n numbers of a state, and at most w_0,
        infinite where it is not known.  Torque times speed is the power that a control brings."""
        return None


# ------------------------------------------------------------------------------------------------ contacts
class Contacts:
    """Frames that are in contact at some knot, and their forces."""

    @property
    def contact_frames(self) -> tuple[str, ...]:
        """Names of the F frames that ever are in contact."""
        return ()

    @NoDefault
    def contact_points(self, xs: np.ndarray) -> np.ndarray:
        """Positions (K, F, 3), m, world axes, of these frames, at any states xs (K, nx)."""
        ...

    @NoDefault
    def contact_forces(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Forces (N, F, 3), N, on the frames at the knots, world axes, zero where a frame is not held."""
        ...


# ------------------------------------------------------------------------------------------------ pictures
class Pictures:
    """What of a motion can be drawn."""

    together: ClassVar = (("solids", "body_placements"),)

    @NoDefault
    def skeleton(self, xs: np.ndarray) -> np.ndarray:
        """Line segments (K, segments, 2, 3), m, at the states xs (K, nx)."""
        ...

    def solids(self, fine: bool = True) -> tuple[Any, ...]:
        """Surfaces, each with `body`, its number or -1 for what never moves, `vertices` (V, 3), m, in the body's axes,
        `faces` (F, 3) of the vertices' numbers, and `color`, four numbers up to 1, or None; few faces unless fine.
        What bends has as `body` (V,), that of each vertex; what legends are to name has a `label`."""
        return ()

    @NoDefault
    def body_placements(self, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotations (K, B, 3, 3) and positions (K, B, 3), m, of the bodies in the world at states xs (K, nx)."""
        ...

    @property
    def scenery(self) -> Any:
        """What never moves, as a rail: line segments (S, 2, 3), m, or a tuple of shapes as a problem's.  Obstacles and
        targets are the problem's (`trajopt.problem.scenery`)."""
        return ()

    @NoDefault
    def center_of_mass(self, xs: np.ndarray) -> np.ndarray:
        """Positions (K, 3), m, world axes."""
        ...

    @NoDefault
    def quantities(self, xs: np.ndarray) -> tuple[tuple[str, tuple[str, ...], np.ndarray], ...]:
        """Panels of a figure against time, where coordinates say little: a label with a unit, the names of n curves,
        their values (K, n) at states xs (K, nx)."""
        ...


CAPABILITIES: tuple[type, ...] = (
    StateManifold, Names, Start, Knots, Steps, Joints, Expansions, KnownLimits, Contacts, Pictures,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------ asking
@cache
def members(kind: type) -> tuple[str, ...]:
    """Names of the members of a group."""
    return tuple(name for name in vars(kind) if not name.startswith("_") and name != "together")


class _Member:
    """A member of a group, of what was asked: its own, or the default of the group where it has none."""

    def __init__(self, name: str, default: Any) -> None:
        self.name, self.default = name, default

    def __get__(self, view: Any, owner: type | None = None) -> Any:
        found = getattr(view._of, self.name, None)
        if found is not None:
            return found
        default = self.default
        return default.__get__(view, owner) if hasattr(default, "__get__") else default


class _WithDefaults:
    """What was asked, with the members of a group; all other attributes are its own."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


@cache
def _with_defaults(kind: type) -> tuple[type, tuple[tuple[str, ...], ...]]:
    """The class of answers of a group, and its members that belong together."""
    own = {name: _Member(name, vars(kind)[name]) for name in members(kind)}
    return type(kind.__name__, (_WithDefaults, kind), own), getattr(kind, "together", ())


def _the_same_in_all(found: Any) -> bool:
    """True for an attribute of a class that no object computes, as a property does: a method or a plain value."""
    return found is not None and (callable(found) or not hasattr(type(found), "__get__"))


@cache
def _own_alone(owner: type, kind: type) -> frozenset[str] | None:
    """The members that belong together in a group, where a class has all or none of those of each set, so that nothing
    but an object's own attributes can leave it with some of them; None where that is to be asked of each object."""
    if hasattr(owner, "__getattr__") or owner.__getattribute__ is not object.__getattribute__:
        return None
    together = _with_defaults(kind)[1]
    for names in together:
        found = [getattr(owner, name, None) for name in names]
        if any(one is not None for one in found) and not all(map(_the_same_in_all, found)):
            return None
    return frozenset(name for names in together for name in names)


def itself(of: Any) -> Any:
    """The object that was asked, for a default that returns it."""
    return of._of if isinstance(of, _WithDefaults) else of


def capability(of: Any, kind: type[C]) -> C:
    """The members of a group of a system, or of a term: its own, and the defaults of those that it lacks.

    Raises TypeError for what has some of the members that belong together, but not all.
    """
    view, together = _with_defaults(kind)
    if together:
        names = _own_alone(type(of), kind)
        if names is not None and names.isdisjoint(getattr(of, "__dict__", ())):
            return view(of)
    for names in together:
        missing = [name for name in names if getattr(of, name, None) is None]
        if missing and len(missing) < len(names):
            has = ", ".join(name for name in names if name not in missing)
            raise TypeError(
                f"system: {type(of).__name__} has {has}, but lacks {', '.join(missing)}, expected all of what belongs "
                f"together in trajopt.capabilities.{kind.__name__}, or nothing of it"
            )
    return view(of)
