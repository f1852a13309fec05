"""Tendons and chambers as kernels see them: their pieces at the quadrature points of rods, and across joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from dynamics.rods.loads.lines import Line
from dynamics.rods.loads.tendon_spans import SpanArrays, span_arrays, spans_of
from dynamics.rods.model.rod_model import RodModel
from dynamics.simd.caller import first_few, warn
from dynamics.validation import as_items, as_kind, unknown_name

L = TypeVar("L", bound=Line)


class TendonArrays(NamedTuple):
    """Lines at the quadrature points of the rods that carry them: P points, T pairs of point and line."""

    rows: np.ndarray  # (P, 7) component r is that of the coordinates rows[p, r] ... rows[p, r + 1] - 1
    first_mode: np.ndarray  # (P,) entry of `modes` of the first coordinate
    modes: np.ndarray  # (.,)
    weight: np.ndarray  # (P,) m
    reference: np.ndarray  # (P, 6)
    start: np.ndarray  # (P + 1,) pairs of a point
    control: np.ndarray  # (T,)
    routing: np.ndarray  # (T, 5) y, z, y', z'; tension of a unit of the control: 1 of tendons, -A of chambers
    spans: SpanArrays


def named_lines(
    model: RodModel, argument: str, given: Sequence[L], kind: type[L], taken: Sequence[str]
) -> tuple[L, ...]:
    """The lines, each with a name.  TypeError for those of another kind, ValueError for rods and names."""
    named: list[L] = []
    for k, line in enumerate(as_items(argument, given, f"{kind.__name__}s")):
        as_kind(f"{argument}[{k}]", line, kind)
        name = line.name or f"{kind.__name__.lower()} {k}"
        if name in taken or any(name == other.name for other in named):
            raise ValueError(f"{argument}[{k}]: the name {name!r} is taken")
        for rod in line.rods:
            if rod not in model.rods:
                raise unknown_name(f"rod of {kind.__name__.lower()} {name!r}:", rod, model.rods)
        named.append(replace(line, name=name))
    return tuple(named)


def tendon_arrays(model: RodModel, lines: Sequence[Line]) -> TendonArrays:
    """The lines, which all have names, in the order of their controls.  ValueError for rods that do not follow each
    other, and for a line where it cannot be."""
    pieces: dict[str, dict[int, np.ndarray]] = {name: {} for name in model.rods}
    spans = []
    for k, line in enumerate(lines):
        rods = [model.rods[name] for name in line.rods]
        routes = np.column_stack([line.routing(*rods), line.scales(*rods)])
        own = np.split(routes, np.cumsum([len(rod.nodes) for rod in rods])[:-1])
        pieces_of_line = dict(zip(line.rods, own, strict=True))
        spans += spans_of(model, line, k, pieces_of_line)
        for name, piece in pieces_of_line.items():
            pieces[name][k] = piece
    rows, first_mode, modes, weight, reference, start, control, routing = [], [], [], [], [], [0], [], []
    for rod in model.rods.values():
        routes = pieces[rod.name]
        if not routes:
            continue
        s = rod.nodes / rod.length
        values, at_rest = rod.basis.values(s), rod.reference_strains(s)
        for k in np.flatnonzero(rod.weights):
            rows.append(rod.coordinates.start + rod.basis.rows)
            first_mode.append(len(modes))
            modes.extend(values[k])
            weight.append(rod.weights[k])
            reference.append(at_rest[k])
            control.extend(routes)
            routing.extend(route[k] for route in routes.values())
            start.append(len(control))
    return TendonArrays(
        np.array(rows, np.int64).reshape(-1, 7), np.array(first_mode, np.int64), np.array(modes, float),
        np.array(weight, float), np.array(reference, float).reshape(-1, 6), np.array(start, np.int64),
        np.array(control, np.int64), np.array(routing, float).reshape(-1, 5), span_arrays(spans),
    )  # fmt: skip


def warn_of_slack(argument: str, lines: Sequence[Line], controls: np.ndarray) -> None:
    """Warn of negative controls (lines,) or (K, lines) of lines that are all of one kind."""
    least = np.min(np.atleast_2d(controls), axis=0, initial=0.0)
    slack = [f"{line.name!r}: {x:.4g} {line.unit}" for line, x in zip(lines, least, strict=True) if x < 0.0]
    if slack:
        warn(f"{argument}: {lines[0].one_way} ({first_few(slack)})")
