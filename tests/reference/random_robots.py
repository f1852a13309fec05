"""Seeded random trees with joints of any kind anywhere, random states, and rotor inertias for given models."""

import dataclasses
from typing import NamedTuple

import hypothesis
import hypothesis.strategies as st
import numpy as np
from scipy.spatial.transform import Rotation

from dynamics.algorithms.configuration import random_configuration
from dynamics.model import joints
from dynamics.model.builder import ModelBuilder
from dynamics.model.model import RigidBodyModel

KINDS = ("revolute", "continuous", "prismatic", "spherical", "free flyer", "planar", "translation")


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    return Rotation.from_quat(rng.standard_normal(4)).as_matrix()


def random_joint(kind: str, rng: np.random.Generator) -> joints.Joint:
    """Joint of that kind, its axis in any direction."""
    axis = rng.standard_normal(3)
    return {
        "revolute": lambda: joints.Revolute(axis),
        "continuous": lambda: joints.Continuous(axis),
        "prismatic": lambda: joints.Prismatic(axis),
        "spherical": joints.Spherical,
        "free flyer": joints.FreeFlyer,
        "planar": lambda: joints.Planar(axis),
        "translation": joints.Translation,
    }[kind]()


def random_inertia(rng: np.random.Generator) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it of six random point masses."""
    masses, points = rng.uniform(0.1, 0.5, 6), rng.uniform(-0.4, 0.4, (6, 3))
    com = masses @ points / masses.sum()
    d = points - com
    inertia = masses @ np.sum(d**2, axis=1) * np.eye(3) - (masses[:, None] * d).T @ d
    return float(masses.sum()), com, inertia


def random_tree(kinds: list[str], parents: list[int], rng: np.random.Generator) -> RigidBodyModel:
    """Body i hangs by a joint kinds[i] from body parents[i] < i, or from the world where that is -1; with armature."""
    builder = ModelBuilder(gravity=rng.uniform(-10.0, 10.0, 3))
    for i, (kind, parent) in enumerate(zip(kinds, parents, strict=True)):
        mass, com, inertia = random_inertia(rng)
        builder.add_body(
            f"body {i}",
            "world" if parent < 0 else f"body {parent}",
            random_joint(kind, rng),
            placement=(random_rotation(rng), rng.uniform(-0.5, 0.5, 3)),
            mass=mass,
            com=com,
            inertia=inertia,
            armature=rng.uniform(0.0, 0.3),
        )
    return builder.build()


def random_states(model: RigidBodyModel, count: int, rng: np.random.Generator, vectors: int = 2) -> list[np.ndarray]:
    """Configurations (count, nq), then as many arrays (count, nv) with entries in [-2, 2] as asked for."""
    q = np.array([random_configuration(model, rng) for _ in range(count)])
    return [q, *rng.uniform(-2.0, 2.0, (vectors, count, model.nv))]


def with_armature(model: RigidBodyModel, rng: np.random.Generator) -> RigidBodyModel:
    """The model with a random rotor inertia on every degree of freedom."""
    armature = rng.uniform(0.1, 1.0, model.nv)
    return dataclasses.replace(model, arrays=model.arrays._replace(armature=armature))


settings = hypothesis.settings(max_examples=12, deadline=None, derandomize=True, database=None)
"""The same trees in every run."""


class Tree(NamedTuple):
    """What a random tree is made from; short to print when a test fails."""

    kinds: list[str]
    parents: list[int]
    seed: int

    def build(self) -> tuple[RigidBodyModel, np.random.Generator]:
        """The model, and the generator for what else a test draws."""
        rng = np.random.default_rng(self.seed)
        return random_tree(self.kinds, self.parents, rng), rng


@st.composite
def random_trees(draw) -> Tree:
    """Trees of 2 to 6 bodies with any joints anywhere."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=6))
    parents = [draw(st.integers(-1, i - 1)) for i in range(len(kinds))]
    return Tree(kinds, parents, draw(st.integers(0, 2**32 - 1)))
