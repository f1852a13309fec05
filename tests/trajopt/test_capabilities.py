"""Optional capabilities of systems: one list, one way to ask, and a wrapper that forwards or refuses each of them."""

import ast
import inspect
import pickle
from pathlib import Path

import numpy as np
import pytest

import trajopt
from dynamics import RigidBodySystem
from tests.reference.rigid_body_models import load_reference
from tests.trajopt.systems import CirclePendulum, LinearSystem, Pendulum
from trajopt import ControlCost, ControlRateSystem, Problem, StateCost, capabilities
from trajopt.backward.expansions import write_derivatives
from trajopt.capabilities import CAPABILITIES, Knots, NoDefault, Start, StateManifold, capability, members
from trajopt.interfaces.system import semi_implicit_form, window
from trajopt.interfaces.terms import VectorSpace
from trajopt.problem.extended_system import Refused
from trajopt.problem.lifted_terms import WithControls

N = 3
MEMBERS = {name: kind for kind in CAPABILITIES for name in members(kind)}
REFUSED = {
    name: found.reason
    for name in MEMBERS
    if isinstance(found := inspect.getattr_static(ControlRateSystem, name, None), Refused)
}


def members_of(system):
    return {name for name in MEMBERS if getattr(system, name, None) is not None}


class Everything(CirclePendulum):
    """A pendulum on a circle that has all capabilities but accelerations for controls; knot t has t + 1 times the
    damping."""

    semi_implicit_from, idle = 1, np.array([False, True, False])
    scenery, state_names, control_names = np.ones((2, 2, 3)), ("c", "s", "w"), ("torque",)
    control_units, tangent_units = ("N m",), ("rad", "rad/s")
    integrator_order, implicit_step, single_joints, phase_starts = 1, "midpoint", {"pin": (0, 2)}, np.array([0, 2])
    start_advice = "states on the way"
    plain_tangent, state_space = False, (("so2",), ("euclidean", 1))
    tangent_names, neutral_state, serves = ("angle", "rate"), np.array([1.0, 0.0, 0.0]), (VectorSpace(2),)

    def __init__(self, knots=range(N)):
        super().__init__()
        self.knots, self.horizon, self.durations = list(knots), len(knots), np.full(len(knots), 0.05)

    def acceleration(self, z):
        damping = 0.1 * (1.0 + np.array(self.knots))
        self.damping = damping if len(z) == self.horizon else damping[0]
        return super().acceleration(z)

    def rollout(self, x0, us):
        xs = [x0]
        for t, u in enumerate(us):
            xs.append(self.window(t, t + 1).step(xs[-1], u))
        return np.array(xs)

    def window(self, start, stop):
        return Everything(self.knots[start:stop])

    def refined(self, substeps):
        part = Everything(np.repeat(self.knots, substeps))
        part.dt /= substeps
        return part

    def resimulated(self):
        return self.with_model(1.01)

    def with_model(self, model):
        part = Everything(self.knots)
        part.weight = model
        return part

    def timed(self):
        raise NotImplementedError

    def durations_along(self, xs):
        raise NotImplementedError

    def joint_efforts(self, us):
        return 2.0 * us

    @property
    def joint_feedback(self):
        return np.array([0]), np.array([1]), np.array([[2.0]])

    def joint_inertias(self, xs):
        return 1.0 + np.square(xs[:, :1])

    def check_state(self, xs):
        if not np.allclose(xs[:, 0] ** 2 + xs[:, 1] ** 2, 1.0):
            raise ValueError("the angle is no unit vector")

    def check_start(self, x0):
        if x0[2] > 5.0:
            raise ValueError("x0: too fast to begin with")

    def quasi_static(self, x):
        return self.weight * np.asarray(x)[..., 1:2]

    def difference_with_jacobian(self, x_ref, xs):
        return self.difference(x_ref, xs), self.difference_expansion(x_ref, xs, np.zeros((len(xs), 2)))[0]

    def difference_residual(self, x_ref):
        raise NotImplementedError

    def integrate_jacobian(self, xs):
        J = np.zeros((len(xs), 3, 2))
        J[:, 0, 0], J[:, 1, 0], J[:, 2, 1] = -xs[:, 1], xs[:, 0], 1.0
        return J

    def prepared_integrate(self, xs, dxs, moved):
        return lambda: np.copyto(moved, self.integrate(xs, dxs))

    def prepared_difference(self, x0s, x1s, dx):
        return lambda: np.copyto(dx, self.difference(x0s, x1s))

    def prepared_expansion(self, xs, us, fx, fu, lam=None, *H):
        return lambda: write_derivatives(self, xs, us, fx, fu, lam, *H)

    def prepared_rollouts(self, x0, xs, us, k, K, alphas, *limits):
        return lambda: self.closed_loop_rollout(x0, xs, us, k, K, alphas, None, *limits)

    def prepared_steps(self, xs, us, following):
        return lambda: np.copyto(following, self.step(xs, us))

    def write_expansion(self, xs, us, lam, *outputs):
        found = *self.linearize(xs, us), *self.hessian_products(xs, us, lam)
        for into, part in zip(outputs, found, strict=True):
            into[...] = part

    def parameter_gradient(self, xs, us, lam):
        return np.einsum("ti,ti->i", xs[: len(us), 1:], lam)

    def skeleton(self, xs):
        return super().skeleton(self.chart(xs))

    def solids(self, fine=True):
        return ()

    def body_placements(self, xs):
        return np.ones((len(xs), 1, 3, 3)), xs[:, None, :1] * np.ones(3)

    def contact_points(self, xs):
        return np.ascontiguousarray(xs)[:, None]

    contact_frames = ("foot",)

    def contact_forces(self, xs, us):
        return np.concatenate([xs[: len(us), 1:], us], axis=1)[:, None]

    def center_of_mass(self, xs):
        return 0.5 * xs

    def step_noise(self, xs):
        return 1e-7 * np.abs(xs[1:, 1:])

    def quantities(self, xs):
        return (("twice [m]", ("a",), 2.0 * xs[:, :1]),)

    def state_limits(self, position=True, velocity=True):
        return np.array([-np.inf, -2.0]), np.array([1.0 if position else np.inf, 2.0])

    def control_limits(self):
        return np.array([-3.0]), np.array([4.0])

    @property
    def control_speeds(self):
        return np.array([[2.0]]), np.array([5.0])


@pytest.fixture
def inner():
    return Everything()


@pytest.fixture
def trajectory(inner, rng):
    """Of the system with control rates: zs (N+1, 4), us (N, 1)."""
    us = rng.standard_normal((N, 1))
    return ControlRateSystem(inner).rollout(np.r_[inner.embed(np.array([0.4, -0.3])), 0.7], us), us


def expansion_of(system, xs, us, lam):
    shapes = [(N, system.ndx, system.ndx), (N, system.ndx, 1)]
    arrays = [np.full(shape, np.nan) for shape in (*shapes, shapes[0], (N, 1, system.ndx), (N, 1, 1))]
    system.write_expansion(xs, us, lam, *arrays)
    return arrays


def embedded(blocks, system):
    """Blocks of the inner system as those of F(z, u) = (f(x, u), u)."""
    n, m = system.ndx, system.nu
    wide = [np.zeros(shape) for shape in ((N, n + m, n + m), (N, n + m, m), (N, n + m, n + m), (N, m, n + m))]
    for into, block in zip(wide, blocks, strict=False):
        into[tuple(map(slice, block.shape))] = block
    wide[1][:, n:] = np.eye(m)
    return [*wide, blocks[4]]


def same_window(wrapper, inner, zs, xs, us):
    for t in range(N):
        part = wrapper.window(t, t + 1)
        yield part.durations, inner.durations[t : t + 1]
        yield part.step(zs[t], us[t])[:3], inner.step(xs[:-1], us)[t]


def same_finer(wrapper, inner, zs, xs, us):
    fine, held = wrapper.refined(2), np.repeat(us, 2, axis=0)
    yield fine.dt, inner.dt / 2
    yield fine.rollout(zs[0], held)[:, :3], inner.refined(2).rollout(xs[0], held)


def same_other(wrapper, inner, zs, xs, us):
    yield wrapper.with_model(3.0).step(zs[:-1], us)[:, :3], inner.with_model(3.0).step(xs[:-1], us)


def same_expansion(wrapper, inner, zs, xs, us):
    lam = np.arange(3.0 * N).reshape(N, 3)
    wanted = embedded(expansion_of(inner, xs, us, np.ascontiguousarray(lam[:, :2])), inner)
    by_parts = *wrapper.linearize(zs, us), *wrapper.hessian_products(zs, us, lam)
    for got, expected, apart in zip(expansion_of(wrapper, zs, us, lam), wanted, by_parts, strict=True):
        yield got, expected
        yield got, apart


def same_difference(wrapper, inner, zs, xs, us):
    r, J = wrapper.difference_with_jacobian(zs[0], zs)
    yield r, wrapper.difference(np.tile(zs[0], (N + 1, 1)), zs)
    yield r[:, :2], inner.difference_with_jacobian(xs[0], xs)[0]
    yield J, wrapper.difference_expansion(zs[0], zs, np.zeros_like(r))[0]


def same_prepared_difference(wrapper, inner, zs, xs, us):
    dz, dx = np.zeros((N, 3)), np.zeros((N, 2))
    wrapper.prepared_difference(zs[:-1], zs[1:], dz)()
    inner.prepared_difference(xs[:-1], xs[1:], dx)()
    yield dz, wrapper.difference(zs[:-1], zs[1:])
    yield dz[:, :2], dx


def same_prepared_integration(wrapper, inner, zs, xs, us):
    moved, y, dz = np.zeros((N, 4)), np.zeros((N, 3)), 0.1 * np.arange(3.0 * N).reshape(N, 3)
    wrapper.prepared_integrate(zs[:-1], dz, moved)()
    inner.prepared_integrate(xs[:-1], dz[:, :2], y)()
    yield moved, wrapper.integrate(zs[:-1], dz)
    yield moved[:, :3], y


def same_prepared_steps(wrapper, inner, zs, xs, us):
    following = np.zeros((N, 4))
    wrapper.prepared_steps(zs[:-1], us, following)()
    yield following, wrapper.step(zs[:-1], us)
    yield following[:, :3], inner.step(xs[:-1], us)


def same_prepared_rollouts(wrapper, inner, zs, xs, us):
    """None, for rollouts of the system inside take no feedback to the knot before."""
    yield wrapper.prepared_rollouts(zs[0], zs, us, us, np.ones((N, 1, 3)), np.ones(1)) is None, True


def same_prepared_expansion(wrapper, inner, zs, xs, us):
    lam, shapes = np.arange(3.0 * N).reshape(N, 3), ((3, 3), (3, 1), (3, 3), (1, 3), (1, 1))
    blocks, first = ([np.full((N, *shape), np.nan) for shape in kind] for kind in (shapes, shapes[:2]))
    wrapper.prepared_expansion(zs, us, *blocks[:2], lam, *blocks[2:])()
    wrapper.prepared_expansion(zs, us, *first)()
    yield from zip(blocks, expansion_of(wrapper, zs, us, lam), strict=True)
    yield from zip(first, blocks[:2], strict=True)


def same_jacobian(wrapper, inner, zs, xs, us):
    J = wrapper.integrate_jacobian(zs)
    yield J[:, :3, :2], inner.integrate_jacobian(xs)
    yield J[:, 3, 2], np.ones(N + 1)
    yield np.count_nonzero(J), np.count_nonzero(J[:, :3, :2]) + N + 1


def same_refusal(name, bad):
    def pairs(wrapper, inner, zs, xs, us):
        with pytest.raises(ValueError) as wanted:
            getattr(inner, name)(bad)
        with pytest.raises(ValueError) as got:
            getattr(wrapper, name)(np.concatenate([bad, np.ones((*bad.shape[:-1], 1))], axis=-1))
        getattr(wrapper, name)(zs if bad.ndim == 2 else zs[0])
        assert str(got.value) == str(wanted.value)
        return ()

    return pairs


def same(name):
    return lambda wrapper, inner, *_: [(getattr(wrapper, name), getattr(inner, name))]


SAME = {
    "check_state": same_refusal("check_state", np.array([[1.0, 1.0, 0.0]])),
    "check_start": same_refusal("check_start", np.array([1.0, 0.0, 6.0])),
    "quasi_static": lambda w, i, zs, xs, us: [(w.quasi_static(zs[0]), i.quasi_static(xs[0]))],
    "difference_with_jacobian": same_difference,
    "prepared_difference": same_prepared_difference,
    "prepared_integrate": same_prepared_integration,
    "prepared_steps": same_prepared_steps,
    "prepared_expansion": same_prepared_expansion,
    "prepared_rollouts": same_prepared_rollouts,
    "integrate_jacobian": same_jacobian,
    "window": same_window,
    "refined": same_finer,
    "resimulated": lambda w, i, zs, xs, us: [
        (w.resimulated().step(zs[:-1], us)[:, :3], i.resimulated().step(xs[:-1], us))
    ],
    "with_model": same_other,
    "single_joints": same("single_joints"),
    "joint_efforts": lambda w, i, zs, xs, us: [(w.joint_efforts(us), i.joint_efforts(us))],
    "joint_feedback": lambda w, i, *_: list(zip(w.joint_feedback, i.joint_feedback, strict=True)),
    "joint_inertias": lambda w, i, zs, xs, us: [(w.joint_inertias(zs), i.joint_inertias(xs))],
    "integrator_order": same("integrator_order"),
    "implicit_step": lambda w, i, *_: [(w.implicit_step, i.implicit_step)],
    "write_expansion": same_expansion,
    "parameter_gradient": lambda w, i, zs, xs, us: [
        (w.parameter_gradient(zs, us, np.ones((N, 3))), i.parameter_gradient(xs, us, np.ones((N, 2))))
    ],
    "skeleton": lambda w, i, zs, xs, us: [(w.skeleton(zs), i.skeleton(xs))],
    "solids": lambda w, i, *_: [(len(w.solids(fine=False)), len(i.solids(fine=False)))],
    "body_placements": lambda w, i, zs, xs, us: list(zip(w.body_placements(zs), i.body_placements(xs), strict=True)),
    "contact_points": lambda w, i, zs, xs, us: [(w.contact_points(zs), i.contact_points(xs))],
    "contact_forces": lambda w, i, zs, xs, us: [(w.contact_forces(zs, us), i.contact_forces(xs, us))],
    "contact_frames": same("contact_frames"),
    "center_of_mass": lambda w, i, zs, xs, us: [(w.center_of_mass(zs), i.center_of_mass(xs))],
    "step_noise": lambda w, i, zs, xs, us: [(w.step_noise(zs), np.hstack([i.step_noise(xs), np.zeros((N, 1))]))],
    "quantities": lambda w, i, zs, xs, us: [(w.quantities(zs)[0][2], i.quantities(xs)[0][2])],
    "state_names": lambda w, i, *_: [(w.state_names, (*i.state_names, "torque before"))],
    "tangent_names": lambda w, i, *_: [(w.tangent_names, (*i.tangent_names, "torque before"))],
    "tangent_units": lambda w, i, *_: [(w.tangent_units, (*i.tangent_units, ""))],
    "serves": lambda w, i, *_: [(w.serves == tuple(WithControls(s, 1) for s in i.serves), True)],
    "state_space": lambda w, i, *_: [(w.state_space == (*i.state_space, ("euclidean", 1)), True)],
    "neutral_state": lambda w, i, *_: [(w.neutral_state, [*i.neutral_state, 0.0])],
    "state_limits": lambda w, i, *_: [
        (w.state_limits(), [[-np.inf, -2.0, -np.inf], [1.0, 2.0, np.inf]]),
        (w.state_limits(position=False)[1], [np.inf, 2.0, np.inf]),
    ],
    "control_limits": lambda w, i, *_: [(w.control_limits(), i.control_limits())],
    "control_speeds": lambda w, i, *_: [(w.control_speeds[0], [[2.0, 0.0]]), (w.control_speeds[1], [5.0])],
    "horizon": same("horizon"),
    "durations": same("durations"),
    "phase_starts": same("phase_starts"),
    "start_advice": same("start_advice"),
    "scenery": same("scenery"),
    "control_names": same("control_names"),
    "euclidean": same("euclidean"),
    "plain_tangent": same("plain_tangent"),
    "difference_expansion": lambda w, i, zs, xs, us: [
        (a[:, :2, :2], b)
        for a, b in zip(w.difference_expansion(zs[0], zs, np.ones((N + 1, 3))),
                        i.difference_expansion(xs[0], xs, np.ones((N + 1, 2))), strict=True)
    ],
}  # fmt: skip
"""For every member that is forwarded: pairs of equal numbers."""


def test_the_list_is_whole():
    """Every group is in it, no member is in two, and the system of these tests has all."""
    named = [pair for pair in inspect.getmembers(capabilities, inspect.isclass) if not pair[0].startswith("_")]
    kinds = [kind for _, kind in named if kind.__module__ == capabilities.__name__ and kind is not NoDefault]
    assert set(kinds) == set(CAPABILITIES) and len(CAPABILITIES) <= 10
    assert len(MEMBERS) == sum(len(members(kind)) for kind in CAPABILITIES)
    assert set(MEMBERS) - members_of(Everything()) == {"acceleration_control"}


def test_defaults_do_nothing():
    """Whoever asks a system that has the eight members alone is given defaults, which are those of a plain system."""
    plain = LinearSystem(np.eye(2), np.eye(2))
    states, knots, x = capability(plain, StateManifold), capability(plain, Knots), np.ones(2)
    assert not members_of(plain) - {"difference_expansion"}
    assert states.euclidean and not states.plain_tangent and states.serves == () and states.check_state is None
    assert np.array_equal(states.neutral_state, [0.0, 0.0]) and capability(plain, Start).check_start(x) is None
    assert knots.horizon is None and knots.window(2, 3) is plain and knots.durations == plain.dt
    for kind in CAPABILITIES:
        for name in members(kind):
            getattr(capability(plain, kind), name)


def test_every_member_is_forwarded_or_refused():
    """Who adds a capability decides what becomes of it, and adds numbers that are to be the same."""
    assert set(SAME) | set(REFUSED) == set(MEMBERS) and not set(SAME) & set(REFUSED)


@pytest.mark.parametrize("name", SAME)
def test_what_is_forwarded_has_the_same_numbers(name, inner, trajectory):
    zs, us = trajectory
    wrapper, xs = ControlRateSystem(inner), np.ascontiguousarray(zs[:, :3])
    for system in (wrapper, pickle.loads(pickle.dumps(wrapper))):
        for got, wanted in SAME[name](system, inner, zs, xs, us):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name, inner):
    if name == "acceleration_control":
        model, _ = load_reference("ur5")
        with pytest.raises(ValueError, match='takes accelerations for controls, expected one with formulation="f'):
            ControlRateSystem(RigidBodySystem(model, 0.02, formulation="inverse"))
        return
    wrapper = ControlRateSystem(inner)
    with pytest.raises(AttributeError) as error:
        getattr(wrapper, name)
    assert REFUSED[name] in str(error.value) and name not in members_of(wrapper)


def test_what_the_system_inside_lacks_its_wrapper_lacks():
    wrapper = ControlRateSystem(LinearSystem(np.eye(2), np.eye(2)))
    assert members_of(wrapper) == {"euclidean", "difference_expansion", "write_expansion"} and wrapper.euclidean
    with pytest.raises(AttributeError, match="ControlRateSystem has no 'skeleton', nor has the system inside"):
        _ = wrapper.skeleton
    twice = ControlRateSystem(ControlRateSystem(Everything()))
    assert twice.state_names == ("c", "s", "w", "torque before", "torque before")
    assert semi_implicit_form(twice) == (0.0, 0) and window(twice, 1, 2).horizon == 1


def test_problems_ask_for_what_is_forwarded(inner):
    wrapper = ControlRateSystem(inner)
    start = np.r_[inner.embed(np.array([0.4, 0.0])), 0.0]
    problem = Problem(wrapper, start, N, [ControlCost(1.0)], us_init="quasi_static")
    np.testing.assert_array_equal(problem.us_init, np.tile(inner.quasi_static(start[:3]), (N, 1)))
    with pytest.raises(ValueError, match="x0: too fast to begin with"):
        Problem(wrapper, start + [0.0, 0.0, 6.0, 0.0], N)
    with pytest.raises(ValueError, match="horizon: got 4, expected 3, which the phases fill"):
        Problem(wrapper, start, N + 1)
    solution = trajopt.DDP().solve(Problem(wrapper, start, N, [ControlCost(1.0)], [StateCost(wrapper, start, 1.0)]))
    assert solution.converged


def test_half_a_capability_is_an_error():
    half = Pendulum()
    half.horizon = 4
    assert capability(half, Start).quasi_static is None
    for ask in (lambda: capability(half, Knots), lambda: Problem(half, [0.0, 0.0], 4)):
        with pytest.raises(TypeError, match="Pendulum has horizon, but lacks window, expected all of what"):
            ask()


def test_an_object_may_take_what_its_class_has():
    whole = Everything()
    assert capability(whole, Knots).horizon == N
    whole.window = None
    with pytest.raises(TypeError, match="Everything has horizon, but lacks window"):
        capability(whole, Knots)
    assert capability(Everything(), Knots).horizon == N


def test_nobody_asks_in_another_way():
    """No getattr or hasattr with the name of an optional member in the package, but where members are asked for."""
    root, found = Path(trajopt.__file__).parent, []
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name("getattr" | "hasattr"), args=[_, ast.Constant(name), *_]):
                    found += [f"{file.name}:{node.lineno}"] if name in MEMBERS else []
    assert not found
