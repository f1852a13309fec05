"""What was made for another robot or system is refused by name, and no array is written beyond its end."""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import rods
from dynamics.residuals.robot_residual import RobotResidual
from dynamics.simd.squares import KnotSum, ResidualWeights
from dynamics.systems.state_difference import StateDifference
from problems.quadruped_model import FEET, quadruped, standing
from tests.trajopt.cases import pendulum
from tests.trajopt.systems import Pendulum
from trajopt.costs.deviation import Deviation
from trajopt.problem.objective import zero_blocks

N = 6


def tree(name, *joints, mass=1.0):
    """A chain of bodies on these joints, the last of which carries the frame "tool"."""
    builder = dynamics.ModelBuilder(name=name)
    for i, joint in enumerate(joints):
        parent = f"body {i - 1}" if i else "world"
        builder.add_body(f"body {i}", parent, joint, mass=mass, com=(0.1, 0.0, 0.2), inertia=0.1 * np.eye(3))
    builder.add_frame("tool", f"body {len(joints) - 1}", (np.eye(3), [0.0, 0.0, 0.3]))
    return builder.build()


HINGES = [dynamics.Revolute("y")] * 4
BASE = tree("base", dynamics.FreeFlyer(), *HINGES)  # 21 numbers in a state, 20 in a tangent vector
BALLS = tree("balls", *[dynamics.Spherical()] * 3)  # 21 numbers, 18 in a tangent vector
HEAVY = tree("base", dynamics.FreeFlyer(), *HINGES, mass=2.0)
SYSTEMS = {
    model: dynamics.RigidBodySystem(model, 0.01, actuation=np.eye(model.nv)[:, -9:]) for model in (BASE, BALLS, HEAVY)
}
RESTING = {model: system.neutral_state for model, system in SYSTEMS.items()}
RESIDUALS = {
    "translation": lambda m: dynamics.FrameTranslation(m, "tool", np.zeros(3)),
    "velocity": lambda m: dynamics.FrameVelocity(m, "tool"),
    "placement": lambda m: dynamics.FramePlacement(m, "tool", (np.eye(3), np.zeros(3))),
    "center": lambda m: dynamics.CenterOfMass(m, np.zeros(3)),
    "momentum": lambda m: dynamics.CentroidalMomentum(m),
    "gravity": lambda m: dynamics.ControlGravity(m, SYSTEMS[m].actuation.B),
    "state": lambda m: trajopt.StateResidual(SYSTEMS[m], RESTING[m]),
    "controls": lambda m: trajopt.ControlResidual(SYSTEMS[m]),
    "norm": lambda m: trajopt.SquaredNorm(dynamics.CenterOfMass(m, np.zeros(3))),
}


def problem(model, running=(), terminal=(), constraints=()):
    return trajopt.Problem(SYSTEMS[model], RESTING[model], N, running, terminal, constraints)


WANTED = {
    BALLS: r"made for RigidBodyModel 'base' \(nq 11, nv 10\).*, not for RigidBodyModel 'balls' \(nq 12, nv 9\)",
    HEAVY: r"made for RigidBodyModel 'base' .*, not for another 'base', which differs in mass, first moment",
}


@pytest.mark.parametrize("other", [BALLS, HEAVY], ids=["other ndx", "equal sizes"])
@pytest.mark.parametrize("kind", RESIDUALS)
def test_a_residual_of_another_robot_is_refused(kind, other):
    residual = RESIDUALS[kind](BASE)
    cost, constraint = trajopt.ResidualCost(residual, 1.0), trajopt.ResidualConstraint(residual, -1.0, 1.0)
    with pytest.raises(ValueError, match=r"running_costs: .* was " + WANTED[other]):
        problem(other, [cost])
    with pytest.raises(ValueError, match=r"terminal_costs: .* was " + WANTED[other]):
        problem(other, terminal=[cost])
    with pytest.raises(ValueError, match=r"constraints: .* was " + WANTED[other]):
        problem(other, constraints=[constraint])
    assert problem(BASE, [cost], constraints=[constraint]).horizon == N


@pytest.mark.parametrize("other", [BALLS, HEAVY], ids=["other ndx", "equal sizes"])
def test_bounds_and_costs_of_another_robot_s_states_are_refused(other):
    system = SYSTEMS[BASE]
    with pytest.raises(ValueError, match=r"constraints: 'state bounds' was " + WANTED[other]):
        problem(other, constraints=[trajopt.StateBounds(system, -1.0, 1.0)])
    words = r"StateCost: made for a system with \(nx, ndx\) = \(21, 20\)" if other is BALLS else WANTED[other]
    with pytest.raises(ValueError, match=words):
        problem(other, [trajopt.StateCost(system, RESTING[BASE], 1.0)])


def test_equal_robots_and_other_systems_of_them_are_the_same():
    """A copy of the model, another time step, integrator, formulation or actuation: the states are the same."""
    again = tree("a copy", dynamics.FreeFlyer(), *HINGES)
    state = [trajopt.StateCost(SYSTEMS[BASE], RESTING[BASE], 1.0)]
    tool = [trajopt.ResidualCost(RESIDUALS["translation"](again), 1.0)]
    other = dynamics.RigidBodySystem(again, 0.02, "rk4")
    assert trajopt.Problem(other, RESTING[BASE], N, state, tool).horizon == N
    gravity = trajopt.ResidualCost(RESIDUALS["gravity"](BASE), 1.0)
    with pytest.raises(ValueError, match=r"with 9 controls, not for this robot with another actuation"):
        trajopt.Problem(other, RESTING[BASE], N, [gravity])


def test_states_that_are_vectors():
    """A robot's states are no plain numbers, nor numbers of other names; what knows no more of them is accepted."""
    car = {"nx": 2, "nu": 1, "dt": 0.1, "vectorized": True}

    def step(x, u):
        return x + np.hstack([x[:, 1:], u])

    plain, named = (
        trajopt.CallableSystem(step, **car),
        trajopt.CallableSystem(step, **car, state_names=["place", "speed"]),
    )
    hinge = dynamics.RigidBodySystem(tree("hinge", dynamics.Revolute("y")), 0.1)
    for system, other in ((plain, hinge), (hinge, plain), (plain, named), (named, hinge)):
        with pytest.raises(ValueError, match=r"terminal_costs: 'StateCost' was made for .*, not for"):
            trajopt.Problem(other, [0.0, 0.0], N, [], [trajopt.StateCost(system, [1.0, 0.0], 1.0)])
    cost = trajopt.StateCost(trajopt.CallableSystem(step, **car), [1.0, 0.0], 1.0)
    for system in (plain, Pendulum()):
        assert trajopt.Problem(system, [0.0, 0.0], N, [], [cost]).horizon == N


# ------------------------------------------------------------------------------------------------ contacts and phases
def contact_costs(system):
    return {
        "cone": trajopt.ResidualCost(dynamics.FrictionCone(system, 0.6), 1.0),
        "force": trajopt.ResidualCost(dynamics.ContactForce(system), 1.0),
    }


@pytest.mark.parametrize("kind", ["cone", "force"])
def test_forces_belong_to_their_contacts(kind):
    robot, x0 = quadruped(), np.r_[standing(), np.zeros(18)]

    def stand(model=robot, feet=FEET, gains=(0.0, 50.0), dt=0.01, **options):
        contacts = [dynamics.PointContact(model, foot, gains) for foot in feet]
        return dynamics.RigidBodySystem(model, dt, actuation="floating_base", contacts=contacts, **options)

    cost = contact_costs(stand())[kind]
    for same in (stand(dt=0.02), stand(quadruped())):
        assert trajopt.Problem(same, x0, N, [cost]).horizon == N
    for other, words in (
        (stand(feet=FEET[:3]), "and contacts lf_foot, .*, not for contacts lf_foot, "),
        (stand(gains=(0.0, 40.0)), "not for the same frames with other gains"),
        (stand(contact_damping=0.1), "not for the same frames with other gains"),
        (stand(feet=[]), "not for contacts none"),
    ):
        with pytest.raises(ValueError, match=rf"running_costs: .* was made for .*{words}"):
            trajopt.Problem(other, x0, N, [cost])
    damped = replace(robot, damping=np.full(18, 0.1))
    cost = contact_costs(stand(damped))[kind]
    assert trajopt.Problem(stand(damped), x0, N, [cost]).horizon == N
    for other in (stand(damped, dt=0.02), stand(damped, joint_friction=False)):
        with pytest.raises(ValueError, match="not for this robot with other friction of its joints"):
            trajopt.Problem(other, x0, N, [cost])


def test_forces_belong_to_their_phases():
    """A cone is asked for only where its feet are held, and knows no impacts; other residuals serve everywhere."""
    robot, three = quadruped(), list(FEET[:3])
    system = dynamics.HybridSystem(robot, 0.01, [("stance", FEET, 3), ("step", three, 4), ("landing", FEET, 3)])
    x0 = system.state(standing())
    stance, _, impact, landing = system.segments
    assert isinstance(impact.system, dynamics.Impact) and stance.system is landing.system
    cone = dynamics.FrictionCone(stance.system, 0.6)

    def held(at):
        constraint = trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=at, name="cone")
        return trajopt.Problem(system, x0, system.horizon, constraints=[constraint])

    assert held([0, 1, 2, 8, 9]).horizon == system.horizon
    with pytest.raises(ValueError, match=r"'cone', at knots 2 to 3, was .*not where contacts change"):
        held([2, 3])
    with pytest.raises(ValueError, match=r"at knots 3 to 4, was made for .*, not for contacts"):
        held([0, 3, 4])
    with pytest.raises(ValueError, match=r"at knots 7 to 8, was .*not where contacts change"):
        held([7, 8])
    with pytest.raises(ValueError, match=r"at knots 7 to 7, was .*not for an impact at lf_foot"):
        held([7])
    costs = [[trajopt.ResidualCost(cone, 1.0)] if t in (0, 4) else [] for t in range(system.horizon)]
    with pytest.raises(ValueError, match=r"running_costs: 'friction cones', at knots 4 to 4, was"):
        trajopt.Problem(system, x0, system.horizon, costs)
    everywhere = [trajopt.ResidualCost(dynamics.CenterOfMass(robot, np.zeros(3)), 1.0)]
    rate = trajopt.ControlRateSystem(system)
    lifted = [rate.lift(everywhere[0]), trajopt.ControlRateCost(rate, 1.0)]
    assert trajopt.Problem(rate, rate.state(x0), system.horizon, lifted).horizon == system.horizon
    wrong = [[rate.lift(trajopt.ResidualCost(cone, 1.0))] if t in (0, 4) else [] for t in range(system.horizon)]
    with pytest.raises(ValueError, match=r"at knots 4 to 4, was made .*, with 12 controls before, not for contacts"):
        trajopt.Problem(rate, rate.state(x0), system.horizon, wrong)


def test_lifted_terms_remember_the_robot():
    rates = {model: trajopt.ControlRateSystem(system) for model, system in SYSTEMS.items()}
    center = trajopt.ResidualCost(RESIDUALS["center"](BASE), 1.0)
    bounds = trajopt.StateBounds(rates[BASE], -1.0, 1.0)
    for term in (rates[BASE].lift(center), trajopt.ControlRateCost(rates[BASE], 1.0), center):
        with pytest.raises(ValueError, match=r"running_costs: .* was made for .*'base'.*, not for"):
            trajopt.Problem(rates[HEAVY], rates[HEAVY].neutral_state, N, [term])
    with pytest.raises(ValueError, match=r"'state bounds' was made for .*, with 9 controls before, not for"):
        trajopt.Problem(rates[HEAVY], rates[HEAVY].neutral_state, N, constraints=[bounds])


def test_soft_robots():
    def robot(length):
        builder = rods.RodModelBuilder()
        basis, silicone = rods.LegendreBasis(bending_y=2), rods.Elastic(young=1e6, poisson=0.5, density=1000.0)
        builder.add_rod("rod", "world", length, rods.Circular(0.02), silicone, basis)
        return rods.SoftRobot(builder.build(), [rods.Tendon.straight("rod", 0.01, 0.0)])

    system, other = (dynamics.SoftRobotSystem(robot(length), 0.01) for length in (0.4, 0.5))
    tip = rods.LinkTranslation(system.model, "rod", [0.4, 0.0, 0.0])
    for cost in (trajopt.ResidualCost(tip, 1.0), trajopt.StateCost(system, np.zeros(6), 1.0)):
        assert trajopt.Problem(dynamics.SoftRobotSystem(robot(0.4), 0.02), np.zeros(6), N, [cost]).horizon == N
        with pytest.raises(ValueError, match=r"was made for RodModel .*, not for another '.*', which differs in rods"):
            trajopt.Problem(other, np.zeros(6), N, [cost])
    with pytest.raises(ValueError, match=r"lx: got shape \(7, 5\), expected \(at least 6, 6\)"):
        expand(tip, np.zeros((N + 1, 6)), zero_blocks(N, 5, 1), 1)


# ------------------------------------------------------------------------------------------------ arrays and their ends
def expand(residual, xs, blocks, nu, weights=None, stop=N):
    weights = np.ones((1, residual.nr)) if weights is None else weights
    return residual.add_expansion(KnotSum((0, stop), xs, np.zeros((N, nu)), ResidualWeights(weights), blocks, blocks))


SUMMED = [k for k in RESIDUALS if getattr(RESIDUALS[k](BASE), "sums_squares", False)]


@pytest.mark.parametrize("kind", SUMMED)
def test_squares_are_not_written_into_arrays_of_other_sizes(kind):
    """States are as long in both robots, tangent vectors are not."""
    residual, xs = RESIDUALS[kind](BASE), np.tile(RESTING[BALLS], (N + 1, 1))
    with pytest.raises(ValueError, match=r"lx: got shape \(7, 18\), expected \(at least 6, 20\)"):
        expand(residual, xs, zero_blocks(N, 18, 9), 9)
    _, *rest = zero_blocks(N, 18, 9)
    with pytest.raises(ValueError, match=r"lxx: got shape \(7, 18, 18\)"):
        expand(residual, xs, (np.zeros((N + 1, 20)), *rest), 9)
    good = zero_blocks(N, 20, 9)
    for blocks, words, options in (
        (good, "span: got 0, 8", {"stop": 8}),
        (good, "weights: got rows of shape", {"weights": np.ones((2, residual.nr))}),
        (good, "weights: got rows of shape", {"weights": np.ones((1, residual.nr + 1))}),
        (zero_blocks(N - 3, 20, 9), "lx: got shape", {}),
    ):
        with pytest.raises(ValueError, match=words):
            expand(residual, xs, blocks, 9, **options)
    if isinstance(residual, RobotResidual) and residual.nu is not None:
        with pytest.raises(ValueError, match=r"lu: got shape \(6, 8\), expected \(at least 6, 9\)"):
            expand(residual, xs, zero_blocks(N, 20, 8), 9)


def test_every_residual_that_sums_was_tried():
    assert {"translation", "velocity", "placement", "center", "gravity", "state"} <= set(SUMMED)
    assert isinstance(trajopt.StateResidual(SYSTEMS[BASE])._sum, StateDifference)


def test_forces_are_not_written_into_arrays_of_other_sizes():
    system = dynamics.RigidBodySystem(BASE, 0.01, contacts=[dynamics.PointContact(BASE, "tool")])
    force = dynamics.ContactForce(system)
    for sizes in ((18, 10), (20, 9)):
        with pytest.raises(ValueError, match=r"lx: got shape|lu: got shape"):
            expand(force, np.tile(RESTING[BASE], (N + 1, 1)), zero_blocks(N, *sizes), 10)


def test_plain_deviations_and_losses_check_their_arrays():
    of_state, xs = Deviation(False, np.zeros(13)), np.zeros((N + 1, 13))
    for blocks, rows in ((zero_blocks(N, 12, 2), xs), (zero_blocks(N, 13, 2), xs[:, 1:]), (zero_blocks(2, 13, 2), xs)):
        with pytest.raises(ValueError, match=r"gradient: got shape|xs: got shape"):
            expand(of_state, rows, blocks, 2)
    cost = trajopt.StateCost(Pendulum(), [0.0, 0.0], 1.0)
    with pytest.raises(ValueError, match=r"residual: got shape \(4, 3\), expected \(at least 0, 2\)"):
        cost.value(np.zeros((4, 3)), None)
    narrow = trajopt.costs.Quadratic(np.zeros((4, 1)), None, np.zeros((4, 1, 1)), None, None)
    with pytest.raises(ValueError, match=r"gradient: got shape \(4, 1\)"):
        cost.accumulate(np.zeros((4, 2)), None, 1.0, narrow)
    rate = trajopt.ControlRateSystem(Pendulum())
    rates, blocks = trajopt.ControlRateCost(rate, 1.0), trajopt.costs.Quadratic(*zero_blocks(4, 2, 1))
    with pytest.raises(ValueError, match=r"target: got shape"):
        rates.accumulate(np.zeros((4, 3)), np.zeros((4, 1)), 1.0, blocks)


def test_packed_tensors_of_another_robot():
    packed = dynamics.inverse_dynamics_second_derivatives(
        BALLS, RESTING[BALLS][:12], np.zeros(9), np.zeros(9), packed=True
    )
    with pytest.raises(ValueError, match=r"chunks: got shape .*, expected .* for this model"):
        replace(packed, model=BASE)


# ------------------------------------------------------------------------------------------------ results
def test_warm_starts_and_files_of_other_sizes(tmp_path):
    p = replace(pendulum(), constraints=[trajopt.StateBounds(Pendulum(), [-9.0, -np.inf], [9.0, np.inf])])
    solution = trajopt.ILQR(max_iterations=1).solve(p)
    start = solution.warm_start()
    (report,) = start.constraints
    for name, changed in (
        (r"us: got shape \(40,\), expected \(N, 1\)", {"us": start.us[:, 0]}),
        (r"us: got shape \(0, 1\)", {"us": start.us[:0]}),
        ("xs", {"us": start.us[1:]}),
        ("xs", {"xs": np.zeros((len(start.us), 2))}),
        *(
            ("multipliers of state bounds", {"constraints": (report._replace(multipliers=wrong),)})
            for wrong in (
                report.multipliers[1:],
                np.vstack([report.multipliers] * 2),
                np.full_like(report.multipliers, np.nan),
            )
        ),
    ):
        with pytest.raises(ValueError, match=name):
            trajopt.ILQR().solve(p, warm_start=start._replace(**changed))
    path = solution.save(tmp_path / "one.npz")
    wide = replace(p, constraints=[trajopt.StateBounds(Pendulum(), -9.0, 9.0)])
    with pytest.raises(ValueError, match=r"one.npz has constraints of \[1\] rows, expected \[2\]"):
        trajopt.Solution.load(path, wide)
    with pytest.raises(ValueError, match=r"Vx: got shape \(40, 2\), expected \(41, 2\)"):
        replace(solution, Vx=solution.Vx[1:])
