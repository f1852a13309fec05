"""Building a robot model body by body.

Every link becomes part of one moving body: its own, or, if its joint is fixed, that of its nearest moving ancestor (or
the world). `build` walks the tree once depth-first, so that bodies are numbered parents first, children in the order in
which they were added, and adds up the inertia of each moving body about the origin of its frame.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics.attachments import leaders
from dynamics.body_inertia import BodyInertia, inertia_defect
from dynamics.builder_parts import Parts
from dynamics.joint_parameters import dof_parameters, position_limits
from dynamics.joints import Joint
from dynamics.links import (
    WORLD,
    Link,
    Pose,
    Tree,
    check_finite,
    compose,
    frame_at,
    joined,
    link_of,
    link_pose,
    relative,
    require_new,
)
from dynamics.mimic import led_by
from dynamics.model import Frame, RigidBodyModel, check_model
from dynamics.model_arrays import model_arrays
from dynamics.validation import as_array, as_flag, as_floats, as_inertia, as_name, as_placement, unknown_name

Placement = tuple[ArrayLike, ArrayLike]

INERTIAS = ("strict", "repaired", "as_given")
"""What may be done about moving bodies with inertias that no body can have: refuse, repair or take them."""
CONTRADICTION = 1e-9
"""Positions of a locked joint that differ by more are two."""


class ModelBuilder(Parts):
    """Builds a `RigidBodyModel` from bodies added one by one, each after its parent.

    Parameters
    ----------
    gravity : (3,) acceleration in the world frame, m/s^2
    name : name of the model
    strict : if False, a body whose own inertia no rigid body can have (placeholders are common in published files) is
        only warned about, provided that the moving body it becomes part of is physical

    Examples
    --------
    >>> builder = dynamics.ModelBuilder(name="cart and pole")
    >>> builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=1.0)
    >>> builder.add_body("pole", "cart", dynamics.Revolute("y"), mass=0.1, com=(0.0, 0.0, -0.5))
    >>> robot = builder.build()
    >>> robot.joint_names, robot.total_mass
    (('cart_joint', 'pole_joint'), 1.1)
    """

    def __init__(self, gravity: ArrayLike = (0.0, 0.0, -9.81), name: str = "robot", strict: bool = True) -> None:
        self.gravity = as_array("gravity", gravity, (3,)).copy()
        self._name = as_name("name", name)
        self._strict = as_flag("strict", strict)
        self.inertias = "strict"  # or another of INERTIAS, where what a file has is to be taken or repaired
        super().__init__()
        self._links: list[Link] = []
        self._numbers: dict[str, int] = {}
        self._joint_names: dict[str, int] = {}  # and the numbers of the links that they carry
        self._fixed: dict[str, np.ndarray] = {}  # where joints are locked
        self._added_frames: dict[str, tuple[int, Pose]] = {}
        self._named: set[int] = set()  # links of added models, the names of which are among the added frames
        self._ballast: list[tuple[int, BodyInertia]] = []  # fixed to links: what those of added models are fixed to

    def add_body(
        self,
        name: str,
        parent: str,
        joint: Joint,
        joint_name: str | None = None,
        placement: Placement | None = None,
        mass: float = 0.0,
        com: ArrayLike = (0.0, 0.0, 0.0),
        inertia: ArrayLike | None = None,
        armature: ArrayLike = 0.0,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        effort: ArrayLike | None = None,
        damping: ArrayLike = 0.0,
        friction: ArrayLike = 0.0,
    ) -> None:
        """Add a body, carried by a joint that is attached to its parent.

        Parameters
        ----------
        name : name of the body, also of its frame
        parent : name of a body or frame added before, or "world" (unless a body has been given that name)
        joint : a joint of `dynamics.joints`
        joint_name : by default "<name>_joint"; without it a fixed joint has no frame
        placement : (R, p), joint frame in the parent frame at zero motion, x_parent = R x + p; by default the identity
        mass : kg
        com : (3,) centre of mass in the body frame, m
        inertia : (3, 3) about the centre of mass, body axes, kg m^2; by default zero, a point mass
        armature, damping, friction : (nv,) or one number for every dof; not negative
        lower, upper : (nq,), position limits, or one number where nq = nv; by default none. Not for continuous joints
        velocity, effort : (nv,) or one number for every dof; by default unlimited

        Raises
        ------
        ValueError
            On duplicate names, an unknown parent, and values out of range; the message names the body and argument.
        TypeError
            If `joint` is not a joint.
        """
        require_new("name", name, body=self._numbers, frame=self._added_frames)
        label = f"body {name!r}: "
        if not isinstance(joint, Joint):
            raise TypeError(f"{label}joint: got {joint!r}, expected a joint such as Revolute('z')")
        if joint_name is None and joint.nv > 0:
            joint_name = f"{name}_joint"
        if joint_name is not None:
            require_new(label + "joint_name", joint_name, joint=self._joint_names, frame=self._added_frames)
        parent_number, pose = self._mount(label + "parent", parent, placement, label + "placement")
        mass = float(as_array(label + "mass", mass, ()))
        if mass < 0.0:
            raise ValueError(f"{label}mass: got {mass}, expected a number >= 0")
        symmetric = as_inertia(label + "inertia", inertia)
        defect = inertia_defect(mass, symmetric)
        if defect and self._strict:
            raise ValueError(f"{label}inertia: {defect}")
        link = Link(
            name=name,
            parent=parent_number,
            joint=joint,
            joint_name=joint_name,
            placement=pose,
            mass=mass,
            com=as_array(label + "com", com, (3,)).copy(),
            inertia=symmetric,
            per_position=position_limits(label, joint, lower, upper),
            per_dof=dof_parameters(
                label, joint, armature=armature, damping=damping, friction=friction, velocity=velocity, effort=effort
            ),
            defect=defect,
        )
        self._numbers[name] = len(self._links)
        self._links.append(link)
        if joint_name is not None:
            self._joint_names[joint_name] = self._numbers[name]

    def add_frame(self, name: str, body: str, placement: Placement | None = None) -> None:
        """Add a frame fixed to a body, or to "world", at `placement` (R, p): x_body = R x + p.

        Raises ValueError on a name that a body, joint or frame already has, an unknown body, or an invalid placement.
        """
        require_new("name", name, body=self._numbers, joint=self._joint_names, frame=self._added_frames)
        label = f"frame {name!r}: "
        self._added_frames[name] = self._mount(f"{label}body", body, placement, f"{label}placement")

    def _moving(self) -> dict[str, Joint]:
        return {link.joint_name: link.joint for link in self._links if link.joint_name and link.joint.nv > 0}

    def _joint(self, name: str) -> Joint:
        number = self._joint_names.get(name) if isinstance(name, str) else None
        if number is None or self._links[number].joint.nv == 0:
            raise unknown_name("joint", name, self._moving())
        return self._links[number].joint

    def _add_armature(self, joint: str, armature: float) -> None:
        number = self._joint_names[joint]
        link = self._links[number]
        grown = link.per_dof | {"armature": link.per_dof["armature"] + armature}
        self._links[number] = replace(link, per_dof=grown)

    def _carrier(self, name: str) -> int:
        if name in self._numbers or name in self._added_frames:
            number = self._mount("frame", name, None, "frame")[0]
        else:
            number = self._joint_names[name]
        while number != WORLD and self._links[number].joint.nv == 0:
            number = self._links[number].parent
        return number

    def _frame_names(self) -> list[str]:
        return [*self._numbers, *self._added_frames, *self._joint_names]

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints that move, in the order in which they were added."""
        return tuple(self._moving())

    def add_model(
        self, model: RigidBodyModel, prefix: str = "", parent: str = "world", placement: Placement | None = None
    ) -> None:
        """Add all bodies, joints and frames of a robot: another arm, or a gripper on a tool's frame.

        Parameters
        ----------
        model : RigidBodyModel; its gravity and name do not enter
        prefix : what all its names get in front, such as "left/"
        parent : a body or frame added before, or "world", to which the robot's world is fixed, with the inertia of all
            that is fixed to it
        placement : (R, p), the robot's world in the parent; by default the identity

        Raises ValueError for names that are taken, an unknown parent or an invalid placement; TypeError for no model.
        """
        model, mimics = check_model(model).full, model.mimics
        if not isinstance(prefix, str):
            raise TypeError(f"prefix: got {type(prefix).__name__}, expected text such as 'left/'")
        mount, pose = self._mount("parent", parent, placement, "placement")
        for name in model.frames:
            require_new("prefix", prefix + name, body=self._numbers, frame=self._added_frames)
        for name in model.joint_names:
            require_new("prefix", prefix + name, joint=self._joint_names)
        first = len(self._links)
        own = {-1: (mount, pose)} | {body: (first + body, link_pose(model, body)) for body in range(model.nb)}
        self._ballast.append((mount, model.base_inertia.placed(*pose)))
        self._links += [link_of(model, body, prefix, *own[model.arrays.parent[body]]) for body in range(model.nb)]
        for number, link in enumerate(self._links[first:], first):
            self._numbers[link.name] = number
            self._joint_names[str(link.joint_name)] = number
            self._named.add(number)
        self._take_parts(model, prefix, mimics)
        for shape in model.geometries:
            self._take_geometry(shape, prefix, *own[shape.body])
        for name, (body, R, p) in model.frames.items():
            number, seen = own[body]
            self._added_frames[prefix + name] = number, (compose if body < 0 else relative)(seen, (R, p))

    def lock_joint(self, name: str, q: ArrayLike | None = None) -> None:
        """Fix a joint at the configuration q (nq,), or a number; by default the neutral one, moved into the limits.

        Raises ValueError for an unknown joint, a wrong shape, or a configuration beyond the joint's limits.
        """
        label = f"lock: joint {name!r}"
        if name in self._fixed:
            if q is not None and np.abs(np.subtract(q, self._fixed[name])).max() > CONTRADICTION:
                found = self._fixed[name].tolist()
                raise ValueError(f"{label}: got {q}, but joints that it is tied to fix it at {found}")
            return
        number = self._joint_names.get(name)
        if number is None or self._links[number].joint.nv == 0:
            raise unknown_name("joint that moves", name, self.joint_names)
        link = self._links[number]
        nq = link.joint.nq
        lower, upper = link.per_position["lower"], link.per_position["upper"]
        if q is None:
            q = link.resting()
        q = np.atleast_1d(as_array(label, q, () if nq == 1 and as_floats(label, q).ndim == 0 else (nq,)))
        if (q < lower).any() or (q > upper).any():
            raise ValueError(f"{label}: got {q.tolist()}, expected between {lower.tolist()} and {upper.tolist()}")
        self._links[number], self._fixed[name] = link.fixed_at(q), q
        for other, place in self._lock_parts(name, q[0]).items():
            self.lock_joint(other, place)

    def build(self) -> RigidBodyModel:
        """The model of all bodies added so far; the builder may go on and build again.

        Raises ValueError if nothing moves, if a leaf of the moving tree has no mass or no inertia along its joint, if
        frame names clash, or if numbers are so large that they overflow.
        """
        whole = self._build_tree()
        return self._led(whole) if self._mimics else whole

    def _led(self, whole: RigidBodyModel) -> RigidBodyModel:
        """The robot in the coordinates of the joints that lead: its states are those of the tree whose other joints are
        locked."""
        mimics = leaders(self._mimics.values())
        rest = copy.copy(self)
        rest._springs, rest._actuators, rest._loops, rest._couplings, rest._geometries = [], [], [], [], {}
        followers = {mimic.joint for mimic in mimics}
        rest._links = [
            link.fixed_at(link.joint.neutral()) if link.joint_name in followers else link for link in self._links
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as of the tree
            led = rest._build_tree()
        return led_by(whole, led, mimics)

    def _build_tree(self) -> RigidBodyModel:
        """All joints, whether they follow others or not."""
        tree = Tree(self._links)
        links = tree.moving
        if not links:
            raise ValueError("the model is empty: expected at least one body with a joint that moves")
        joints = tuple(link.joint for link in links)
        with np.errstate(over="ignore", invalid="ignore"):
            frames = self._frames(tree)
            *inertias, base = tree.inertias(self._ballast)
            inertias = tree.physical(inertias, self.inertias)
            armature = joined(links, "armature")
            arrays = model_arrays(joints, tree.parents, tree.placements, inertias, armature, self.gravity)
            check_finite(frames, arrays, links)
            tree.check_leaves(inertias)
        return RigidBodyModel(
            name=self._name,
            joints=joints,
            joint_names=tuple(str(link.joint_name) for link in links),
            body_names=tuple(link.name for link in links),
            arrays=arrays,
            frames=frames,
            lower_position=np.concatenate([link.per_position["lower"] for link in links]),
            upper_position=np.concatenate([link.per_position["upper"] for link in links]),
            velocity_limit=joined(links, "velocity"),
            effort_limit=joined(links, "effort"),
            damping=joined(links, "damping"),
            friction=joined(links, "friction"),
            base_inertia=base,
            geometries=self._placed_geometries(tree.anchors),
            **self._parts(frames),
        )

    def _mount(self, argument: str, name: str, placement: Placement | None, label: str) -> tuple[int, Pose]:
        """Number of the link that a placement in a link or frame, or the world, belongs to, and it in that link."""
        pose = as_placement(label, placement)
        if as_name(argument, name) in self._numbers:
            return self._numbers[name], pose
        if name in self._added_frames:
            number, frame = self._added_frames[name]
            return number, compose(frame, pose)
        if name == "world":
            return WORLD, pose
        error = unknown_name("body", name, [*self._numbers, *self._added_frames, "world"])
        raise ValueError(f"{argument}: {error}, expected a body or frame added before or 'world'")

    def _frames(self, tree: Tree) -> dict[str, Frame]:
        """All frames by name: links and joints in depth-first order, then those of added models and added by hand."""
        frames = {}
        for number in tree.order:
            link = self._links[number]
            if number in self._named:
                continue
            frames[link.name] = tree.anchors[number]
            joint_name = link.joint_name
            if joint_name is None:
                continue
            if joint_name in self._numbers:
                joint_name += "_joint"
                if joint_name in self._numbers or joint_name in self._joint_names or joint_name in self._added_frames:
                    raise ValueError(
                        f"joint_name: a body and a joint are both named {link.joint_name!r}, and so the joint's frame "
                        f"would be {joint_name!r}, which is taken; expected distinct names"
                    )
            frames[joint_name] = tree.anchors[number]
        for name, (number, placement) in self._added_frames.items():
            frames[name] = frame_at(tree.anchors[number], placement)
        return {name: Frame(frame.body, frame.R.copy(), frame.p.copy()) for name, frame in frames.items()}
