"""Closed chains: constraint rows, accelerations, derivatives and Hessians, impulses, steps of systems."""

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import (
    ContactSet,
    HybridSystem,
    JointCoupling,
    LoopConstraint,
    ModelBuilder,
    PointContact,
    Prismatic,
    RigidBodySystem,
    RigidContact,
    close_loops,
    contact_dynamics,
    contact_impulse,
)
from dynamics.contacts.loop_constraint import loop_rows
from dynamics.model.edits import builder_of
from tests.reference.loop_cases import (
    CASES,
    GAINS,
    ball,
    closed,
    coupled,
    framed_tree,
    hinges,
    keeping,
    planar_four_bar,
    weld,
)
from tests.reference.pinocchio_peer import of_model
from tests.reference.random_robots import random_states
from tests.reference.robot_systems import model_slopes
from tests.tolerances import IDENTITY, SLOPE, relative_error

DIFFERENCES = 1e-8
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
STEPS = 1e-3, 7e-3, 0.3


@pytest.fixture
def tree(rng):
    return framed_tree(rng)


def along(model, f, x, tangent):
    """Derivative of the arrays f(x), flat, in x, by differences of order eight, for each of `STEPS`: the least for what
    bends most, the largest for what is linear; tangent: x is a configuration."""

    def at(dx):
        moved = dynamics.integrate(model, x, dx) if tangent else x + dx
        return np.concatenate([np.ravel(y) for y in f(moved)])

    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    found = []
    for h in STEPS:
        columns = [sum(w * (at(k * h * e) - at(-k * h * e)) for k, w in weights.items()) / h for e in np.eye(model.nv)]
        found.append(np.array(columns).T)
    return np.array(found)


def assert_close(found, numeric):
    """To the best of the differences."""
    assert min(relative_error(found, expected) for expected in numeric) < DIFFERENCES


def stacked(*arrays):
    n = arrays[0].shape[-1]
    return np.vstack([x.reshape(-1, n) for x in arrays])


# ------------------------------------------------------------------------------------------------ accelerations
@each_case
def test_accelerations_against_a_dense_system(tree, case, rng):
    """Rows J from Jacobians of frames, their drift from differences of J v along the motion."""
    held = case(tree)
    contacts = ContactSet(tree, held)
    q, v, tau = (x[0] for x in random_states(tree, 1, rng))

    def rows(q, contact):
        if isinstance(contact, LoopConstraint):
            return loop_rows(tree, q[None], contact)
        if isinstance(contact, JointCoupling):
            at = [tree.q_index[tree.joint_index(joint)] for joint in contact.joints]
            return np.dot(q[at], list(contact.joints.values()))[None, None] - contact.offset, contact.row[None]
        J = dynamics.frame_jacobian(tree, q[None], contact.frame)[:, : 3 if contact.turns else 6]
        return np.zeros((1, J.shape[1])), J

    def velocity(q, contact):
        """T'(v_1 - v_2), and for loops what turns T subtracted: T' of the relative velocity at fixed axes."""
        return rows(q, contact)[1][0] @ v

    J = np.concatenate([rows(q, contact)[1][0] for contact in held])
    h, drift = 1e-5, []
    for contact in held:
        ahead, behind = (velocity(dynamics.integrate(tree, q, s * h * v), contact) for s in (1, -1))
        d = (ahead - behind) / (2 * h)
        if isinstance(contact, LoopConstraint):
            if contact.kind != "ball" and tree.frame(contact.frame2).body >= 0:
                d += turning_drift(tree, q, v, contact)
        if isinstance(contact, LoopConstraint | JointCoupling):
            e, R = rows(q, contact)[0][0], rows(q, contact)[1][0]
            d += GAINS[1] * (R @ v) + GAINS[0] * e
        elif isinstance(contact, PointContact | RigidContact):
            d += contact.gains[1] * (rows(q, contact)[1][0] @ v)
        drift.append(d)
    drift = np.concatenate(drift)
    M, bias = dynamics.mass_matrix(tree, q), dynamics.bias_forces(tree, q, v)
    n = tree.nv
    K = np.block([[M, -J.T], [J, np.zeros((len(J), len(J)))]])
    a = np.linalg.lstsq(K, np.r_[tau - bias, -drift], rcond=1e-12)[0][:n]
    found = contact_dynamics(tree, q, v, tau, contacts)
    assert relative_error(found.a, a) < 1e-7
    expected = len(J) - np.linalg.matrix_rank(J, tol=1e-9 * np.linalg.norm(J))
    assert found.redundant == expected


def turning_drift(model, q, v, loop):
    """T'(w x (v_1 - v_2)), w of the second frame: J v changes with its axes, which accelerations do not see."""
    w = dynamics.frame_velocity(model, q, v, loop.frame2, reference="local_world_aligned")[3:]
    T = dynamics.frame_placement(model, q, loop.frame2).R
    parts = []
    for offset, kept in loop.pairs:
        speeds = []
        for frame in (loop.frame1, loop.frame2):
            R = dynamics.frame_placement(model, q, frame).R
            V = dynamics.frame_velocity(model, q, v, frame, reference="local_world_aligned")
            speeds.append(V[:3] + np.cross(V[3:], R @ offset))
        parts.append((T.T @ np.cross(w, speeds[0] - speeds[1]))[kept != 0.0])
    return np.concatenate(parts)


@each_case
def test_derivatives_and_hessians_against_differences(tree, case, rng):
    contacts = ContactSet(tree, case(tree))
    q, v, tau = (x[0] for x in random_states(tree, 1, rng))
    C, n = len(contacts), tree.nv

    def values(q, v, tau):
        r = contact_dynamics(tree, q, v, tau, contacts)
        return r.a, r.f, r.moment

    d = dynamics.contact_dynamics_derivatives(tree, q, v, tau, contacts)
    numeric = [
        along(tree, lambda x: values(x, v, tau), q, True), along(tree, lambda x: values(q, x, tau), v, False),
        along(tree, lambda x: values(q, v, x), tau, False),
    ]  # fmt: skip
    for name, expected in zip(("dq", "dv", "dtau"), numeric, strict=True):
        found = stacked(*(getattr(d, f"{x}_{name}") for x in ("da", "df", "dmoment")))
        assert_close(found, expected)
    w_a, w_f, w_m = rng.normal(size=n), *rng.normal(size=(2, C, 3))

    def gradients(q, v, tau):
        d = dynamics.contact_dynamics_derivatives(tree, q, v, tau, contacts)
        for name in ("dq", "dv"):
            forces = np.einsum("ci,cik->k", w_f, getattr(d, f"df_{name}"))
            yield w_a @ getattr(d, f"da_{name}") + forces + np.einsum("ci,cik->k", w_m, getattr(d, f"dmoment_{name}"))

    H = dynamics.contact_dynamics_hessian(tree, q, v, tau, contacts, w_a, w_f, w_m=w_m)
    Hq = along(tree, lambda x: gradients(x, v, tau), q, True)
    Hv = along(tree, lambda x: gradients(q, x, tau), v, False)
    Htau = along(tree, lambda x: gradients(q, v, x), tau, False)
    for found, expected in ((H.Hqq, Hq[:, :n]), (H.Hqv, Hv[:, :n]), (H.Hvv, Hv[:, n:]), (H.Hqtau, Htau[:, :n])):
        assert_close(found, expected)


@each_case
def test_impulses_against_differences(tree, case, rng):
    contacts, e = ContactSet(tree, case(tree)), 0.3
    q, v = (x[0] for x in random_states(tree, 1, rng, 1))
    C, n = len(contacts), tree.nv

    def values(q, v):
        r = contact_impulse(tree, q, v, contacts, e)
        return r.v, r.f, r.moment

    def gradient(q, v):
        d = dynamics.contact_impulse_derivatives(tree, q, v, contacts, e)
        forces = np.einsum("ci,cik->k", w_f, d.df_dq) + np.einsum("ci,cik->k", w_m, d.dmoment_dq)
        return (w_v @ d.dv_dq + forces,)

    d = dynamics.contact_impulse_derivatives(tree, q, v, contacts, e)
    w_v, w_f, w_m = rng.normal(size=n), *rng.normal(size=(2, C, 3))
    H = dynamics.contact_impulse_hessian(tree, q, v, contacts, w_v, w_f, e, w_m=w_m)
    for found, expected in (
        (stacked(d.dv_dq, d.df_dq, d.dmoment_dq), along(tree, lambda x: values(x, v), q, True)),
        (stacked(d.dv_dv, d.df_dv, d.dmoment_dv), along(tree, lambda x: values(q, x), v, False)),
        (H.Hqq, along(tree, lambda x: gradient(x, v), q, True)),
        (H.Hqv, along(tree, lambda x: gradient(q, x), v, False)),
    ):
        assert_close(found, expected)


def test_coupled_joints_move_as_one_joint(tree, rng):
    """a = a0 + G (G'MG)^-1 G'(tau - bias - M a0) with the columns of G a basis of the motions that the coupling allows,
    and a0 = row' (row row')^-1 of what takes back how far it is off."""
    ratios, (kp, kd) = {"body 0_joint": 1.0, "body 6_joint": -0.7, "body 4_joint": 0.4}, (60.0, 11.0)
    coupling = JointCoupling(tree, ratios, 0.5, (kp, kd))
    q, v, tau = random_states(tree, 4, rng)
    row = coupling.row[0]
    G = np.linalg.svd(coupling.row)[2][1:].T
    found = contact_dynamics(tree, q, v, tau, [coupling]).a
    for k in range(4):
        M, bias = dynamics.mass_matrix(tree, q[k]), dynamics.bias_forces(tree, q[k], v[k])
        off = sum(r * q[k, tree.q_index[tree.joint_index(joint)]] for joint, r in ratios.items()) - 0.5
        a0 = -row * (kd * row @ v[k] + kp * off) / (row @ row)
        a = a0 + G @ np.linalg.solve(G.T @ M @ G, G.T @ (tau[k] - bias - M @ a0))
        assert relative_error(found[k], a) < 1e2 * IDENTITY


def gripper(offset=0.02):
    """Two fingers that slide, whose model couples them: left - right = offset."""
    builder = ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for name in ("left", "right"):
        builder.add_body(f"{name} finger", "world", Prismatic("y"), name, mass=1.0, inertia=1e-3 * np.eye(3))
    builder.add_coupling({"left": 1.0, "right": -1.0}, offset)
    return builder.build()


@pytest.mark.parametrize(("q", "v"), [((0.5, 0.0), (0.0, 0.0)), ((0.02, 0.0), (0.3, 0.0)), ((0.02, 0.0), (0.0, 0.0))])
def test_fingers_come_to_the_offset_that_their_coupling_states(q, v):
    """Their distance e obeys e'' + kd e' + kp e = 0 about the offset, their centre moves on."""
    system = RigidBodySystem(gripper(), 1e-3, "rk4")
    (coupling,) = system.contacts.contacts
    (kp, kd), steps = coupling.gains, 1000
    xs = system.rollout(system.state(q, v), np.zeros((steps, 2)))
    rate, t = np.sqrt(kp), 1e-3 * np.arange(steps + 1)
    assert kd == 2.0 * rate and coupling.offset == 0.02
    e0, de0 = q[0] - q[1] - 0.02, v[0] - v[1]
    expected = 0.02 + (e0 + (de0 + rate * e0) * t) * np.exp(-rate * t)
    assert np.abs(xs[:, 0] - xs[:, 1] - expected).max() < 1e-9
    assert np.abs(xs[:, 0] + xs[:, 1] - (q[0] + q[1] + (v[0] + v[1]) * t)).max() < 1e-12


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "explicit_euler", "rk4"])
@pytest.mark.parametrize("dt", [0.01, 0.05, 0.1, 0.5])
def test_feedback_of_what_a_model_holds_suits_its_steps(dt, integrator):
    """Of couplings and loops: gaps vanish, without overshoot, also in steps longer than a tenth of a second."""
    builder = builder_of(gripper())
    builder.add_frame("end", "left finger", (np.eye(3), [0.0, -0.1, 0.0]))
    builder.add_frame("mount", "world")
    builder.add_loop("end", "mount")
    model = builder.build()
    for system in (
        RigidBodySystem(model, dt, integrator),
        HybridSystem(model, dt, [("held", [], 60)], None, integrator).segments[0].system,
    ):
        loop, coupling = system.contacts.contacts
        assert loop.gains == coupling.gains == ((100.0, 20.0) if dt <= 0.05 else pytest.approx((0.25 / dt**2, 1 / dt)))
        xs = system.rollout(system.state([0.15, 0.08]), np.zeros((60, 2)))
        gaps = np.column_stack([xs[:, 0] - 0.1, xs[:, 0] - xs[:, 1] - 0.02])
        assert np.abs(gaps[-1]).max() < 0.1 * np.abs(gaps[0]).max() and gaps.min() > -1e-12


def test_a_start_that_breaks_a_coupling_is_refused():
    model = gripper()
    system = RigidBodySystem(model, 1e-3)
    hybrid = HybridSystem(model, 1e-3, [("held", [], 3)], actuation=None)
    words = r"x0: the coupling of 'left', 'right' is off by 0\.48: its sum is 0\.5, expected 0\.02 to within 0\.001;"
    for each in (system, hybrid):
        each.check_start(each.state([0.3, 0.2805]))
        with pytest.raises(ValueError, match=words):
            each.check_start(each.state([0.5, 0.0]))
    with pytest.raises(ValueError, match=words):
        trajopt.Problem(system, system.state([0.5, 0.0]), 3, [trajopt.ControlCost(1.0)])


def test_couplings_are_closed_with_loops(tree, rng):
    assert close_loops(gripper(), [0.5, 0.0]) == pytest.approx([0.26, 0.24], abs=1e-12)
    assert close_loops(gripper(), [0.5, 0.0], fixed=["left"]) == pytest.approx([0.5, 0.48], abs=1e-12)
    words = r"'left - right' do not close .* a gap of 0\.48 in the sum of a coupling is left"
    with pytest.raises(ValueError, match=words):
        close_loops(gripper(), [0.5, 0.0], fixed=["left", "right"])
    held = coupled(tree)[:2]
    q = close_loops(tree, random_states(tree, 1, rng, 0)[0][0], held)
    assert np.abs(loop_rows(tree, q[None], held[0]).error).max() < 1e-10 and abs(held[1].gap(q)) < 1e-10
    system = RigidBodySystem(tree, 0.01, contacts=held)
    system.check_start(system.state(q))


def test_an_impact_stops_what_a_coupling_does_not_allow():
    """Of two equal fingers the mean velocity stays; with restitution e the difference returns e times as fast."""
    model = gripper()
    coupling = JointCoupling(model, {"left": 1.0, "right": -1.0})
    for e in (0.0, 0.4):
        after = contact_impulse(model, [0.5, 0.0], [0.3, 0.1], [coupling], e)
        assert after.v == pytest.approx([0.2 - 0.1 * e, 0.2 + 0.1 * e], abs=1e-14)
        assert after.f[0, 0] == pytest.approx(-0.1 * (1.0 + e), abs=1e-14)


# ------------------------------------------------------------------------------------------------ against Pinocchio
@pytest.mark.peer
@pytest.mark.parametrize(("kind", "ends"), [("ball", "01"), ("weld", "01"), ("ball", "23"), ("weld", "23")])
def test_closed_loops_against_pinocchio(tree, kind, ends, rng):
    pin = pytest.importorskip("pinocchio")
    tree, frame, start = closed(tree, ends, rng)
    loop = LoopConstraint(tree, frame, "g", kind, gains=(0.0, 0.0))
    peer = of_model(pin, tree)
    frames = [tree.frame(name) for name in (loop.frame1, loop.frame2)]
    poses = [pin.SE3(frame.R.copy(), frame.p.copy()) for frame in frames]
    theirs = pin.ContactType.CONTACT_3D if kind == "ball" else pin.ContactType.CONTACT_6D
    constraint = pin.RigidConstraintModel(
        theirs, peer, frames[0].body + 1, poses[0], frames[1].body + 1, poses[1], pin.ReferenceFrame.LOCAL
    )  # fmt: skip
    constraints, datas, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData(), peer.createData()
    constraints.append(constraint)
    datas.append(constraint.createData())
    pin.initConstraintDynamics(peer, data, constraints, datas)

    def accelerations(q, v, tau):
        return np.array(pin.constraintDynamics(peer, data, q, v, tau, constraints, datas))

    for _ in range(3):
        q = close_loops(tree, dynamics.integrate(tree, start, 0.1 * rng.normal(size=tree.nv)), [loop])
        v, tau = keeping(tree, q, loop, rng.normal(size=tree.nv)), rng.normal(size=tree.nv)
        assert relative_error(contact_dynamics(tree, q, v, tau, [loop]).a, accelerations(q, v, tau)) < 1e3 * IDENTITY
    d = dynamics.contact_dynamics_derivatives(tree, q, v, tau, [loop])
    J = loop_rows(tree, q[None], loop).J[0]
    h, dq = 1e-4, rng.normal(size=tree.nv)
    dq -= np.linalg.pinv(J) @ (J @ dq)

    def moved(s):
        """Closed states along a curve through this one, with its derivative dq, dv at s = 0."""
        x = close_loops(tree, dynamics.integrate(tree, q, s * dq), [loop])
        return x, keeping(tree, x, loop, v)

    states = {s: moved(s) for s in (h, -h)}
    dx = [(states[h][1] - states[-h][1]) / (2 * h), dynamics.difference(tree, states[-h][0], states[h][0]) / (2 * h)]
    expected = (accelerations(*states[h], tau) - accelerations(*states[-h], tau)) / (2 * h)
    assert relative_error(d.da_dq @ dx[1] + d.da_dv @ dx[0], expected) < 1e-5


# ------------------------------------------------------------------------------------------------ systems
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "explicit_euler", "rk4"])
@pytest.mark.parametrize("case", [weld, hinges, coupled], ids=lambda case: case.__name__)
def test_expansions_of_steps(tree, case, integrator, rng):
    system = RigidBodySystem(tree, 0.02, integrator, contacts=case(tree))
    q, v, us = random_states(tree, 3, rng)
    v *= 0.2
    us = dynamics.inverse_dynamics(tree, q, v, 0.1 * us)
    assert model_slopes(system, np.hstack([q, v]), us, rng, 0.2) == pytest.approx((2.0, 3.0), abs=SLOPE)


def test_expansions_of_phases_and_impacts(tree, rng):
    loops = ball(tree)
    system = HybridSystem(
        tree, 0.02, [("free", loops, 2), ("held", [*loops, PointContact(tree, "f2")], 2)], actuation=None
    )
    assert [s.name for s in system.segments] == ["free", "impact of held", "held"]
    q, v, us = random_states(tree, 5, rng)
    for knot in (1, 2, 3):
        part = system.window(knot, knot + 1)
        xs = np.hstack([q, 0.3 * v])[:3]
        assert model_slopes(part, xs, us[:3], rng, 0.2) == pytest.approx((2.0, 3.0), abs=SLOPE)


def test_a_closed_loop_stays_closed(tree, rng):
    """With the default gains gaps stay small, and energy of a motion without torques nearly does, too."""
    model, frame, q = closed(tree, "01", rng)
    loops = [LoopConstraint(model, frame, "g", "ball")]
    system = RigidBodySystem(model, 2e-3, "rk4", contacts=loops)
    xs = system.rollout(system.state(q), np.zeros((300, model.nv)))
    q, v = xs[:, : model.nq], xs[:, model.nq :]
    assert np.abs(v[-1]).max() > 0.5
    assert np.abs(loop_rows(model, q, loops[0]).error).max() < 1e-5
    energy = np.ravel(dynamics.kinetic_energy(model, q, v)) + np.ravel(dynamics.potential_energy(model, q))
    assert np.abs(energy - energy[0]).max() < 1e-3 * np.ptp(dynamics.kinetic_energy(model, q, v))


def test_a_planar_loop(rng):
    """The four-bar by its one degree of freedom: v = G(q) vc, a from G'(M a + bias) = 0."""
    model = planar_four_bar()
    loop = LoopConstraint(model, "end of rod", "end of rocker", gains=(0.0, 0.0))
    q = close_loops(model, np.array([-1.0, -0.3, -1.8]), [loop])
    J = loop_rows(model, q[None], loop).J[0]
    G = np.r_[1.0, -np.linalg.solve(J[:, 1:], J[:, 0])]
    v = 0.7 * G
    h = 1e-6

    def speed(s):
        x = dynamics.integrate(model, q, s * v)
        return loop_rows(model, x[None], loop).J[0] @ v

    drift = (speed(h) - speed(-h)) / (2 * h)
    a0 = np.r_[0.0, -np.linalg.solve(J[:, 1:], drift)]
    M, bias = dynamics.mass_matrix(model, q), dynamics.bias_forces(model, q, v)
    a = a0 + G * (-(G @ (M @ a0 + bias)) / (G @ M @ G))
    found = contact_dynamics(model, q, v, np.zeros(3), [loop])
    assert not found.redundant and found.smallest_pivot > 0.1  # the row across the plane is none
    assert relative_error(found.a, a) < 1e-8
    system = RigidBodySystem(model, 0.02, contacts=[LoopConstraint(model, "end of rod", "end of rocker")])
    xs = np.tile(np.r_[q, v], (3, 1))
    assert model_slopes(system, xs, np.zeros((3, 3)), rng, 0.2) == pytest.approx((2.0, 3.0), abs=SLOPE)


@pytest.mark.parametrize("kind", ["ball", "hinge", "weld"])
def test_forces_of_systems_balance_the_robot(tree, kind, rng):
    """Where a loop is closed, ID(q, v, a) - tau is what its force and moment, in world axes, do on both bodies."""
    model, frame, q = closed(tree, "01", rng)
    loop = LoopConstraint(model, frame, "g", kind)
    system = RigidBodySystem(model, 0.01, contacts=[loop])
    v, us = keeping(model, q, loop, rng.normal(size=model.nv)), rng.normal(size=model.nv)
    x = np.r_[q, v]
    a = (system.step(x, us)[model.nq :] - v) / 0.01
    forces, moments = (f(x[None], us[None])[0, 0] for f in (system.contact_forces, system.contact_moments))
    J1, J2 = (dynamics.frame_jacobian(model, q, name) for name in (frame, "g"))
    expected = (J1 - J2).T @ np.r_[forces, moments]
    assert relative_error(dynamics.inverse_dynamics(model, q, v, a) - us, expected) < 1e-9
