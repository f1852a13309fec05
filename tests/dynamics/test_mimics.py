"""Mimic joints: the full model's numbers projected, dense systems, differences, and Pinocchio where it can."""

import dataclasses
import pickle

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import (
    FreeFlyer,
    HybridSystem,
    ModelBuilder,
    PointContact,
    Prismatic,
    Revolute,
    RigidBodySystem,
    Spherical,
)
from dynamics.model.edits import builder_of
from dynamics.simd.squares import KnotSum, ResidualWeights
from tests.reference.complex_dynamics import STEP as COMPLEX
from tests.reference.complex_dynamics import Point, Robot
from tests.reference.prepared import PreparedSystem, replay
from tests.reference.random_robots import random_inertia, random_rotation, random_states
from tests.reference.robot_systems import model_slopes
from tests.tolerances import CENTRAL_DIFFERENCES, CONTRACTED, IDENTITY, ORACLE, SLOPE, relative_error
from trajopt.problem.jerk import JerkSystem

STEP = 1e-5
MIMICS = (("thumb", "index", -0.7, 0.2), ("ring", "thumb", 1.5, -0.1), ("slide", "wrist", 0.3, 0.05))


def hand_builder(rng, floating=True):
    """A palm on a wrist, and fingers; a ring that mimics a thumb that mimics an index, a slide that mimics a wrist."""
    builder = ModelBuilder(gravity=(0.5, -1.0, -9.0), name="hand")
    kinds = {
        "base": FreeFlyer() if floating else Revolute("z"), "wrist": Revolute((0, 1, 1)), "ball": Spherical(),
        "index": Revolute("x"), "thumb": Prismatic((1, 0, 1)), "ring": Revolute("y"), "slide": Prismatic("y"),
    }  # fmt: skip
    parents = {"base": "world", "wrist": "base", "ball": "wrist", "index": "wrist", "thumb": "ball", "ring": "index",
               "slide": "thumb"}  # fmt: skip
    for name, kind in kinds.items():
        if name == "ball" and not floating:
            kind = Revolute("x")
        mass, com, inertia = random_inertia(rng)
        builder.add_body(
            f"{name} link", "world" if parents[name] == "world" else f"{parents[name]} link", kind, name,
            placement=(random_rotation(rng), rng.uniform(-0.3, 0.3, 3)), mass=mass, com=com, inertia=inertia,
            armature=0.1, **({"lower": -2.0, "upper": 2.0} if kind.nv == 1 else {}),
        )  # fmt: skip
    builder.add_frame("tip", "slide link", (random_rotation(rng), rng.uniform(-0.2, 0.2, 3)))
    for joint, source, multiplier, offset in MIMICS:
        builder.add_mimic(joint, source, multiplier, offset)
    return builder


@pytest.fixture(scope="module")
def hand():
    return hand_builder(np.random.default_rng(3)).build()


def moved(model, q, k, step):
    d = np.zeros(model.nv)
    d[k] = step
    return dynamics.integrate(model, q, d)


def slopes_in_q(f, model, q):
    """df/dq along the tangent, its axis last."""
    pairs = [(f(moved(model, q, k, STEP)), f(moved(model, q, k, -STEP))) for k in range(model.nv)]
    return np.stack([(np.asarray(a) - b) / (2 * STEP) for a, b in pairs], axis=-1)


def slopes_in(f, x):
    return np.stack([(np.asarray(f(x + d)) - f(x - d)) / (2 * STEP) for d in STEP * np.eye(len(x))], axis=-1)


def symmetric(A):
    return 0.5 * (A + A.T)


# ------------------------------------------------------------------------------------------------ the robot
def test_coordinates_of_independent_joints(hand, rng):
    assert hand.joint_names == ("base", "wrist", "ball", "index") and (hand.nq, hand.nv) == (13, 11)
    assert hand.full.joint_names == ("base", "wrist", "ball", "thumb", "slide", "index", "ring")
    q = dynamics.random_configuration(hand, rng)
    whole = hand.full_configuration(q)
    at = {name: whole[i] for name, i in zip(hand.full.joint_names, hand.full.q_index, strict=True)}
    assert at["index"] == q[12] and at["wrist"] == q[7]
    assert at["thumb"] == pytest.approx(-0.7 * q[12] + 0.2)
    assert at["ring"] == pytest.approx(1.5 * at["thumb"] - 0.1) and at["slide"] == pytest.approx(0.3 * q[7] + 0.05)
    np.testing.assert_array_equal(whole[:7], q[:7])
    v = rng.normal(size=hand.nv)
    there = dynamics.integrate(hand.full, whole, 1e-6 * hand.full_velocity(v))
    np.testing.assert_allclose(hand.full_configuration(dynamics.integrate(hand, q, 1e-6 * v)), there, atol=1e-15)
    assert hand.full_configuration(np.stack([q, q])).shape == (2, 16)
    assert hand.total_mass == hand.full.total_mass and hand.frame_names == hand.full.frame_names
    with pytest.raises(ValueError, match=r"q: got shape \(16,\), expected \(..., 13\)"):
        hand.full_configuration(whole)


def test_limits_keep_mimic_joints_within_theirs():
    builder = ModelBuilder()
    rod = {"mass": 1.0, "com": (0.1, 0, 0), "inertia": np.eye(3)}
    builder.add_body("a", "world", Revolute("z"), "lead", **rod, lower=-1.0, upper=1.0, velocity=2.0, effort=3.0)
    builder.add_body("b", "a", Revolute("z"), "f", **rod, lower=-0.5, upper=0.6, velocity=1.0, effort=9.0, damping=0.1)
    builder.add_mimic("f", "lead", -2.0, 0.2)
    model = builder.build()
    np.testing.assert_allclose([model.lower_position, model.upper_position], [[-0.2], [0.35]])
    assert model.velocity_limit == [0.5] and model.effort_limit == [3.0] and model.damping == [0.4]
    builder = ModelBuilder()
    builder.add_body("a", "world", Revolute("z"), "lead", **rod, lower=0.5, upper=1.0)
    builder.add_body("b", "a", Revolute("z"), "f", **rod, lower=-0.5, upper=0.0)
    builder.add_mimic("f", "lead")
    with pytest.warns(UserWarning, match="limits of mimic joints of 'lead' would leave no room and are not taken"):
        model = builder.build()
    assert model.lower_position == [0.5] and model.upper_position == [1.0]


def test_locks(hand):
    """A source takes its mimic joints with it, a mimic joint its source."""
    held = hand.locked({"wrist": 0.5})
    assert held.joint_names == ("base", "ball", "index") and held.full.joint_names[-2:] == ("index", "ring")
    assert hand.locked({"thumb": 0.2}).joint_names == ("base", "wrist", "ball")
    assert hand.locked({"thumb": 0.2}).mimics == (dynamics.Mimic("slide", "wrist", 0.3, 0.05),)
    assert hand.locked({"index": 0.0, "ring": 0.2}).joint_names == ("base", "wrist", "ball")
    with pytest.raises(ValueError, match=r"lock: joint 'ring': got 0.3, but joints that it is tied to fix it at \[0.2"):
        hand.locked({"index": 0.0, "ring": 0.3})
    with pytest.raises(ValueError, match=r"lock: joint 'thumb': got \[2.1"):
        hand_builder(np.random.default_rng(3)).lock_joint("thumb", 2.1)
    assert hand.locked(keep=["base", "ring"]).joint_names == ("base", "index")


def test_edits_keep_mimic_joints(hand, rng):
    again = builder_of(hand).build()
    assert again.mimics == hand.mimics and again.joint_names == hand.joint_names
    q, v, a = (x[0] for x in random_states(hand, 1, rng))
    tau = [dynamics.inverse_dynamics(model, q, v, a) for model in (again, hand)]
    assert relative_error(*tau) < IDENTITY
    assert pickle.loads(pickle.dumps(hand)) == hand
    assert hand != hand.full and hand.full == hand.full.full
    pair = dynamics.combine({"l": hand, "r": hand})
    assert pair.nv == 22 and pair.mimics[2].renamed("") == dynamics.Mimic("l/slide", "l/wrist", 0.3, 0.05)
    loaded = hand.with_body("load", "tip", mass=0.5, com=(0, 0, 0.1))
    assert loaded.mimics == hand.mimics and loaded.total_mass == pytest.approx(hand.total_mass + 0.5)
    ball = dynamics.Geometry("ball", "slide link", hand.full.joint_names.index("slide"), dynamics.Sphere(0.1))
    seen = hand.with_geometries([ball])
    assert seen.full.geometries == seen.geometries == (ball,)
    q = dynamics.random_configuration(hand, rng)
    places = {"base": 0, "ring": 6}
    others = [dataclasses.replace(ball, name=name, link=f"{name} link", body=i) for name, i in places.items()]
    found = dynamics.collision_pairs(seen.with_geometries([ball, *others]), sample=5)
    assert len(found.pairs) + len(found.dropped) == 3
    system = RigidBodySystem(seen, 0.01)
    assert system.body_placements(system.state(q)[None])[0].shape == (1, 7, 3, 3)
    np.testing.assert_array_equal(
        system.skeleton(system.state(q)[None]), dynamics.skeleton(hand.full, hand.full_configuration(q))
    )


# ------------------------------------------------------------------------------------------------ functions
def test_inverse_dynamics_is_projected(hand, rng):
    G, whole = hand.mimic_map.G, hand.full
    q, v, a, w = (x[0] for x in random_states(hand, 1, rng, 3))
    Q, V, A, W = hand.full_configuration(q), G @ v, G @ a, G @ w
    load = {"tip": [1.0, 2.0, 3.0, 0.1, 0.2, 0.3]}
    cases = {
        "inverse_dynamics": ((v, a, load), (V, A, load), ("f",)),
        "bias_forces": ((v,), (V,), ("f",)), "gravity_forces": ((), (), ("f",)), "mass_matrix": ((), (), ("ff",)),
        "kinetic_energy": ((v,), (V,), ("",)), "potential_energy": ((), (), ("",)), "center_of_mass": ((), (), ("",)),
        "center_of_mass_jacobian": ((), (), ("-f",)), "frame_jacobian": (("tip",), ("tip",), ("-f",)),
        "frame_velocity": ((v, "tip"), (V, "tip"), ("",)), "frame_acceleration": ((v, a, "tip"), (V, A, "tip"), ("",)),
        "inverse_dynamics_derivatives": ((v, a, load), (V, A, load), ("ff",) * 3),
        "inverse_dynamics_hessian": ((v, a, w), (V, A, W), ("ff",) * 4),
        "inverse_dynamics_second_derivatives": ((v, a), (V, A), ("fff",) * 4),
        "inverse_dynamics_regressor": ((v, a), (V, A), ("f-",)),
    }  # fmt: skip
    for name, (ours, theirs, axes) in cases.items():
        function = getattr(dynamics, name)
        found, expected = function(hand, q, *ours), function(whole, Q, *theirs)
        several = isinstance(found, tuple)
        for x, y, kinds in zip(found if several else [found], expected if several else [expected], axes, strict=True):
            for axis, kind in enumerate(kinds, -len(kinds)):
                if kind == "f":
                    y = np.apply_along_axis(lambda column: G.T @ column, axis, y)
            assert relative_error(x, y) < IDENTITY, name
        batch = function(hand, np.stack([q, q]), *ours)
        assert relative_error((batch[0] if several else batch)[1], found[0] if several else found) < IDENTITY, name
    np.testing.assert_array_equal(dynamics.inertial_parameters(hand), dynamics.inertial_parameters(whole))


def test_forward_dynamics_against_differences(hand, rng):
    q, v, a, w = (x[0] for x in random_states(hand, 1, rng, 3))
    load = {"tip": [1.0, 2.0, 3.0, 0.1, 0.2, 0.3]}
    tau = dynamics.inverse_dynamics(hand, q, v, a, load)
    assert relative_error(dynamics.forward_dynamics(hand, q, v, tau, load), a) < ORACLE
    found = dynamics.forward_dynamics_derivatives(hand, q, v, tau, load)
    forward = lambda q=q, v=v, tau=tau: dynamics.forward_dynamics(hand, q, v, tau, load)  # noqa: E731
    assert relative_error(found.da_dq, slopes_in_q(lambda q: forward(q=q), hand, q)) < CENTRAL_DIFFERENCES
    assert relative_error(found.da_dv, slopes_in(lambda v: forward(v=v), v)) < CENTRAL_DIFFERENCES
    assert relative_error(found.da_dtau, dynamics.inverse_mass_matrix(hand, q)) < ORACLE
    H = dynamics.forward_dynamics_hessian(hand, q, v, tau, w, load)
    rows = lambda q=q, v=v: dynamics.forward_dynamics_derivatives(hand, q, v, tau, load)  # noqa: E731
    Hqq = slopes_in_q(lambda q: w @ rows(q=q).da_dq, hand, q)
    assert relative_error(H.Hqq, Hqq) < CENTRAL_DIFFERENCES
    assert relative_error(H.Hqv, slopes_in(lambda v: w @ rows(v=v).da_dq, v)) < CENTRAL_DIFFERENCES
    assert relative_error(H.Hvv, slopes_in(lambda v: w @ rows(v=v).da_dv, v)) < CENTRAL_DIFFERENCES
    assert relative_error(H.Hqtau.T, slopes_in_q(lambda q: w @ rows(q=q).da_dtau, hand, q)) < CENTRAL_DIFFERENCES
    T = dynamics.forward_dynamics_second_derivatives(hand, q, v, tau, load)
    assert relative_error(np.einsum("i,ijk", w, T.d2a_dqdq), H.Hqq) < 1e2 * CONTRACTED
    assert relative_error(np.einsum("i,ijk", w, T.d2a_dqdtau), H.Hqtau) < 1e2 * CONTRACTED


class Independent(Robot):
    """The complex robot of all joints, in the coordinates of the independent ones."""

    def __init__(self, model, q, point, reference):
        self.G = model.mimic_map.G
        super().__init__(model.full, model.full_configuration(q), point._replace(dq=self.G @ point.dq), reference)

    def inverse_dynamics(self, v, a):
        return self.G.T @ super().inverse_dynamics(self.G @ v, self.G @ a)


@pytest.mark.parametrize("reference", ["local", "local_world_aligned"])
@pytest.mark.parametrize("mode", ["inverse", "forward", "hybrid"])
def test_derivatives_along_parameters_against_complex_steps(hand, mode, reference, rng):
    """Everything changes at once, along three directions; and the values that change."""
    n, nb = hand.nv, hand.nb
    q, v, a, tau = (x[0] for x in random_states(hand, 1, rng, 3))
    loads = {"tip": rng.uniform(-2, 2, 6), "ring link": rng.uniform(-2, 2, 6)}
    chosen = {"inverse": np.ones(n, bool), "forward": np.zeros(n, bool)}.get(mode, np.arange(n) % 3 == 0)
    nothing = np.zeros(n), np.zeros((nb, 10)), np.zeros((nb, 6))
    here = Point(nothing[0], v, a, tau, *nothing[1:], loads)
    values = dynamics.hybrid_dynamics(hand, q, v, a, tau, chosen, loads, reference)
    expected = Independent(hand, q, here, reference).hybrid_dynamics(v, a, tau, chosen)
    for x, y in zip(values, expected, strict=True):
        assert relative_error(x, y.real) < ORACLE
    dq, dv, da, dtau = rng.uniform(-2, 2, (4, 3, n))
    inertial, placement = rng.uniform(-2, 2, (3, nb, 10)), rng.uniform(-2, 2, (3, nb, 6))
    dloads = {"tip": rng.uniform(-2, 2, (3, 6))}
    given = {
        "inverse": {"a": a, "da": da}, "forward": {"tau": tau, "dtau": dtau},
        "hybrid": {"a": a, "da": da, "tau": tau, "dtau": dtau, "prescribed": chosen},
    }[mode]  # fmt: skip
    found = dynamics.parameter_derivatives(
        hand, q, v, external_wrenches=loads, wrench_reference=reference, dq=dq, dv=dv, inertial=inertial,
        placement=placement, wrenches=dloads, **given,
    )  # fmt: skip
    for k in range(3):
        moved = {name: x + 1j * COMPLEX * dloads.get(name, np.zeros((3, 6)))[k] for name, x in loads.items()}
        ends = (dq, v + 1j * COMPLEX * dv[k], a + 1j * COMPLEX * da[k], tau + 1j * COMPLEX * dtau[k])
        there = Point(1j * COMPLEX * dq[k], *ends[1:], 1j * COMPLEX * inertial[k], 1j * COMPLEX * placement[k], moved)
        robot = Independent(hand, q, there, reference)
        for x, y in zip(found, robot.hybrid_dynamics(*ends[1:], chosen), strict=True):
            assert relative_error(x[k], y.imag / COMPLEX) < ORACLE
    one = dynamics.parameter_derivatives(hand, q, v, **{name: x for name, x in given.items() if name[0] != "d"})
    assert one.a.shape == one.tau.shape == (n,) and not one.a.any() and not one.tau.any()


def test_contact_dynamics_against_a_dense_system(hand, rng):
    """[M J'; J 0] of the independent coordinates, and derivatives against differences."""
    held = [PointContact(hand, "tip", gains=(0.0, 20.0))]
    q, v, tau, w = (x[0] for x in random_states(hand, 1, rng, 3))
    found = dynamics.contact_dynamics(hand, q, v, tau, held)
    M, J = dynamics.mass_matrix(hand, q), dynamics.frame_jacobian(hand, q, "tip")[:3]
    drift = dynamics.frame_acceleration(hand, q, v, 0 * v, "tip")[:3] + 20.0 * J @ v
    K = np.block([[M, -J.T], [J, np.zeros((3, 3))]])
    z = np.linalg.solve(K, np.concatenate([tau - dynamics.bias_forces(hand, q, v), -drift]))
    assert relative_error(found.a, z[:11]) < ORACLE and relative_error(found.f, z[11:][None]) < ORACLE
    of = lambda q=q, v=v, tau=tau: dynamics.contact_dynamics(hand, q, v, tau, held)  # noqa: E731
    D = dynamics.contact_dynamics_derivatives(hand, q, v, tau, held)
    for kind, shape in (("a", (11,)), ("f", (1, 3))):
        by_q = slopes_in_q(lambda q: getattr(of(q=q), kind), hand, q)  # noqa: B023
        by_tau = slopes_in(lambda tau: getattr(of(tau=tau), kind), tau)  # noqa: B023
        assert getattr(D, f"d{kind}_dq").shape == (*shape, 11)
        assert relative_error(getattr(D, f"d{kind}_dq"), by_q) < CENTRAL_DIFFERENCES
        assert relative_error(getattr(D, f"d{kind}_dtau"), by_tau) < CENTRAL_DIFFERENCES
    w_f = rng.normal(size=(1, 3))
    first = lambda q: dynamics.contact_dynamics_derivatives(hand, q, v, tau, held)  # noqa: E731
    H = dynamics.contact_dynamics_hessian(hand, q, v, tau, held, w, w_f)
    Hqq = slopes_in_q(lambda q: w @ first(q).da_dq + w_f[0] @ first(q).df_dq[0], hand, q)
    assert relative_error(symmetric(H.Hqq), symmetric(Hqq)) < CENTRAL_DIFFERENCES
    hit = dynamics.contact_impulse(hand, q, v, held)
    jump = np.linalg.solve(K, np.concatenate([M @ v, np.zeros(3)]))
    assert relative_error(hit.v, jump[:11]) < ORACLE and relative_error(hit.f, jump[11:][None]) < ORACLE
    by_v = slopes_in(lambda v: dynamics.contact_impulse(hand, q, v, held).v, v)
    assert relative_error(dynamics.contact_impulse_derivatives(hand, q, v, held).dv_dv, by_v) < CENTRAL_DIFFERENCES


@pytest.mark.peer
def test_values_against_pinocchio(rng, tmp_path):
    """Its own mimic joints; derivatives it refuses."""
    pin = pytest.importorskip("pinocchio")
    from tests.dynamics.test_urdf import joint, link, robot

    limits = '<axis xyz="1 2 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>'
    follow = (limits + '<mimic joint="{}" multiplier="{}" offset="{}"/>').format
    text = robot(
        *(link(name) for name in "abcde"),
        joint("j", "a", "b", inner=limits),
        joint("k", "b", "c", inner=follow("j", -0.6, 0.3)),
        joint("l", "b", "d", "prismatic", limits),
        joint("m", "d", "e", "prismatic", follow("l", 2.0, -0.1)),
    )
    model, peer = dynamics.load_urdf(text), pin.buildModelFromXML(text, mimic=True)
    data = peer.createData()
    assert dynamics.from_pinocchio(peer).mimics == model.mimics and model.nv == peer.nv == 2
    for q, v, a in zip(*random_states(model, 3, rng), strict=True):
        tau = pin.rnea(peer, data, q, v, a)
        assert relative_error(dynamics.inverse_dynamics(model, q, v, a), tau) < ORACLE
        assert relative_error(dynamics.inverse_dynamics(dynamics.from_pinocchio(peer), q, v, a), tau) < ORACLE


@pytest.mark.peer
@pytest.mark.parametrize("composed", [False, True])
def test_helical_joints_of_pinocchio(composed, rng):
    """A turn and a slide that mimics it by the pitch: torques, places, and derivatives; these not of composite joints,
    where those of Pinocchio 4.0 are not what differences of its torques say."""
    pin = pytest.importorskip("pinocchio")
    pin.seed(0)
    axis = np.array([1.0, -2.0, 2.0]) / 3.0
    composite = pin.JointModelComposite(pin.JointModelRX(), pin.SE3.Random())
    composite.addJoint(pin.JointModelHY(-1.0), pin.SE3.Random())
    joints = [
        pin.JointModelFreeFlyer(), pin.JointModelHX(0.3), pin.JointModelRZ(), pin.JointModelHY(-0.2),
        pin.JointModelHZ(0.0), pin.JointModelHelicalUnaligned(axis, 0.15), *([composite] if composed else []),
    ]  # fmt: skip
    peer, parent = pin.Model(), 0
    for i, joint in enumerate(joints):
        parent = peer.addJoint(1 if i == 4 else parent, joint, pin.SE3.Random(), f"j{i}")
        peer.appendBodyToJoint(parent, pin.Inertia(*random_inertia(rng)), pin.SE3.Random())
    peer.addFrame(pin.Frame("tip", parent, 0, pin.SE3.Random(), pin.FrameType.OP_FRAME))
    peer.armature = rng.uniform(0.1, 1.0, peer.nv)
    model, data = dynamics.from_pinocchio(peer), peer.createData()
    assert (model.nq, model.nv) == (peer.nq, peer.nv) and np.array_equal(model.armature, peer.armature)
    assert dynamics.Mimic("j1_slide", "j1", 0.3) in model.mimics and len(model.mimics) == 3 + composed
    for q, v, a in zip(*random_states(model, 3, rng), strict=True):
        tau = pin.rnea(peer, data, q, v, a)
        assert relative_error(dynamics.inverse_dynamics(model, q, v, a), tau) < ORACLE
        pin.framesForwardKinematics(peer, data, q)
        assert relative_error(dynamics.frame_placement(model, q, "tip").p, data.oMf[-1].translation, 1.0) < ORACLE
        if not composed:
            found = dynamics.inverse_dynamics_derivatives(model, q, v, a)[:2]
            for our, other in zip(found, pin.computeRNEADerivatives(peer, data, q, v, a)[:2], strict=True):
                assert relative_error(our, other) < ORACLE
        assert relative_error(dynamics.forward_dynamics(model, q, v, tau), a) < 1e2 * ORACLE


# ------------------------------------------------------------------------------------------------ systems
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "explicit_euler", "rk4"])
def test_expansions_of_steps(hand, integrator, held, rng):
    contacts = [PointContact(hand, "tip")] if held else []
    system = RigidBodySystem(hand, 0.02, integrator, "floating_base", contacts)
    xs = np.hstack(random_states(hand, 3, rng, 1))
    us = rng.uniform(-1.0, 1.0, (3, system.nu))
    assert model_slopes(system, xs, us, rng, 0.3) == pytest.approx((2.0, 3.0), abs=SLOPE)
    if integrator == "semi_implicit_euler":
        q, v = xs[0, : hand.nq], xs[0, hand.nq :]
        tau = np.concatenate([np.zeros(6), us[0]])
        a = (
            dynamics.contact_dynamics(hand, q, v, tau, contacts).a
            if held
            else dynamics.forward_dynamics(hand, q, v, tau)
        )
        np.testing.assert_allclose(system.step(xs[0], us[0])[hand.nq :], v + 0.02 * a, rtol=1e-9, atol=1e-9)


def test_rollouts_are_steps(hand, rng):
    system = RigidBodySystem(hand, 0.01, "rk4")
    x0, us = np.hstack(random_states(hand, 1, rng, 1))[0], rng.normal(size=(6, hand.nv))
    xs = system.rollout(x0, us)
    for t in range(6):
        np.testing.assert_allclose(xs[t + 1], system.step(xs[t], us[t]), rtol=1e-12, atol=1e-12)
    K, k, alphas = rng.normal(size=(6, system.nu, system.ndx)), rng.normal(size=us.shape), np.array([1.0, 0.3])
    X, U = system.closed_loop_rollout(x0, xs, us, k, K, alphas)
    for i, alpha in enumerate(alphas):
        x = x0
        for t in range(6):
            u = us[t] + alpha * k[t] + K[t] @ system.difference(xs[t], x)
            np.testing.assert_allclose(U[i, t], u, rtol=1e-7, atol=1e-7)
            x = system.step(x, u)
        np.testing.assert_allclose(X[i, 6], x, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(X[i, 0], x0)


def test_phases_and_impacts(hand, rng):
    system = HybridSystem(hand, 0.01, [("flight", [], 2), ("stance", ["tip"], 2)])
    assert system.horizon == 5 and [segment.name for segment in system.segments][1] == "impact of stance"
    xs = system.rollout(np.hstack(random_states(hand, 1, rng, 1))[0], rng.normal(size=(5, system.nu)))
    us = rng.normal(size=(5, system.nu))
    for knot in (0, 2, 4):
        one = system.window(knot, knot + 1)
        assert model_slopes(one, np.repeat(xs[knot : knot + 1], 3, 0), np.repeat(us[:1], 3, 0), rng, 0.3) == (
            pytest.approx((2.0, 3.0), abs=SLOPE)
        )
    assert np.abs(dynamics.frame_velocity(hand, xs[3, : hand.nq], xs[3, hand.nq :], "tip")[:3]).max() < 1e-9
    assert system.contact_impulses(xs).shape == system.contact_forces(xs, us).shape == (5, 1, 3)
    assert np.abs(system.contact_impulses(xs)[2]).max() > 0.0 and np.abs(system.contact_forces(xs, us)[3]).max() > 0.0


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("phases", [False, True])
def test_prepared_functions_are_calls(hand, phases, timed, rng):
    """To the last bit those that are not prepared, with feedback to the knot before, too."""
    in_phases = HybridSystem(hand, 0.01, [("flight", [], 2), ("stance", ["tip"], 3)])
    system = in_phases if phases else RigidBodySystem(hand, 0.01, "rk4")
    N = in_phases.horizon if phases else 9
    us = 0.1 * rng.normal(size=(N, system.nu))
    xs = system.rollout(np.hstack(random_states(hand, 1, rng, 1))[0], us)
    if timed:
        system, us = system.timed(), np.hstack([us, np.full((N, 1), system.dt)])
    PreparedSystem(system, xs, us, rng, 1e-4).check()
    jerks = JerkSystem(system)
    zs = np.hstack([xs, xs[:, -hand.nv :]])
    PreparedSystem(jerks, zs, us, rng, 1e-4).check()


def test_springs_and_damping_of_mimic_joints():
    """Two sliders, one of which goes f times as far: an oscillator of mass m1 + f^2 m2 and stiffness f^2 k."""
    builder = ModelBuilder(gravity=(0, 0, 0))
    builder.add_body("a", "world", Prismatic("x"), "lead", mass=2.0)
    builder.add_body("b", "world", Prismatic("x"), "follower", mass=0.5, damping=0.7)
    builder.add_mimic("follower", "lead", -3.0, 0.1)
    builder.add_spring({"follower": 1.0}, 40.0, rest=0.1)
    builder.add_actuator("drive", {"follower": 2.0}, lower=-1.0, upper=1.0)
    model, dt = builder.build(), 0.01
    mass = 2.0 + 9.0 * 0.5
    np.testing.assert_allclose(dynamics.mass_matrix(model, [0.3]), [[mass]])
    system = RigidBodySystem(model, dt, actuation="model")
    np.testing.assert_allclose(system.actuation.B, [[-6.0]])
    v = 0.4 + dt * (-6.0 * 0.5 - 9.0 * 40.0 * 0.3 - 9.0 * 0.7 * 0.4) / (mass + dt * 9.0 * 0.7)
    np.testing.assert_allclose(system.step([0.3, 0.4], [0.5]), [0.3 + dt * v, v], rtol=1e-12)
    np.testing.assert_allclose(system.quasi_static([0.3, 0.0]), [9.0 * 40.0 * 0.3 / -6.0], rtol=1e-12)


def test_solvers_move_hands(rng):
    model = hand_builder(np.random.default_rng(5), floating=False).build()
    system = RigidBodySystem(model, 0.02)
    x0, target = system.neutral_state, dynamics.frame_placement(model, [0.2, -0.4, 0.3, 0.5], "tip").p
    reach = dynamics.FrameTranslation(model, "tip", target)
    problem = trajopt.Problem(
        system, x0, 40, [trajopt.StateCost(system, x0, 1e-2), trajopt.ControlCost(1e-3)],
        [trajopt.ResidualCost(reach, 1e4)], us_init="quasi_static",
    )  # fmt: skip
    ddp, ilqr = trajopt.DDP().solve(problem), trajopt.ILQR().solve(problem)
    assert ddp.converged and ilqr.converged and ddp.cost == pytest.approx(ilqr.cost, rel=1e-6)
    assert np.linalg.norm(dynamics.frame_placement(model, ddp.xs[-1, : model.nq], "tip").p - target) < 0.02


# ------------------------------------------------------------------------------------------------ residuals
def residuals(hand, system):
    R, p = dynamics.frame_placement(hand, dynamics.neutral(hand), "tip")
    return [
        dynamics.FrameTranslation(hand, "tip", p), dynamics.FrameRotation(hand, "tip", R),
        dynamics.FramePlacement(hand, "tip", (R, p)), dynamics.FrameVelocity(hand, "tip"),
        dynamics.CenterOfMass(hand, p), dynamics.CentroidalMomentum(hand),
        dynamics.ContactForce(system), dynamics.FrictionCone(system, 0.7), dynamics.ZeroMomentPoint(system, [0.1, 0.2]),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(9))
def test_residuals_against_differences(hand, number, rng):
    tip = PointContact(hand, "tip", reference=[0.3, 0.1, -0.2])
    system = RigidBodySystem(hand, 0.01, actuation="floating_base", contacts=[tip])
    r = residuals(hand, system)[number]
    xs, us = np.hstack(random_states(hand, 3, rng, 1)), rng.normal(size=(3, system.nu))
    mu = rng.normal(size=(3, r.nr))
    assert r.made_for in system.serves
    value, rx, ru = r.evaluate_with_jacobians(xs, us)
    Hxx = r.hessian_products(xs, us, mu)[0]
    move = lambda x, d: system.integrate(x, d)  # noqa: E731
    by_x = slopes_in(lambda d: r.evaluate(move(xs[1], d)[None], us[1:2])[0], np.zeros(system.ndx))
    assert relative_error(rx[1], by_x, 1.0) < CENTRAL_DIFFERENCES
    bent = slopes_in(lambda d: mu[1] @ r.jacobians(move(xs[1], d)[None], us[1:2])[0][0], np.zeros(system.ndx))
    assert relative_error(Hxx[1], symmetric(bent), 1.0) < 10 * CENTRAL_DIFFERENCES
    weights, n, nu = rng.uniform(0.5, 1.0, (1, r.nr)), system.ndx, system.nu
    blocks = [np.zeros(shape) for shape in ((3, n), (3, nu), (3, n, n), (3, nu, n), (3, nu, nu))]
    total = r.add_expansion(KnotSum((0, 3), xs, us, ResidualWeights(weights), blocks, None))
    assert total == pytest.approx(0.5 * (weights * value**2).sum())
    assert relative_error(blocks[0], np.einsum("kri,kr->ki", rx, weights * value)) < 1e2 * IDENTITY
    assert relative_error(blocks[2], np.einsum("kri,r,krj->kij", rx, weights[0], rx)) < 1e2 * IDENTITY
    if ru is not None:
        assert relative_error(blocks[3], np.einsum("kri,r,krj->kij", ru, weights[0], rx)) < 1e2 * IDENTITY
    bends = [np.zeros_like(block) for block in blocks]
    r.add_expansion(KnotSum((0, 3), xs, us, ResidualWeights(weights), blocks, bends))
    assert relative_error(bends[2], r.hessian_products(xs, us, weights * value)[0]) < 1e2 * IDENTITY
    if r.adjustable:
        other = r.adjusted(**{name: getattr(r, name) for name in r.adjustable})
        np.testing.assert_array_equal(other.evaluate(xs, us), value)


@pytest.mark.parametrize("number", range(9))
def test_prepared_residuals_are_calls(hand, number, rng):
    """To the last bit those that are not prepared: rows, sums and expansions, at points that change."""
    tip = PointContact(hand, "tip", reference=[0.3, 0.1, -0.2])
    system = RigidBodySystem(hand, 0.01, actuation="floating_base", contacts=[tip])
    r, n, nu = residuals(hand, system)[number], system.ndx, system.nu
    xs, us = np.hstack(random_states(hand, 3, rng, 1)), rng.normal(size=(3, nu))
    weights, given = ResidualWeights(rng.uniform(0.5, 1.0, (1, r.nr))), us if r.nu is not None else None
    shapes = (3, n), (3, nu), (3, n, n), (3, nu, n), (3, nu, nu)
    first, second, plain, bent = ([np.zeros(shape) for shape in shapes] for _ in range(4))
    rows, sums = r.prepared_rows(xs, given, True), r.prepared_sum(KnotSum((0, 3), xs, given, weights, None, None))
    expand = r.prepared_sum(KnotSum((0, 3), xs, given, weights, first, second))
    for _ in range(2):
        xs[...], us[...] = np.hstack(random_states(hand, 3, rng, 1)), rng.normal(size=us.shape)
        for block in (*first, *second, *plain, *bent):
            block.fill(0.0)
        assert replay(rows) and replay(sums) and replay(expand)
        assert r.add_expansion(KnotSum((0, 3), xs, given, weights, plain, bent)) == sums()
        for found, wanted in zip((*first, *second), (*plain, *bent), strict=True):
            assert found.tobytes() == wanted.tobytes()
        for found, wanted in zip(rows(), r.evaluate_with_jacobians(xs, given), strict=True):
            assert (found is None) == (wanted is None) and (found is None or found.tobytes() == wanted.tobytes())


# ------------------------------------------------------------------------------------------------ what is refused
def test_bad_mimic_joints(rng):
    builder = hand_builder(rng)
    for arguments, text in (
        (("nobody", "wrist"), "joint: got 'nobody'"), (("index", "nobody"), "joint: got 'nobody'"),
        (("index", "index"), "mimic 'index': source: got the joint itself"),
        (("index", "base"), "mimic 'index': 'base' is FreeFlyer, expected one degree of freedom"),
        (("thumb", "wrist"), "mimic 'thumb': it mimics another joint already"),
        (("index", "ring"), r"source: joints .* mimic each other"),
        (("index", "wrist", 0.0), "mimic 'index': multiplier: got 0"),
        (("index", "wrist", np.nan), "mimic 'index': multiplier"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            builder.add_mimic(*arguments)
    assert len(builder.build().mimics) == 3, "nothing is half done"


def test_what_does_not_take_mimic_joints(hand, rng):
    q, v, a = (x[0] for x in random_states(hand, 1, rng))
    with pytest.raises(ValueError, match="'hand' has mimic joints, which this function does not take"):
        hand.block  # noqa: B018
    with pytest.raises(ValueError, match="packed: got True, expected False for a model with mimic joints"):
        dynamics.inverse_dynamics_second_derivatives(hand, q, v, a, packed=True)
    with pytest.raises(ValueError, match="which ControlGravity does not take"):
        dynamics.ControlGravity(hand)
    with pytest.raises(ValueError, match=r"formulation: got 'inverse', expected .*no mimic joints"):
        RigidBodySystem(hand, 0.01, formulation="inverse")
    held = [PointContact(hand, "tip")]
    with pytest.raises(ValueError, match=r"contact_damping: got .*, expected zero for a model with mimic joints"):
        RigidBodySystem(hand, 0.01, contacts=held, contact_damping=0.1)
    with pytest.raises(ValueError, match=r"damping: got .*, expected zero"):
        dynamics.contact_dynamics(hand, q, v, a, held, 0.1)
    with pytest.raises(ValueError, match="contacts\\[0\\]: the contact of 'tip' belongs to another model"):
        RigidBodySystem(hand, 0.01, contacts=[dataclasses.replace(held[0], model=hand.full)])
    for name, bad in (("v", v[:3]), ("a", a[:3])):
        with pytest.raises(ValueError, match=rf"{name}: got shape \(3,\), expected \(11,\) or \(K, 11\)"):
            dynamics.inverse_dynamics(hand, q, **({"v": v, "a": a} | {name: bad}))
        with pytest.raises(ValueError, match=rf"d{name}: got shape \(3,\), expected"):
            dynamics.parameter_derivatives(hand, q, v, a, **{f"d{name}": bad})
    with pytest.raises(ValueError, match=r"different numbers of points .*dtau: 2"):
        dynamics.parameter_derivatives(hand, np.stack([q] * 3), v, tau=a, dtau=np.stack([a, a]))


# ------------------------------------------------------------------------------------------------ feedback of joints
@pytest.mark.parametrize("floating", [True, False])
def test_driven_joints_and_their_inertias(floating, rng):
    """Of the independent joints: where they are in a tangent, what drives them, and inertias as torques say."""
    model = hand_builder(rng, floating).build()
    n, base = model.nv, 6 if floating else 0
    B = rng.standard_normal((n, 3)) * (np.arange(n) % 3 > 0)[:, None]
    for actuation, driven in (
        ("floating_base" if floating else None, np.arange(base, n)),
        (B, np.flatnonzero((np.arange(n) % 3 > 0) & (np.arange(n) >= base))),
    ):
        system = RigidBodySystem(model, 0.01, actuation=actuation)
        positions, velocities, efforts = system.joint_feedback
        np.testing.assert_array_equal(positions, driven)
        np.testing.assert_array_equal(velocities, n + driven)
        np.testing.assert_array_equal(efforts, system.actuation.B[driven])
        q, still = dynamics.random_configuration(model, rng), np.zeros(n)
        pushed = np.array([dynamics.forward_dynamics(model, q, still, tau) for tau in np.eye(n)])
        gained = (pushed - dynamics.forward_dynamics(model, q, still, still))[driven][:, driven]
        root = np.sqrt(np.diag(gained))
        wanted = 1.0 / (root * (np.abs(gained) / root).sum(axis=1))
        np.testing.assert_allclose(system.joint_inertias(system.state(q)[None])[0], wanted, rtol=1e-9)


# ------------------------------------------------------------------------------------------------ by hand
def by_hand(model):
    """q = S z + c from the mimic joints alone, (nq of the full model, nq) and (nq,); and the velocities' S."""
    full, row = model.full, {}
    for kind, places in (("q", (model.q_index, full.q_index)), ("v", (model.v_index, full.v_index))):
        size = (full.nq, model.nq) if kind == "q" else (full.nv, model.nv)
        row[kind] = np.zeros(size), np.zeros(size[0])
        S, c = row[kind]
        of = {mimic.joint: mimic for mimic in model.mimics}
        for name, joint, at in zip(full.joint_names, full.joints, places[1], strict=True):
            source, scale = (of[name].source, of[name].multiplier) if name in of else (name, 1.0)
            start = places[0][model.joint_names.index(source)]
            for i in range(joint.nq if kind == "q" else joint.nv):
                S[at + i, start + i] = scale
                c[at + i] = of[name].offset if name in of else 0.0
    return *row["q"], row["v"][0]


def tied(model, contacts):
    """The contacts on the full model, and a coupling for each mimic joint."""
    ties = [
        dynamics.JointCoupling(model.full, {mimic.joint: 1.0, mimic.source: -mimic.multiplier}, mimic.offset, (0, 0))
        for mimic in model.mimics
    ]
    return [*(dataclasses.replace(contact, model=model.full) for contact in contacts), *ties]


def test_the_map_is_that_of_the_mimic_joints(hand, rng):
    S, c, G = by_hand(hand)
    q, v = (x[0] for x in random_states(hand, 1, rng, 1))
    np.testing.assert_allclose(hand.full_configuration(q), S @ q + c, rtol=1e-15)
    np.testing.assert_allclose(hand.full_velocity(v), G @ v, rtol=1e-15)
    np.testing.assert_array_equal(hand.mimic_map.G, G)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_systems_are_those_of_the_full_model_tied_by_hand(hand, integrator, held, rng):
    """Steps, closed loops, derivatives and Hessians of the full model with couplings, projected by S; and forces."""
    S, c, G = by_hand(hand)
    B = np.vstack([np.zeros((6, 5)), np.eye(5)])
    contacts = [PointContact(hand, "tip", gains=(10.0, 5.0), reference=[0.1, 0.2, -0.1])] if held else []
    system = RigidBodySystem(hand, 0.02, integrator, B, contacts)
    whole = tied(hand, contacts)
    kept = np.array([np.flatnonzero(G[:, j] == 1.0)[0] for j in range(hand.nv)])
    full = RigidBodySystem(hand.full, 0.02, integrator, np.eye(hand.full.nv)[:, kept] @ B, whole)
    xs, us = np.hstack(random_states(hand, 3, rng, 1)), rng.normal(size=(3, 5))
    lam, P = rng.normal(size=(3, system.ndx)), np.kron(np.eye(2), G)
    keep = np.concatenate([kept, hand.full.nv + kept])
    X = np.hstack([xs[:, : hand.nq] @ S.T + c, xs[:, hand.nq :] @ G.T])
    wide = np.zeros((3, full.ndx))
    wide[:, keep] = lam
    stepped = np.array([system.step(*point) for point in zip(xs, us, strict=True)])
    there = np.array([full.step(*point) for point in zip(X, us, strict=True)])
    moved = np.hstack([stepped[:, : hand.nq] @ S.T + c, stepped[:, hand.nq :] @ G.T])
    assert relative_error(moved, there) < 1e2 * IDENTITY
    fx, fu = system.linearize(xs, us)
    Fx, Fu = full.linearize(X, us)
    assert relative_error(fx, Fx[:, keep] @ P) < 1e2 * IDENTITY
    assert relative_error(fu, Fu[:, keep]) < 1e2 * IDENTITY
    for ours, theirs in zip(system.hessian_products(xs, us, lam), full.hessian_products(X, us, wide), strict=True):
        rows = theirs if ours.shape[1] == system.nu else P.T @ theirs
        assert relative_error(ours, rows @ P if ours.shape[2] == system.ndx else rows, 1.0) < 1e2 * IDENTITY
    if held:
        np.testing.assert_allclose(system.contact_forces(xs, us), full.contact_forces(X, us)[:, :1], rtol=1e-9)


@pytest.mark.parametrize("number", range(9))
def test_residuals_are_those_of_the_full_model(hand, number, rng):
    """Values as they are, Jacobians and gradients by S, Hessians by S on both sides, and sums to whatever is there."""
    S, c, G = by_hand(hand)
    tip = PointContact(hand, "tip", reference=[0.3, 0.1, -0.2])
    system = RigidBodySystem(hand, 0.01, actuation="floating_base", contacts=[tip])
    kept = [np.flatnonzero(G[:, j] == 1.0)[0] for j in range(6, hand.nv)]
    B = np.eye(hand.full.nv)[:, kept]
    whole = RigidBodySystem(hand.full, 0.01, actuation=B, contacts=tied(hand, [tip]))
    target = dynamics.frame_placement(hand, dynamics.neutral(hand), "tip")
    full = [
        dynamics.FrameTranslation(hand.full, "tip", target.p), dynamics.FrameRotation(hand.full, "tip", target.R),
        dynamics.FramePlacement(hand.full, "tip", target), dynamics.FrameVelocity(hand.full, "tip"),
        dynamics.CenterOfMass(hand.full, target.p), dynamics.CentroidalMomentum(hand.full),
        dynamics.ContactForce(whole), dynamics.FrictionCone(whole, 0.7), dynamics.ZeroMomentPoint(whole, [0.1, 0.2]),
    ][number]  # fmt: skip
    ours = residuals(hand, system)[number]
    xs, us = np.hstack(random_states(hand, 3, rng, 1)), rng.normal(size=(3, system.nu))
    X, P = np.hstack([xs[:, : hand.nq] @ S.T + c, xs[:, hand.nq :] @ G.T]), np.kron(np.eye(2), G)
    mu, weights = rng.normal(size=(3, ours.nr)), rng.uniform(0.5, 1.0, (1, ours.nr))
    for found, expected, right in zip(
        ours.evaluate_with_jacobians(xs, us), full.evaluate_with_jacobians(X, us), (False, True, False), strict=True
    ):
        if expected is None:
            assert found is None
        else:
            assert relative_error(found, expected @ P if right else expected, 1.0) < 1e2 * IDENTITY
    expected = P.T @ full.hessian_products(X, us, mu)[0] @ P
    assert relative_error(ours.hessian_products(xs, us, mu)[0], expected, 1.0) < 1e2 * IDENTITY
    n, N, nu = system.ndx, whole.ndx, system.nu
    there = [rng.normal(size=shape) for shape in ((3, n), (3, nu), (3, n, n), (3, nu, n), (3, nu, nu))]
    sums = [[x.copy() for x in there], [np.zeros(s) for s in ((3, N), (3, nu), (3, N, N), (3, nu, N), (3, nu, nu))]]
    cases = zip((ours, full), (xs, X), sums, strict=True)
    wanted = [(r, KnotSum((0, 3), x, us, ResidualWeights(weights), blocks, blocks)) for r, x, blocks in cases]
    values = [r.add_expansion(each) for r, each in wanted]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    lx, lu, lxx, lux, luu = sums[1]
    for found, before, expected in zip(sums[0], there, (lx @ P, lu, P.T @ lxx @ P, lux @ P, luu), strict=True):
        assert relative_error(np.tril(found - before), np.tril(expected), 1.0) < 1e3 * IDENTITY


def test_contacts_are_those_of_the_full_model(hand, rng):
    """Accelerations are kept, forces are those of the contacts alone, derivatives projected by S."""
    S, c, G = by_hand(hand)
    kept = np.array([np.flatnonzero(G[:, j] == 1.0)[0] for j in range(hand.nv)])
    held = [PointContact(hand, "tip")]
    whole = tied(hand, held)
    q, v, tau, w = (x[0] for x in random_states(hand, 1, rng, 3))
    Q, V, T, W = S @ q + c, G @ v, np.zeros(hand.full.nv), np.zeros(hand.full.nv)
    T[kept], W[kept], w_f = tau, w, rng.normal(size=(1, 3))
    rows = np.vstack([w_f, np.zeros((3, 3))])
    first = dynamics.contact_dynamics_derivatives(hand.full, Q, V, T, whole)
    found = dynamics.contact_dynamics_derivatives(hand, q, v, tau, held)
    assert relative_error(found.da_dq, first.da_dq[kept] @ G) < 1e2 * IDENTITY
    assert relative_error(found.da_dtau, first.da_dtau[kept][:, kept]) < 1e2 * IDENTITY
    assert relative_error(found.df_dv, first.df_dv[:1] @ G) < 1e2 * IDENTITY
    assert relative_error(found.df_dtau, first.df_dtau[:1][..., kept]) < 1e2 * IDENTITY
    bent = dynamics.contact_dynamics_hessian(hand.full, Q, V, T, whole, W, rows)
    ours = dynamics.contact_dynamics_hessian(hand, q, v, tau, held, w, w_f)
    assert relative_error(ours.Hqv, G.T @ bent.Hqv @ G) < 1e2 * IDENTITY
    assert relative_error(ours.Hqtau, G.T @ bent.Hqtau[:, kept]) < 1e2 * IDENTITY
    struck = dynamics.contact_impulse(hand.full, Q, V, whole, 0.3)
    after = dynamics.contact_impulse(hand, q, v, held, 0.3)
    assert relative_error(G @ after.v, struck.v) < 1e2 * IDENTITY and relative_error(after.f, struck.f[:1]) < 1e-9
    slopes = dynamics.contact_impulse_derivatives(hand, q, v, held, 0.3)
    theirs = dynamics.contact_impulse_derivatives(hand.full, Q, V, whole, 0.3)
    assert relative_error(slopes.dv_dq, theirs.dv_dq[kept] @ G) < 1e2 * IDENTITY
    assert relative_error(slopes.df_dq, theirs.df_dq[:1] @ G) < 1e2 * IDENTITY


def test_ordinary_robots_enter_as_they_are(hand, rng):
    """Without mimic joints nothing is copied, and controls that drive one joint each stay such."""
    model = hand.full
    system = RigidBodySystem(model, 0.01, actuation="floating_base")
    x = rng.normal(size=(2, model.nq + model.nv))
    assert model.mimic_map.full_x(x) is x and model.mimic_map.leave("pp", x) is x
    assert model.mimic_map.receivers(("P",), x) is x and model.full is model is model.joint_space
    assert system.full_actuation is system.actuation and system.plant[1].skip == 6
