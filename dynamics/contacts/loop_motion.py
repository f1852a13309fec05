"""Pairs of points of a loop at configurations: how far they are apart, how they move, and which rows that leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynamics.algorithms.configuration import random_configuration
from dynamics.algorithms.frames import frame_jacobian, frame_placement
from dynamics.model import RigidBodyModel

if TYPE_CHECKING:
    from dynamics.contacts.loop_constraint import LoopConstraint

VANISHING = 1e-5
"""A row counts as zero if at no sample an entry of its Jacobian is more than this times the largest of the loop: chains
that are planar but for figures like 1.5708 for a right angle are none that a seventh digit locks."""
SAMPLES = 3


class PairMotion(NamedTuple):
    """Of P pairs of points, each with the same offset in both frames; world axes."""

    apart: np.ndarray  # (K, P, 3), m, from the second point to the first
    J: np.ndarray  # (K, P, 3, nv)
    turns: tuple[np.ndarray, np.ndarray]  # (K, 3, 3) rotations of the frames


class LoopRows(NamedTuple):
    """How far the rows of a loop are from zero, m, and their Jacobian for points that coincide."""

    error: np.ndarray  # (rows,) or (K, rows)
    J: np.ndarray  # (rows, nv) or (K, rows, nv)


def pair_motion(model: RigidBodyModel, q: np.ndarray, frames: tuple[str, str], offsets: np.ndarray) -> PairMotion:
    """At configurations q (K, nq); offsets (P, 3)."""
    apart, J = np.zeros((len(q), len(offsets), 3)), np.zeros((len(q), len(offsets), 3, model.nv))
    turns = []
    for frame, sign in zip(frames, (1.0, -1.0), strict=True):
        R, p = frame_placement(model, q, frame)
        columns = frame_jacobian(model, q, frame)[:, None]
        arms = np.einsum("kij,pj->kpi", R, offsets)
        apart += sign * (p[:, None] + arms)
        J += sign * (columns[:, :, :3] - np.cross(arms[..., None], columns[:, :, 3:], axis=2))
        turns.append(R)
    return PairMotion(apart, J, (turns[0], turns[1]))


def loop_rows(model: RigidBodyModel, q: np.ndarray, loop: LoopConstraint) -> LoopRows:
    """T'(p_1 - p_2) of all pairs of points, rows that are held alone; q (K, nq)."""
    offsets, kept = (np.array(x) for x in zip(*loop.pairs, strict=True))
    error, J = _along_axes(pair_motion(model, q, loop.frames, offsets), loop.kind)
    held = kept.ravel() != 0.0
    return LoopRows(error[:, held], J[:, held])


def _along_axes(motion: PairMotion, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """T'(p_1 - p_2) (K, 3 P) and its Jacobian (K, 3 P, nv), T the world's axes for a ball, else those of frame2."""
    K, P, _, n = motion.J.shape
    T = np.broadcast_to(np.eye(3), (K, 3, 3)) if kind == "ball" else motion.turns[1]
    error, J = np.einsum("kji,kpj->kpi", T, motion.apart), np.einsum("kji,kpjl->kpil", T, motion.J)
    return error.reshape(K, 3 * P), J.reshape(K, 3 * P, n)


def moving_rows(model: RigidBodyModel, frames: tuple[str, str], kind: str, offsets: np.ndarray) -> np.ndarray:
    """(P, 3): 1.0 for the rows that move at one of several random configurations, else 0.0; across the plane of a
    planar mechanism none does."""
    rng = np.random.default_rng(0)
    q = np.array([random_configuration(model, rng) for _ in range(SAMPLES)])
    sizes = np.abs(_along_axes(pair_motion(model, q, frames, offsets), kind)[1]).max(axis=(0, 2), initial=0.0)
    return (sizes > VANISHING * sizes.max()).astype(float).reshape(-1, 3)


def loop_gap(model: RigidBodyModel, q: np.ndarray, loop: LoopConstraint) -> tuple[float, float]:
    """At q (nq,): distance of the origins, m, and the angle between the axes of a hinge, or the frames of a weld; zero
    for a ball."""
    motion = pair_motion(model, q[None], loop.frames, np.zeros((1, 3)))
    R1, R2 = (R[0] for R in motion.turns)
    chord = {"ball": 0.0, "hinge": np.linalg.norm((R1 - R2)[:, loop.number_of_axis])}.get(
        loop.kind, np.linalg.norm(R1 - R2) / np.sqrt(2.0)
    )
    return float(np.linalg.norm(motion.apart)), float(2.0 * np.arcsin(min(0.5 * chord, 1.0)))
