"""Robots from MJCF, through MuJoCo's compiler: bodies, joints, shapes, tendons, actuators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

import numpy as np
from scipy.spatial.transform import Rotation

from dynamics.formats.mujoco_states import body_names, joint_names, named
from dynamics.formats.robot_files import Remarks, is_file
from dynamics.formats.xml import root_of
from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Mesh, Shape, Sphere
from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import Fixed, FreeFlyer, Joint, Prismatic, Revolute, Spherical
from dynamics.model.links import IDENTITY, Pose, compose
from dynamics.model.model import RigidBodyModel
from dynamics.validation import as_kind

if TYPE_CHECKING:
    import mujoco  # pyright: ignore[reportMissingImports]


# --------------------------------------------------------------------------------------------
# The shapes of a compiled model of MuJoCo: collision shapes and visual shapes.

Reader = Callable[[np.ndarray, np.ndarray], Pose]
"""Converter of a position and a quaternion to a pose."""


def add_geoms(
    m: Any, mujoco: ModuleType, builder: ModelBuilder, bodies: list[str], names: Sequence[str], pose: Reader
) -> list[str]:
    """Add all geoms to bodies of these names; returns the names of geoms of unknown kinds.

    Geoms that collide with nothing are visual.
    """
    lost, taken = [], set()
    for g, own in enumerate(names):
        name = own if own not in taken else f"{own}_{g}"
        taken.add(name)
        shape = _shape(m, g, mujoco.mjtGeom(m.geom_type[g]).name.removeprefix("mjGEOM_").lower())
        if shape is None:
            lost.append(own)
            continue
        material = m.geom_matid[g]
        color = np.clip(m.geom_rgba[g] if material < 0 else m.mat_rgba[material], 0.0, 1.0)
        purpose = "collision" if m.geom_contype[g] or m.geom_conaffinity[g] else "visual"
        place = pose(m.geom_pos[g], m.geom_quat[g])
        builder.add_geometry(bodies[m.geom_bodyid[g]], shape, place, purpose, name, color)
    return lost


def _shape(m: Any, g: int, kind: str) -> Shape | None:
    a, b, _ = size = m.geom_size[g]
    if kind == "mesh":
        return _mesh(m, m.geom_dataid[g])
    made: dict[str, Callable[[], Shape]] = {
        "plane": HalfSpace, "sphere": lambda: Sphere(a), "capsule": lambda: Capsule(a, (0, 0, -b), (0, 0, b)),
        "ellipsoid": lambda: Ellipsoid(size), "cylinder": lambda: Cylinder(a, 2.0 * b), "box": lambda: Box(size),
    }  # fmt: skip
    return made[kind]() if kind in made else None


def _mesh(m: Any, mesh: int) -> Mesh:
    """Mesh as compiled: scaled, with its origin and axes at those of the geom."""
    vertices = m.mesh_vert[m.mesh_vertadr[mesh] :][: m.mesh_vertnum[mesh]]
    faces = m.mesh_face[m.mesh_faceadr[mesh] :][: m.mesh_facenum[mesh]]
    return Mesh(vertices=vertices.astype(float), faces=faces)


# --------------------------------------------------------------------------------------------
# Robots from MuJoCo's models.
#
# MuJoCo itself reads and compiles the XML, with defaults, includes, inertias from geoms, Euler angles and units; the
# compiled model is read here.  A body with several joints becomes as many moving bodies, all but the last without
# mass; a joint that does not pass through its body's origin carries an additional body to which the body is fixed.
#
# Configurations differ in quaternions alone: MuJoCo has w first and the velocity of a free body's origin in world axes,
# `dynamics` has w last and all velocities in body axes.

FREE, BALL, SLIDE, HINGE = range(4)
"""MuJoCo's types of joints."""
ON_JOINT, ON_JOINT_IN_PARENT, ON_TENDON, ON_SITE = 0, 1, 3, 4
"""MuJoCo's actuator transmissions that are supported."""
TORQUE_SCALE = 10
"""Index, in the data of a weld, of the weight of its rotations; with weight 0 it is a connection."""
ALONG_JOINT, AT_SITE = 1, 3
"""MuJoCo's types of tendon parts: a multiple of a joint's position, a site that the tendon passes."""


def import_mujoco() -> ModuleType:
    """The package mujoco; ImportError with the command that installs it."""
    try:
        import mujoco  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(f"MJCF is read by the package mujoco, of the extra `robots` ({error})") from None
    return mujoco


def mjcf_builder(path_or_text: str | Path) -> ModelBuilder:
    """A builder of the robot in an MJCF file or in MJCF text; see `from_mujoco`.

    Parameters
    ----------
    path_or_text : path of a file, or the XML text itself (recognised by its first character, "<")

    Raises
    ------
    ValueError : a file that MuJoCo cannot compile, with its message; one with numbers that are not finite, or that
        makes more than `COPIES` elements or `NUMBERS` numbers out of few.
    FileNotFoundError : if there is no such file.
    ImportError : without the package mujoco.
    """
    mujoco = import_mujoco()
    text = str(path_or_text).lstrip("\ufeff \t\r\n")
    is_text = isinstance(path_or_text, str) and text.startswith("<")
    if not is_text and not is_file(path_or_text):
        raise FileNotFoundError(f"path_or_text: there is no file {str(path_or_text)[:200]!r}")
    origin = "MJCF text" if is_text else f"MJCF file {str(path_or_text)[:200]!r}"
    _check_bounds(origin, text if is_text else Path(path_or_text).read_bytes(), None if is_text else Path(path_or_text))
    try:
        compile_ = mujoco.MjModel.from_xml_string if is_text else mujoco.MjModel.from_xml_path
        compiled = compile_(text if is_text else str(path_or_text))
    except ValueError as error:
        raise ValueError(f"{origin}: {' '.join(str(error).split())}") from None
    return _Reader(compiled, mujoco).read()


COPIES, NUMBERS = 10_000, 100_000_000
"""Most elements of a file whose parts are copied, which MuJoCo compiles in some ten seconds, and most numbers of a
height field or a texture."""
COPIED = "replicate", "composite", "flexcomp"
"""Elements whose attribute count says how many there are."""
GRIDS = {"hfield": ("nrow", "ncol"), "texture": ("width", "height")}
"""Elements with numbers on a grid, and the attributes of its sizes."""
TEXTS = frozenset(
    """name class childclass file model prefix body body1 body2 joint joint1 joint2 geom geom1 geom2 site site1 site2
    tendon tendon1 tendon2 material mesh texture actuator target sensor key hfield skin flex plugin instance""".split()
)
"""Attributes that hold names."""


def _check_bounds(origin: str, source: str | bytes, path: Path | None) -> None:
    """ValueError for what MuJoCo takes without a word, or without an end: numbers that are not finite, of which a mass
    of NaN is one that was not given, and copies beyond number.  Files that are included count."""
    seen: set[Path] = set()
    elements = 0
    pending: list[tuple[str | bytes, int]] = [(source, 1)]
    while pending:
        content, copies = pending.pop()
        try:
            inside = [(root_of(content), copies)]
        except Exception:  # MuJoCo reports the error
            continue
        while inside:
            element, copies = inside.pop()
            named = f" name={element.get('name')!r}" if element.get("name") else ""
            where = f"{origin}: <{element.tag}{named}>"
            _check_numbers(where, element)
            if element.tag in COPIED:
                copies *= _product(element.get("count", "1").split())
            elements += copies
            if copies > 1 and elements > COPIES:
                raise ValueError(f"{where}: got more than {COPIES} elements by its copies, expected at most these")
            grid = _product([element.get(size, "1") for size in GRIDS.get(element.tag, ())])
            if grid > NUMBERS:
                raise ValueError(f"{where}: got a grid of {grid} numbers, expected at most {NUMBERS}")
            inside += [(child, copies) for child in element]
            if path is not None and element.tag in ("include", "model") and element.get("file"):
                file = path.parent / element.get("file", "")
                if file not in seen and is_file(file):
                    seen.add(file)
                    pending.append((file.read_bytes(), copies))


def _check_numbers(where: str, element: Element) -> None:
    """ValueError for an attribute with a number that is not finite."""
    for name, value in element.attrib.items():
        if name not in TEXTS and any(word.lstrip("+-").lower() in ("nan", "inf", "infinity") for word in value.split()):
            raise ValueError(f"{where}: attribute {name!r} is {value!r}, expected finite numbers")


def _product(counts: list[str]) -> int:
    """The product of those of the words that are positive integers."""
    return prod(int(word) for word in counts if word.isdecimal() and len(word) < 20 and int(word) > 0)


def from_mujoco(model: mujoco.MjModel | mujoco.MjSpec) -> RigidBodyModel:
    """Robot model from a compiled model of MuJoCo, or a specification, which is compiled.

    Parameters
    ----------
    model : mujoco.MjModel or mujoco.MjSpec

    Returns
    -------
    RigidBodyModel
        Bodies, joints of all types with limits, armature, damping and dry friction, sites as frames, springs of hinges
        and slides and of fixed tendons, and as actuators the motors on these: their control is the force, between the
        limits of force, or of control times gain.  Servos, muscles and other actuators with a law of their own are
        read as such motors; those of disabled groups are left out.  Connections, welds (without rotations where their
        torquescale is 0) and linear constraints of joints and fixed tendons are the model's `loops` and `couplings`,
        geoms its shapes.  Joints have the coordinates of MuJoCo, references included; quaternions have w last.  Parts
        without a name are named by kind and number, "joint3", or a joint by its body if that name is taken.

    Raises
    ------
    TypeError : for a model of another type.
    ValueError : a model without moving bodies, or with a body that no joint can move.

    Warns
    -----
    UserWarning : names unread parts that change how the robot moves, and parts that are read differently.
    """
    return mujoco_builder(model).build()


def mujoco_builder(model: mujoco.MjModel | mujoco.MjSpec) -> ModelBuilder:
    """A builder of the robot; see `from_mujoco`."""
    mujoco = import_mujoco()
    if isinstance(model, mujoco.MjSpec):
        model = model.compile()
    return _Reader(as_kind("model", model, mujoco.MjModel, "a mujoco.MjModel or MjSpec"), mujoco).read()


class _Reader:
    """Conversion of a compiled model to a builder, part by part; unread parts are recorded in `remarks`."""

    def __init__(self, model: Any, mujoco: ModuleType) -> None:
        self.m, self.mujoco = model, mujoco
        self.name = bytes(model.names).split(b"\0", 1)[0].decode() or "robot"
        off = getattr(model.opt, "disableflags", getattr(model.opt, "disableflag", 0))  # before MuJoCo 4
        falls = not off & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        self.builder = ModelBuilder(model.opt.gravity if falls else np.zeros(3), self.name, strict=False)
        self.body_names, self.joint_names = body_names(model), joint_names(model)
        self.site_names: list[str] = []
        self.controls = getattr(model, "actuator_ctrlnum", np.ones(model.nu, int))  # one of each before MuJoCo 4
        self.first_controls = getattr(model, "actuator_ctrladr", np.arange(model.nu))
        self.remarks = Remarks(f"MJCF model {self.name!r}")
        for part in ("PASSIVE", "SPRING", "DAMPER", "CONSTRAINT", "FRICTIONLOSS", "LIMIT", "EQUALITY", "ACTUATION"):
            if off & int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{part}", 0)):
                self._lose("parts that a flag disables, read as if it did not", part.lower())

    def read(self) -> ModelBuilder:
        for body in range(1, self.m.nbody):
            self._add_body(body)
        self._add_sites()
        geoms = self._names("geom", self.m.ngeom)
        for name in add_geoms(self.m, self.mujoco, self.builder, self.body_names, geoms, _pose):
            self._lose("geoms of kinds that have no shape here, not read", name)
        for j in range(self.m.njnt):
            self._add_joint_spring(j)
        for t, name in enumerate(self._names("tendon", self.m.ntendon)):
            self._add_tendon(t, name)
        for i, name in enumerate(self._names("actuator", getattr(self.m, "nactuator", self.m.nu))):
            self._add_actuator(i, name)
        for e, name in enumerate(self._names("equality", self.m.neq)):
            if self.m.eq_active0[e]:
                self._add_equality(e, name)
        self._note_the_rest()
        self.remarks.warn()
        return self.builder

    def _names(self, kind: str, count: int) -> list[str]:
        code = getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
        own = [self.mujoco.mj_id2name(self.m, code, i) for i in range(count)]
        return named(own, lambda i: [f"{kind}{i}"])

    def _lose(self, what: str, name: str) -> None:
        self.remarks.add(what, name)

    # -------------------------------------------------------------------------------------------- the tree
    def _add_body(self, body: int) -> None:
        m = self.m
        name, parent = self.body_names[body], self.body_names[m.body_parentid[body]]
        inertia = _inertia(m, body)
        place = _pose(m.body_pos[body], m.body_quat[body])
        joints = range(m.body_jntadr[body], m.body_jntadr[body] + m.body_jntnum[body])
        if m.body_mocapid[body] >= 0:
            self._lose("bodies that motion capture moves, fixed here", name)
        for j in joints:
            kind = m.jnt_type[j]
            free = kind == FREE
            anchor = np.zeros(3) if free else m.jnt_pos[j]
            reference = 0.0 if kind in (FREE, BALL) else m.qpos0[m.jnt_qposadr[j]]
            joint = _joint(kind, m.jnt_axis[j])
            at_zero = IDENTITY if free else compose(place, (np.eye(3), anchor))
            if reference != 0.0:
                at_zero = compose(at_zero, joint.placement(np.array([-reference])))
            last = j == joints[-1] and not anchor.any()
            child = name if last else f"{name}_{self.joint_names[j]}"
            parameters = self._joint_parameters(j) | (inertia if last else {})
            self.builder.add_body(child, parent, joint, self.joint_names[j], placement=at_zero, **parameters)
            if last:
                return
            parent, place = child, (np.eye(3), -anchor)
        self.builder.add_body(name, parent, Fixed(), placement=place, **inertia)

    def _joint_parameters(self, j: int) -> dict[str, Any]:
        """Limits, armature, damping and friction of a joint."""
        m = self.m
        dofs = slice(m.jnt_dofadr[j], m.jnt_dofadr[j] + (6, 3, 1, 1)[m.jnt_type[j]])
        parameters: dict[str, Any] = {
            "armature": m.dof_armature[dofs], "damping": m.dof_damping[dofs], "friction": m.dof_frictionloss[dofs]
        }  # fmt: skip
        if m.jnt_type[j] == FREE:
            self._note_axes_of_free_joint(self.joint_names[j], **parameters)
        if m.jnt_limited[j]:
            if m.jnt_type[j] in (SLIDE, HINGE):
                parameters["lower"], parameters["upper"] = m.jnt_range[j]
            else:
                self._lose("limits of ball joints, not read", self.joint_names[j])
        if m.jnt_actfrclimited[j]:
            low, high = m.jnt_actfrcrange[j]
            parameters["effort"] = max(abs(low), abs(high))
            if low != -high and self._actuators_of(j) != 1:
                self._lose(
                    "limits of joint forces that differ in size, of joints with no or several actuators, read as the "
                    "larger one, expected trajopt.ControlBounds or a constraint in the problem for the other one",
                    self.joint_names[j],
                )
        return parameters

    def _actuators_of(self, j: int) -> int:
        """Number of actuators that drive a joint, themselves or by a fixed tendon."""
        m, name = self.m, self.joint_names[j]
        kinds, targets = m.actuator_trntype, m.actuator_trnid[:, 0]
        on_joint = np.isin(kinds, (ON_JOINT, ON_JOINT_IN_PARENT)) & (targets == j)
        along = [t for t in targets[kinds == ON_TENDON] if name in (self._along_joints(t) or {})]
        return int(np.count_nonzero(on_joint)) + len(along)

    def _note_axes_of_free_joint(
        self, name: str, armature: np.ndarray, damping: np.ndarray, friction: np.ndarray
    ) -> None:
        """Record the differences that arise because MuJoCo's translations are in world axes, and ours in body axes.

        Equal damping of all three has none; equal armature a differs by its force a (omega x v) in the body's axes,
        without which a rotating body does not keep its velocity.
        """
        if armature[:3].any():
            self._lose("armature of free joints, read without the force a (omega x v) of bodies that turn", name)
        if friction[:3].any():
            self._lose(
                "dry friction of free joints, which is along axes of the world, read along those of the body", name
            )
        if np.ptp(damping[:3]) > 0.0:
            self._lose("uneven damping of free joints, along axes of the world, read along those of the body", name)

    def _add_sites(self) -> None:
        taken = {*self.body_names, *self.joint_names}
        for i, name in enumerate(self._names("site", self.m.nsite)):
            name = f"{name}_site" if name in taken else name
            self.site_names.append(name)
            pose = _pose(self.m.site_pos[i], self.m.site_quat[i])
            self.builder.add_frame(name, self.body_names[self.m.site_bodyid[i]], pose)

    # -------------------------------------------------------------------------------------------- forces
    def _add_joint_spring(self, j: int) -> None:
        m, name = self.m, self.joint_names[j]
        if m.jnt_stiffness[j] == 0.0:
            return
        if m.jnt_type[j] in (SLIDE, HINGE):
            self.builder.add_spring({name: 1.0}, m.jnt_stiffness[j], m.qpos_spring[m.jnt_qposadr[j]])
            if _any(m, "jnt_springyield", j):
                self._lose("springs that yield, read as such that do not", name)
        else:
            self._lose("springs of ball and free joints, not read", name)

    def _along_joints(self, t: int) -> dict[str, float] | None:
        """Joints and coefficients of a fixed tendon; None for a spatial one."""
        m = self.m
        parts = range(m.tendon_adr[t], m.tendon_adr[t] + m.tendon_num[t])
        if any(m.wrap_type[w] != ALONG_JOINT for w in parts):
            return None
        return {self.joint_names[m.wrap_objid[w]]: float(m.wrap_prm[w]) for w in parts}

    def _add_tendon(self, t: int, name: str) -> None:
        m = self.m
        stiffness, damping = m.tendon_stiffness[t], m.tendon_damping[t]
        slack, taut = m.tendon_lengthspring[t]
        if stiffness > 0.0 or damping > 0.0:
            joints = self._along_joints(t)
            if joints is None or slack != taut:
                self._lose("springs of tendons through space or with play, not read", name)
            else:
                self.builder.add_spring(joints, stiffness, slack, damping)
                if _any(m, "tendon_springyield", t):
                    self._lose("springs that yield, read as such that do not", name)
        if m.tendon_limited[t] or m.tendon_frictionloss[t] > 0.0 or _any(m, "tendon_armature", t):
            self._lose("limits, friction and armature of tendons, not read", name)

    def _add_actuator(self, i: int, name: str) -> None:
        m, kind = self.m, self.m.actuator_trntype[i]
        target, gear = m.actuator_trnid[i, 0], m.actuator_gear[i]
        if m.opt.disableactuator & (1 << int(m.actuator_group[i])):
            return self._lose("actuators of groups that are disabled, left out", name)
        joints = None
        if kind in (ON_JOINT, ON_JOINT_IN_PARENT) and m.jnt_type[target] in (SLIDE, HINGE):
            joints = {self.joint_names[target]: gear[0]}
        elif kind == ON_TENDON and (along := self._along_joints(target)) is not None:
            joints = {joint: gear[0] * arm for joint, arm in along.items()}
        sites = self._sites_of(kind, i, target)
        if joints is None and sites is None:
            return self._lose("actuators on other than joints, fixed tendons, sites, lines of sites, not read", name)
        controls, control = self.controls[i], self.first_controls[i]
        affine = m.actuator_biastype[i] != 0 or m.actuator_gaintype[i] != 0 or m.actuator_dyntype[i] != 0
        if affine or controls != 1:
            self._lose("servos, muscles and actuators with a law of their own, read as motors of their force", name)
        if any(_any(m, f"actuator_{figure}", i) for figure in ("armature", "damping", "dampingpoly")):
            self._lose("armature and damping of actuators, not read", name)
        if _any(m, "actuator_delay", i):
            self._lose("delays of controls, not read", name)
        lower, upper = -np.inf, np.inf
        if m.actuator_forcelimited[i]:
            lower, upper = m.actuator_forcerange[i]
        if controls == 1 and m.actuator_ctrllimited[control] and not affine:
            ends = sorted(m.actuator_gainprm[i, 0] * m.actuator_ctrlrange[control])
            lower, upper = max(lower, ends[0]), min(upper, ends[1])
        if kind == ON_TENDON and _any(m, "tendon_actfrclimited", target):
            if np.count_nonzero((m.actuator_trntype == ON_TENDON) & (m.actuator_trnid[:, 0] == target)) == 1:
                ends = m.tendon_actfrcrange[target]
                lower, upper = max(lower, ends[0]), min(upper, ends[1])
            else:
                self._lose("limits of the force of several actuators on one tendon, not read", name)
        if joints is not None and kind != ON_TENDON and m.jnt_actfrclimited[target] and gear[0] != 0.0:
            low, high = m.jnt_actfrcrange[target]
            if low != -high and self._actuators_of(target) == 1:
                ends = sorted((low / gear[0], high / gear[0]))
                lower, upper = max(lower, ends[0]), min(upper, ends[1])
        if joints is not None:
            self.builder.add_actuator(name, joints, lower, upper)
        elif sites is not None and len(sites) == 1:
            self.builder.add_thruster(name, sites[0], lower=lower, upper=upper, wrench=gear)
        elif sites is not None:
            self.builder.add_linear_actuator(name, sites[0], sites[1], lower, upper, gear[0])

    def _sites_of(self, kind: int, i: int, target: int) -> list[str] | None:
        """The site at which an actuator acts in the site's axes, or the two end sites of its straight tendon."""
        m = self.m
        if kind == ON_SITE and m.actuator_trnid[i, 1] < 0 and m.actuator_gear[i].any():
            moves = m.body_weldid[m.site_bodyid[target]] > 0
            return [self.site_names[target]] if moves else None
        if kind != ON_TENDON:
            return None
        parts = slice(m.tendon_adr[target], m.tendon_adr[target] + m.tendon_num[target])
        sites = m.wrap_objid[parts]
        if len(sites) != 2 or (m.wrap_type[parts] != AT_SITE).any() or m.actuator_gear[i, 0] == 0.0:
            return None
        bodies = {int(m.body_weldid[m.site_bodyid[site]]) for site in sites}
        return [self.site_names[site] for site in sites] if len(bodies) == 2 else None

    # -------------------------------------------------------------------------------------------- closed chains
    def _add_equality(self, e: int, name: str) -> None:
        """Add connections and welds as loops, linear constraints of joints and fixed tendons as couplings."""
        m = self.m
        kind = self.mujoco.mjtEq(m.eq_type[e]).name.removeprefix("mjEQ_").lower()
        ends, data = (int(m.eq_obj1id[e]), int(m.eq_obj2id[e])), m.eq_data[e]
        if kind in ("connect", "weld"):
            frames = self._ends_of_loop(e, name, kind, ends, data)
            if any(m.body_mocapid[self._body_of_end(e, end)] >= 0 for end in ends):
                return self._lose("equality constraints to what motion capture moves, not read", name)
            turns = kind == "connect" or data[TORQUE_SCALE] == 0.0
            return self.builder.add_loop(frames[0], frames[1], "ball" if turns else "weld")
        if kind == "joint" and ends[1] < 0 and self.m.jnt_type[ends[0]] in (SLIDE, HINGE):
            place = m.qpos0[m.jnt_qposadr[ends[0]]] + data[0]
            held = f"{name}, lock={{{self.joint_names[ends[0]]!r}: {place:.6g}}}"
            return self._lose(
                "equality constraints that hold a joint still, not read; such a joint may be locked", held
            )
        joints = self._coupled(kind, ends, data)
        if joints is None or np.any(data[2:5]):
            return self._lose("equality constraints, not read", f"{name} ({kind})")
        offset = sum(ratio * m.qpos0[m.jnt_qposadr[self.joint_names.index(joint)]] for joint, ratio in joints.items())
        self.builder.add_coupling(joints, offset + data[0])

    def _coupled(self, kind: str, ends: tuple[int, int], data: np.ndarray) -> dict[str, float] | None:
        """Ratios r_j of sum r_j (q_j - reference_j) = data[0]: first joint or tendon less data[1] times the second."""
        sides: list[dict[str, float]] = []
        for end in ends:
            if end < 0:
                continue
            if kind == "joint" and self.m.jnt_type[end] in (SLIDE, HINGE):
                sides.append({self.joint_names[end]: 1.0})
            elif kind == "tendon" and (along := self._along_joints(end)) is not None:
                sides.append(along)
            else:
                return None
        joints = dict(sides[0])
        for joint, ratio in sides[1].items() if len(sides) > 1 else ():
            joints[joint] = joints.get(joint, 0.0) - data[1] * ratio
        return joints if len(joints) > 1 else None

    def _body_of_end(self, e: int, end: int) -> int:
        on_site = self.m.eq_objtype[e] == self.mujoco.mjtObj.mjOBJ_SITE
        return self.m.site_bodyid[end] if on_site else end

    def _ends_of_loop(self, e: int, name: str, kind: str, ends: tuple[int, int], data: np.ndarray) -> list[str]:
        """Names of the two frames, of sites or new ones, that the constraint makes coincide."""
        if self.m.eq_objtype[e] == self.mujoco.mjtObj.mjOBJ_SITE:
            return [self.site_names[end] for end in ends]
        if kind == "connect":
            poses = [(np.eye(3), data[:3].copy()), (np.eye(3), data[3:6].copy())]
        else:  # the point data[:3] of the second body is at data[3:6] in the first, rotated by data[6:10]
            poses = [_pose(data[3:6], data[6:10]), (np.eye(3), data[:3].copy())]
        frames = [f"{name}_1", f"{name}_2"]
        for frame, end, pose in zip(frames, ends, poses, strict=True):
            self.builder.add_frame(frame, self.body_names[end], pose)
        return frames

    def _note_the_rest(self) -> None:
        m = self.m
        for body in np.flatnonzero(m.body_gravcomp):
            self._lose("gravity compensation, not read", self.body_names[body])
        if m.opt.density > 0.0 or m.opt.viscosity > 0.0:
            self._lose("forces of a medium, not read", f"density {m.opt.density:g}, viscosity {m.opt.viscosity:g}")
        for kind, count in (("plugin", m.nplugin), ("flex", m.nflex)):
            for name in self._names(kind, count):
                self._lose(f"{kind}, not read", name)
        for field in ("jnt_stiffnesspoly", "dof_dampingpoly", "tendon_stiffnesspoly", "tendon_dampingpoly"):
            if _any(m, field):
                self._lose("springs and dampers that are not linear, read as linear ones", field)


def _any(m: Any, field: str, i: int | slice = slice(None)) -> bool:
    """True if a field, which not all versions have, has a nonzero entry."""
    return bool(np.any(getattr(m, field, np.zeros(0 if isinstance(i, slice) else i + 1))[i]))


def _joint(kind: int, axis: np.ndarray) -> Joint:
    if kind == FREE:
        return FreeFlyer()
    if kind == BALL:
        return Spherical()
    return (Prismatic if kind == SLIDE else Revolute)(axis)


def _pose(pos: np.ndarray, quat: np.ndarray) -> Pose:
    """Pose from MuJoCo's position and quaternion (w first)."""
    return Rotation.from_quat(quat, scalar_first=True).as_matrix(), np.array(pos)


def _inertia(m: Any, body: int) -> dict[str, Any]:
    """Mass, centre of mass and inertia about it, in the body's axes."""
    R, com = _pose(m.body_ipos[body], m.body_iquat[body])
    return {"mass": float(m.body_mass[body]), "com": com, "inertia": R @ np.diag(m.body_inertia[body]) @ R.T}
