"""Crocoddyl's gait problems in this library's terms, node by node.

    IntegratedActionModelEuler        a knot of a phase: the contacts of its model are held
    ActionModelImpulseFwdDynamics     a phase without knots: an impact; its costs count once, in both
    CostModelResidual, weight w       1/2 w |r|^2; references that move from node to node are rows of one cost
    friction cone, quadratic barrier  `FrictionCone`, rows at least 0 where Crocoddyl's are at most 0

The last node's costs are the terminal ones; those of forces and controls are zero there, in both.
"""

from typing import Any, NamedTuple

import numpy as np

import dynamics
import trajopt

GAINS = (0.0, 50.0)
NOT_AT_THE_END = ("ResidualModelControl", "ResidualModelContactFrictionCone")
"""Without controls they have no value."""


class Item(NamedTuple):
    """A cost of a node: its weight, residual and activation, of Crocoddyl."""

    weight: float
    residual: Any
    activation: Any


def is_impulse(node: Any) -> bool:
    """Whether the node is an impact."""
    return not hasattr(node, "differential")


def costs_of(node: Any) -> list[Item]:
    """The active costs."""
    total = (node if is_impulse(node) else node.differential).costs
    items = (entry.data() for entry in total.costs)
    return [Item(item.weight, item.cost.residual, item.cost.activation) for item in items if item.active]


def held_by(node: Any, frames: Any) -> tuple[str, ...]:
    """Names of the frames in contact; `frames` are Pinocchio's."""
    if is_impulse(node):
        entries = [(entry.data().impulse, True) for entry in node.impulses.impulses]
    else:
        entries = [(entry.data().contact, entry.data().active) for entry in node.differential.contacts.contacts]
    return tuple(frames[contact.id].name for contact, active in entries if active)


def phases_of(nodes: Any, frames: Any) -> list[tuple[str, tuple[str, ...], int]]:
    """Phases for `HybridSystem`; impacts are phases of no knots."""
    phases: list[tuple[str, tuple[str, ...], int]] = []
    for node in nodes:
        held, name = held_by(node, frames), "impact" if is_impulse(node) else "phase"
        if name == "phase" and phases and phases[-1][:2] == (name, held):
            phases[-1] = name, held, phases[-1][2] + 1
        else:
            phases.append((name, held, int(name == "phase")))
    return phases


class Translator:
    """Costs by what they are costs of, collected over nodes."""

    def __init__(self, system: Any, frames: Any):
        self.system, self.frames = system, frames
        self.tracked: dict[Any, list[tuple[int, float, np.ndarray]]] = {}
        self.plain: dict[Any, tuple[Any, list[int]]] = {}

    def add(self, t: int, node: Any, held: Any) -> None:
        """The costs of node t; `held` is the system whose contacts are in force, None at the last node."""
        kind = is_impulse(node)
        for weight, residual, activation in costs_of(node):
            name = type(residual).__name__
            if held is None and name in NOT_AT_THE_END:
                continue
            if name == "ResidualModelCoMPosition":
                self.tracked.setdefault((kind, "center"), []).append((t, weight, residual.reference))
            elif name == "ResidualModelFrameTranslation":
                self.tracked.setdefault((kind, residual.id), []).append((t, weight, residual.reference))
            elif name == "ResidualModelState":
                self._put(t, self._state(weight, residual.reference, activation))
            elif name == "ResidualModelControl":
                self._put(t, (("control", weight), lambda w=weight: trajopt.ControlCost(w)))
            elif name == "ResidualModelContactFrictionCone":
                self._put(t, self._cone(weight, residual.reference, held))
            else:
                raise NotImplementedError(f"no translation of {name}")

    def _put(self, t: int, made: Any) -> None:
        key, make = made
        if key not in self.plain:
            self.plain[key] = make(), []
        if t not in self.plain[key][1]:
            self.plain[key][1].append(t)

    def _state(self, weight, reference, activation):
        reference = np.array(reference)
        if type(activation).__name__ == "ActivationModelQuadraticBarrier":
            lower, upper = np.array(activation.bounds.lb), np.array(activation.bounds.ub)
            residual, shape = trajopt.StateResidual(self.system, reference), trajopt.QuadraticBarrier(lower, upper)
            key = "bounds", weight, reference.tobytes(), lower.tobytes(), upper.tobytes()
            return key, lambda: trajopt.ResidualCost(residual, weight, shape)
        weights = weight * np.array(activation.weights)
        return ("state", weights.tobytes()), lambda: trajopt.StateCost(self.system, reference, weights)

    @staticmethod
    def _cone(weight, cone, held):
        """All feet of a node have the same cone and weight, so that one cost serves them."""

        def make():
            rows = dynamics.FrictionCone(held, cone.mu, facets=cone.nf)
            return trajopt.ResidualCost(rows, weight, trajopt.QuadraticBarrier(rows.lower, rows.upper))

        return ("cone", weight, id(held)), make

    def _tracking(self, what: Any, rows: Any) -> trajopt.ResidualCost:
        model = self.system.model
        if what == "center":
            residual = dynamics.CenterOfMass(model, np.zeros(3))
        else:
            residual = dynamics.FrameTranslation(model, self.frames[what].name, np.zeros(3))
        weights = np.array([np.full(3, weight) for _, weight, _ in rows])
        return trajopt.ResidualCost(residual, weights, reference=np.array([reference for *_, reference in rows]))

    def lists(self, horizon: int) -> list[list[Any]]:
        """A list of costs for every knot."""
        result: list[list[Any]] = [[] for _ in range(horizon)]
        for cost, knots in self.plain.values():
            for t in knots:
                result[t].append(cost)
        for (_, what), rows in self.tracked.items():
            cost = self._tracking(what, rows)
            for t, *_ in rows:
                result[t].append(cost)
        return result


def translated(theirs: Any, model: Any, name: str) -> trajopt.Problem:
    """The problem `theirs` (crocoddyl.ShootingProblem) for our `model` of the same robot."""
    nodes = list(theirs.runningModels)
    frames = nodes[0].state.pinocchio.frames
    dt = next(node.dt for node in nodes if not is_impulse(node))
    phases = phases_of(nodes, frames)
    system = dynamics.HybridSystem(model, dt, phases, gains=GAINS, impacts=False, joint_friction=False)
    running = Translator(system, frames)
    for segment in system.segments:
        for t in range(segment.start, segment.stop):
            running.add(t, nodes[t], segment.system)
    last = Translator(system, frames)
    last.add(0, theirs.terminalModel, None)
    us = theirs.quasiStatic([np.array(theirs.x0)] * theirs.T)
    guess = np.array([u if len(u) else np.zeros(system.nu) for u in us])
    return trajopt.Problem(
        system, np.array(theirs.x0), system.horizon, running_costs=running.lists(system.horizon),
        terminal_costs=last.lists(1)[0], us_init=guess, name=name,
    )  # fmt: skip
