"""Gaits planned here and executed by MuJoCo, on floors, with masses and with contacts that are not the plan's.

Plans: a trot and a walk of Solo12 and of ANYmal (files of example-robot-data), the step of the humanoid of
`problems.humanoid_step`, the same with wrists of 60 g, and a step of Unitree's G1 with its 29 joints, if the package
mjlab is there, whose file has no inertias of rotors.  They count on the coefficient of friction
`problems.walker.FRICTION`, 0.65 times what the floor is expected to have.  MuJoCo has the same bodies, balls or soles
as feet, a floor with elliptic friction cones, and steps of half a millisecond; torques are decided every millisecond by
the plan's policy, from the time and the state alone.  After its end, the last posture is held for two seconds.  Laws:

    gains     plan.policy()
    default   plan.policy(joint_stiffness="auto"): stiffness and damping of the joints added, for a delay of 3 ms
    stated    the same for the delay that there is, or a period if that is longer

Variations: none; friction 0.8 and 0.6 times that which the plan counts on, where feet slip; all masses a tenth larger
or smaller; the floor 5 mm higher or lower than planned; soft contacts, MuJoCo's default; pushes of the base that
change the velocity of the whole robot by 0.2 m/s, forwards, backwards and aside, in the middle of the plan; torques
that act 3, 5 and 8 ms after their states; and positions and velocities that are measured with errors of 1 mrad or mm
and 20 mrad/s or mm/s (standard deviations, anew in every period).

A robot has fallen when its base is turned by more than 45 degrees from the plan, or has lost a third of its height.
Errors are those at the very end: of the base, and of the foot that is farthest from its planned foothold, mm.  Slip is
the longest way of a foot along the floor while it is pressed on it; late, the largest difference of a touch-down from
when it was planned.

    python -m experiments.mujoco_gaits [--quick] [--out DIR]

Needs MuJoCo and example-robot-data (make peers), and G1 pip install --no-deps mjlab.  Writes OUT/mujoco_gaits.json.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table
from scipy.spatial.transform import Rotation

import dynamics
import trajopt
from dynamics.model.joints import FREE_FLYER, PRISMATIC, REVOLUTE
from experiments.harness import Experiment, Run, quick
from experiments.harness.tables import table
from experiments.quadruped.robots import floating
from problems import humanoid_model, humanoid_step
from problems.gaits import DEFAULT, Gait, Plan, Weights
from problems.walker import FRICTION, Walker

PERIOD, STEP = 1e-3, 5e-4
"""Of the law and of MuJoCo's steps, s."""
AFTER = 2.0
"""Seconds for which the last posture is held."""
EXPECTED = 1.0 / 0.65
"""Friction of the floor over that which plans count on, where nothing varies."""
BALL, SOLE = 0.005, 0.02
"""Radius of feet that are balls, and thickness of soles, m."""
STIFF, SOFT = (0.004, 1.0), (0.02, 1.0)
"""Time constant [s] and damping ratio of contacts; MuJoCo's defaults are the soft ones."""
PUSH = 0.2, 0.05
"""Change of velocity [m/s] that a push of the base makes of the whole robot, and its duration [s]."""
LOADED = 0.02
"""Part of the weight with which a foot is pressed on the floor."""
TURNED, LOWER = np.pi / 4.0, 1.0 / 3.0
"""Of a base that has fallen: its angle from the plan [rad], and the part of its height that is lost."""
WINDOW = 200
"""Periods by which a touch-down may be early or late to be found."""
MEASURES = {"base": "mm", "feet": "mm", "slip": "mm", "late": "ms"}
SHORT = ("solo12 trot",), ("as planned", "friction 0.6")
SOLVER = trajopt.DDP(switch_threshold=0.1, max_iterations=200)
FEET = {
    "solo12": ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"),
    "anymal": ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"),
}
"""Left and right in front, left and right behind."""


class Variation(NamedTuple):
    """What differs from the plan: friction over the plan's, masses over the model's, height of the floor [m], time
    constant and damping ratio of contacts, direction of a push of the base in the middle of the plan, seconds by which
    torques act late, and standard deviations of measured positions and velocities."""

    friction: float = EXPECTED
    masses: float = 1.0
    floor: float = 0.0
    contact: tuple[float, float] = STIFF
    push: tuple[float, float] | None = None
    delay: float = 0.0
    noise: tuple[float, float] = (0.0, 0.0)


VARIATIONS = {
    "as planned": Variation(),
    "friction 0.8": Variation(friction=0.8),
    "friction 0.6": Variation(friction=0.6),
    "masses +10 %": Variation(masses=1.1),
    "masses -10 %": Variation(masses=0.9),
    "floor +5 mm": Variation(floor=5e-3),
    "floor -5 mm": Variation(floor=-5e-3),
    "soft contacts": Variation(contact=SOFT),
    "push from behind": Variation(push=(1.0, 0.0)),
    "push from the front": Variation(push=(-1.0, 0.0)),
    "push from the side": Variation(push=(0.0, 1.0)),
    "3 ms late": Variation(delay=3e-3),
    "5 ms late": Variation(delay=5e-3),
    "8 ms late": Variation(delay=8e-3),
    "noise": Variation(noise=(1e-3, 2e-2)),
}


# ------------------------------------------------------------------------------------------------ plans
class Planned(NamedTuple):
    """A robot on legs and what it is to do."""

    walker: Walker
    plan: trajopt.Solution


def quadruped_of(name: str) -> Walker:
    """Solo12 or ANYmal on its four feet."""
    import example_robot_data  # pyright: ignore[reportMissingImports]

    robot = example_robot_data.load(name)
    return Walker(floating(robot), np.array(robot.q0), FEET[name])


def quadruped_gait(name: str, plan: Plan, stride: float, height: float, horizon: int) -> Planned:
    """A gait of Solo12 or ANYmal in knots of 10 ms."""
    walker = quadruped_of(name)
    torque = DEFAULT.torque * min(1.0, (2.5 / walker.model.total_mass) ** 2)  # torques grow with the weight
    weights = DEFAULT._replace(torque=torque)
    problem = Gait(walker, plan, (stride, 0.0, 0.0), height, horizon, 0.01, weights).problem(name)
    return Planned(walker, SOLVER.solve(problem))


def trot(name: str, stride: float, height: float) -> Planned:
    """Two steps, two legs at a time, diagonally."""
    lf, rf, lh, rh = FEET[name]
    return quadruped_gait(name, [(1, ()), (4, (lf, rh)), (4, (rf, lh)), (3, ())], stride, height, 62)


def walk(name: str, stride: float, height: float) -> Planned:
    """One step with each leg, one at a time, hind leg before front leg."""
    lf, rf, lh, rh = FEET[name]
    phases = [(1, ()), (4, (rh,)), (4, (rf,)), (1, ()), (4, (lh,)), (4, (lf,)), (2, ())]
    return quadruped_gait(name, phases, stride, height, 104)


G1 = {"hip_pitch": -0.312, "knee": 0.669, "ankle_pitch": -0.357, "elbow": 0.6, "shoulder_pitch": 0.2}
"""Angles of G1 where it stands on level soles, rad; all others are zero."""
G1_TORQUES = {
    "hip_pitch": 88.0, "hip_roll": 139.0, "hip_yaw": 88.0, "knee": 139.0, "ankle": 50.0, "waist_yaw": 88.0,
    "waist": 50.0, "wrist_roll": 25.0, "wrist": 5.0, "": 25.0,
}  # fmt: skip
"""Torques of its motors by the first name that fits, N m; its file has none."""
G1_SOLE = (0.09, 0.025)
"""Half lengths of its soles, m."""


def step_of(walker: Walker, torques: np.ndarray, stride: float) -> Planned:
    """A step of a humanoid in knots of 20 ms, as that of `problems.humanoid_step`."""
    weights = Weights(
        posture=1.0, speed=1e-1, center=(1e2, 0.0, 1e2), torque=3.0 / torques**2, swing=1e3, foothold=1e5,
        landing=1e-1, end=1e3,
    )  # fmt: skip
    plan = [(knots, tuple(f"{side}_foot" for side in legs)) for knots, legs in humanoid_step.PLAN]
    gait = Gait(walker, plan, (stride, 0.0, 0.0), 0.05, 82, 0.02, weights)
    return Planned(walker, SOLVER.solve(gait.problem("step")))


def with_light_wrists() -> Planned:
    """The humanoid with wrists of 50 g, which turn about two axes."""
    model, wrist = humanoid_model.humanoid(), np.diag([1e-4, 1e-4, 2e-5])
    for side in humanoid_model.SIDES:
        roll, hand = f"{side}_wrist", f"{side}_palm"
        model = model.with_body(roll, f"{side}_hand", dynamics.Revolute("z"), mass=0.01, inertia=wrist, effort=5.0)
        at = (0.0, 0.0, -0.02)
        model = model.with_body(hand, roll, dynamics.Revolute("y"), mass=0.05, com=at, inertia=wrist, effort=5.0)
    standing = np.zeros(model.nq)
    angles = dict(zip(humanoid_model.humanoid().joint_names[1:], humanoid_model.standing()[7:], strict=True))
    standing[:7] = humanoid_model.standing()[:7]
    for name, i in zip(model.joint_names[1:], model.q_index[1:], strict=True):
        standing[i] = angles.get(name, 0.0)
    walker = Walker(model, standing, humanoid_model.FEET, humanoid_model.SOLE)
    return step_of(walker, model.effort_limit[6:], 0.2)


def g1_file() -> Path | None:
    """The file of Unitree's G1 with 29 joints in the package `mjlab`, which need not be imported; None without it."""
    package = find_spec("mjlab")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "asset_zoo/robots/unitree_g1/xmls/g1.xml"


def g1() -> Planned:
    """A step of G1 on its soles, without the inertias of rotors, which its file does not have."""
    file = g1_file()
    assert file is not None
    model = dynamics.load_robot(file)
    names = model.joint_names[1:]
    torques = np.array([next(t for part, t in G1_TORQUES.items() if part in name) for name in names])
    model = replace(model, effort_limit=np.append(np.full(6, np.inf), torques))
    standing, sides = np.zeros(model.nq), {"left": 1.0, "right": -1.0}
    standing[6] = 1.0
    for name, i in zip(names, model.q_index[1:], strict=True):
        standing[i] = next((angle for part, angle in G1.items() if part in name), 0.0)
        if "shoulder_roll" in name:
            standing[i] = 0.2 * sides[name.partition("_")[0]]
    feet = ("left_foot", "right_foot")
    standing[2] = -dynamics.frame_placement(model, standing, feet[0]).p[2]
    return step_of(Walker(model, standing, feet, G1_SOLE), torques, 0.15)


PLANS: dict[str, Callable[[], Planned]] = {
    "solo12 trot": lambda: trot("solo12", 0.1, 0.04),
    "solo12 walk": lambda: walk("solo12", 0.08, 0.04),
    "anymal trot": lambda: trot("anymal", 0.15, 0.08),
    "anymal walk": lambda: walk("anymal", 0.15, 0.08),
    "humanoid step": lambda: Planned(humanoid_model.walker(), SOLVER.solve(humanoid_step.make())),
    "light wrists": with_light_wrists,
    **({} if g1_file() is None else {"g1 step": g1}),
}
Law = Callable[[float, np.ndarray], np.ndarray]


LAWS = ("gains", "default", "stated")


def law_of(plan: trajopt.Solution, name: str, delay: float) -> Law:
    """One of `LAWS`, the last for this delay."""
    if name == "gains":
        return plan.policy()
    with warnings.catch_warnings():  # where nothing is added, the table says what became of it
        warnings.simplefilter("ignore", RuntimeWarning)
        return plan.policy(joint_stiffness="auto", delay=max(delay, PERIOD) if name == "stated" else None)


# ------------------------------------------------------------------------------------------------ plant
def mujoco() -> Any:
    """The module; ImportError that names the extra where it is not installed."""
    try:
        import mujoco as module  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("this comparison needs MuJoCo: make peers") from error
    return module


def specification(model: dynamics.RigidBodyModel) -> Any:
    """A `mujoco.MjSpec` of the same tree, not compiled yet: bodies by the names of the model's, without shapes.

    Raises ImportError without MuJoCo, ValueError for joints other than revolute, prismatic and free ones.
    """
    mj, m = mujoco(), model.arrays
    kinds = {REVOLUTE: mj.mjtJoint.mjJNT_HINGE, PRISMATIC: mj.mjtJoint.mjJNT_SLIDE}
    if not set(m.joint_type) <= {*kinds, FREE_FLYER}:
        raise ValueError("model: got other joints, expected revolute, prismatic and free ones only")
    spec = mj.MjSpec()
    spec.option.gravity = model.gravity
    bodies = []
    for i, (parent, joint) in enumerate(zip(m.parent, m.joint_type, strict=True)):
        blocks = m.rotation[i].reshape(3, 3, 3)  # R A, R B, R C of Rodrigues' formula, A + B the identity
        x, y, z, w = Rotation.from_matrix(blocks[0] + (blocks[1] if joint == REVOLUTE else 0.0)).as_quat()
        above = bodies[parent] if parent >= 0 else spec.worldbody
        body = above.add_body(name=model.body_names[i], pos=m.translation[i], quat=[w, x, y, z])
        com = m.first_moment[i] / m.mass[i]
        xx, xy, xz, yy, yz, zz = m.rotational_inertia[i]
        shift = m.mass[i] * (com @ com * np.eye(3) - np.outer(com, com))
        I = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - shift
        body.explicitinertial, body.mass, body.ipos = True, m.mass[i], com
        body.fullinertia = [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]]
        k = m.v_index[i]
        if joint == FREE_FLYER:
            body.add_freejoint()
        else:
            body.add_joint(type=kinds[int(joint)], axis=m.dof_axis[k], armature=m.armature[k])
        bodies.append(body)
    return spec


class Plant:
    """A robot in MuJoCo, on a floor under its feet."""

    def __init__(self, walker: Walker, change: Variation) -> None:
        mj, self.walker, model = mujoco(), walker, walker.model
        masses = change.masses * dynamics.inertial_parameters(model)
        self.spec = spec = specification(dynamics.with_inertial_parameters(model, masses))
        spec.option.timestep, spec.option.cone = STEP, mj.mjtCone.mjCONE_ELLIPTIC
        spec.option.integrator = mj.mjtIntegrator.mjINT_IMPLICITFAST
        ground = min(place[2] for place in walker.footholds().values())
        shared = {"friction": [change.friction * FRICTION, 0.0, 0.0], "condim": 3, "solref": list(change.contact)}
        under = BALL if walker.sole is None else 0.0
        spec.worldbody.add_geom(
            name="floor", type=mj.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0],
            pos=[0.0, 0.0, ground - under + change.floor], contype=1, conaffinity=2, **shared,
        )  # fmt: skip
        for foot in walker.feet:
            frame = model.frame(foot)
            body = spec.body(model.body_names[frame.body])
            if walker.sole is None:
                kind, size, at = mj.mjtGeom.mjGEOM_SPHERE, [BALL, 0.0, 0.0], frame.p
            else:
                kind, size = mj.mjtGeom.mjGEOM_BOX, [*walker.sole, 0.5 * SOLE]
                at = frame.p + frame.R @ [0.0, 0.0, 0.5 * SOLE]
            body.add_geom(name=foot, type=kind, size=size, pos=at, contype=2, conaffinity=1, mass=0.0, **shared)
        self.model = spec.compile()
        self.data, self.mj = mj.MjData(self.model), mj
        self.feet = [self.model.geom(foot).id for foot in walker.feet]

    def put(self, x: np.ndarray) -> None:
        """Begin in the state x (nx,)."""
        self.data.qpos[:], self.data.qvel[:] = dynamics.to_mujoco_state(self.walker.model, x)
        self.mj.mj_forward(self.model, self.data)

    @property
    def state(self) -> np.ndarray:
        """The state (nx,)."""
        return dynamics.from_mujoco_state(self.walker.model, self.data.qpos, self.data.qvel)

    def pressures(self) -> np.ndarray:
        """Normal forces on the feet, N."""
        force, found = np.zeros(6), np.zeros(len(self.feet))
        for i, contact in enumerate(self.data.contact):
            self.mj.mj_contactForce(self.model, self.data, i, force)
            found[[self.feet.index(geom) for geom in contact.geom if geom in self.feet]] += force[0]
        return found

    def places(self) -> np.ndarray:
        """Of the feet's shapes in the plane (F, 2), m."""
        return self.data.geom_xpos[self.feet, :2].copy()

    def step(self, u: np.ndarray, push: np.ndarray) -> None:
        """A period with these torques and this force on the base."""
        self.data.qfrc_applied[6:], self.data.xfrc_applied[1, :3] = u, push
        for _ in range(round(PERIOD / STEP)):
            self.mj.mj_step(self.model, self.data)


def touch_downs(plan: trajopt.Solution) -> list[tuple[float, str]]:
    """When which feet come down, s."""
    system: Any = plan.problem.system
    found, before = [], ()
    for segment in system.segments:
        frames = segment.system.contact_frames
        if segment.system.dt == 0.0:
            found += [(float(plan.times[segment.start]), foot) for foot in frames if foot not in before]
        before = frames
    return found


def executed(what: Planned, law: Law, change: Variation) -> dict[str, Any]:
    """What became of a plan under a law: whether it fell, and if not errors of base and feet, slip [mm], and how late
    feet came down [ms]."""
    (walker, plan), plant = what, Plant(what.walker, change)
    model, end, reference = walker.model, float(plan.times[-1]), plan.policy().reference
    nq, weight = model.nq, change.masses * model.total_mass * 9.81
    speed, lasting = PUSH
    push = np.zeros(3) if change.push is None else np.array([*change.push, 0.0]) * weight / 9.81 * speed / lasting
    plant.put(plan.xs[0])
    slip, rng, errors = np.zeros(len(walker.feet)), np.random.default_rng(0), np.repeat(change.noise, model.nv)
    loads: list[np.ndarray] = []
    late = [plan.us[0]] * round(change.delay / PERIOD)  # torques that have not acted yet
    for i in range(round((end + AFTER) / PERIOD)):
        t = i * PERIOD
        x, planned = plant.state, reference(t)
        if fallen(model, planned, x):
            return {"fell": True, "at": t}
        places = plant.places()
        late.append(law(t, measured(model, x, errors * rng.standard_normal(2 * model.nv))))
        plant.step(late.pop(0), push if 0.5 * end <= t < 0.5 * end + lasting else np.zeros(3))
        loads.append(plant.pressures() > LOADED * weight)
        stays = loads[-1] & loads[max(i - 1, 0)]
        slip += np.where(stays, np.linalg.norm(plant.places() - places, axis=1), 0.0)
    pressed, last = np.array(loads), plan.xs[-1]
    footholds = np.array([dynamics.frame_placement(model, last[:nq], foot).p for foot in walker.feet])
    return {
        "fell": False,
        "base": 1e3 * float(np.linalg.norm(plant.state[:3] - last[:3])),
        "feet": 1e3 * float(np.linalg.norm(plant.places() - footholds[:, :2], axis=1).max()),
        "slip": 1e3 * float(slip.max()),
        "late": max(lateness(pressed[:, walker.feet.index(foot)], t) for t, foot in touch_downs(plan)),
    }


def measured(model: dynamics.RigidBodyModel, x: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The state x (nx,) as it is measured with this error (2 nv,) along the tangent."""
    q = dynamics.integrate(model, x[: model.nq], error[: model.nv])
    return np.append(q, x[model.nq :] + error[model.nv :])


def fallen(model: dynamics.RigidBodyModel, planned: np.ndarray, x: np.ndarray) -> bool:
    """True if the base in the state x is upset, or far too low."""
    if not np.isfinite(x).all():
        return True
    turned = dynamics.difference(model, planned[: model.nq], x[: model.nq])[3:6]
    return bool(np.linalg.norm(turned) > TURNED or x[2] < (1.0 - LOWER) * planned[2])


def lateness(pressed: np.ndarray, t: float) -> float:
    """Milliseconds between t and the touch-down of a foot that is nearest to it, `WINDOW` if there is none so near."""
    moment = round(t / PERIOD)
    begins = np.flatnonzero(pressed[1:] & ~pressed[:-1]) + 1
    return float(min(np.abs(begins - moment).min(initial=WINDOW), WINDOW))


# ------------------------------------------------------------------------------------------------ the study
def row(name: str, variations: Iterable[str]) -> dict[str, Any]:
    """A plan under all laws and these variations."""
    what = PLANS[name]()
    plan = what.plan
    found: dict[str, Any] = {"plan": name, "status": str(plan.status), "iterations": plan.log[-1].iteration}
    found["laws"] = {}
    for key in LAWS:
        runs = found["laws"][key] = {}
        for each in variations:
            change = VARIATIONS[each]
            runs[each] = executed(what, law_of(plan, key, change.delay), change)
    return found


def study(run: Run) -> dict[str, Any]:
    """All plans."""
    plans, variations = SHORT if run.options.quick else (tuple(PLANS), tuple(VARIATIONS))
    return {"gaits": [row(name, variations) for name in run.track(plans, "executing")]}


def tables(results: dict[str, Any]) -> Iterable[Table]:
    """Every run, and sums over the variations."""
    columns = [f"{what} [{unit}] {law}" for what, unit in MEASURES.items() for law in LAWS]
    sections = []
    for each in results["gaits"]:
        runs = each["laws"]
        sections.append(
            [
                [each["plan"], variation, *(_shown(runs[law][variation], key) for key in MEASURES for law in LAWS)]
                for variation in runs[LAWS[0]]
            ]
        )
    yield table("Runs in MuJoCo", ["plan", "variation"], columns, sections)
    body = []
    for each in results["gaits"]:
        for law, runs in each["laws"].items():
            up = [run for run in runs.values() if not run["fell"]]
            medians = [float(np.median([run[key] for run in up])) if up else None for key in MEASURES]
            body.append([each["plan"], law, f"{len(runs) - len(up)} of {len(runs)}", *medians])
    yield table(
        "Falls, and medians of those who stood", ["plan", "law"],
        ["falls", "base [mm]", "feet [mm]", "slip [mm]", "late [ms]"], [body],
    )  # fmt: skip


def _shown(run: dict[str, Any], key: str) -> Any:
    return "fell" if run["fell"] else run[key]


main = Experiment("mujoco_gaits", __doc__, study, options=[quick("one plan, two variations")], tables=tables, width=200)

if __name__ == "__main__":
    raise SystemExit(main())
