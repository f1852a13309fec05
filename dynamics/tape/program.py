"""Programs: instructions that compute expressions, in as few registers as their order allows.

Registers hold first the constants, then the arguments, then results of instructions; a register that is not read any
more is reused.  A product read by a single sum is fused with it, and sines are paired with cosines of the same angle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics.tape.graph import Graph, Untraceable
from dynamics.tape.operations import CODES, WIDTH

LONGEST = 100_000
"""Most instructions of a program; longer ones take seconds to generate."""


class Program(NamedTuple):
    """Code of rows (operation, target, three operands), constants, registers of the outputs, and number of registers.

    The second operand of a sine with cosine is its second target.
    """

    code: np.ndarray
    constants: np.ndarray
    outputs: np.ndarray
    registers: int


Instruction = tuple[str, list, list]
"""Operation, nodes that it computes, nodes that it reads."""


def assemble(graph: Graph, outputs: Sequence[int], inputs: Sequence[int], fuse: bool = True) -> Program:
    """The program that computes output nodes from leaves; `Untraceable` if it is too long."""
    order = _order(graph, outputs)
    if len(order) > LONGEST:
        raise Untraceable(f"it takes {len(order)} instructions")
    return _allocate(graph, _instructions(graph, order, outputs, fuse), outputs, inputs)


def _order(graph, outputs):
    """The nodes to be computed, each as late as its first reader allows."""
    done, order = set(), []
    for root in outputs:
        todo = [root]
        while todo:
            i = todo[-1]
            waiting = [j for j in graph.arguments[i] if j not in done] if i not in done else []
            if waiting:
                todo += reversed(waiting)
                continue
            todo.pop()
            if i not in done:
                done.add(i)
                if graph.arguments[i]:
                    order.append(i)
    return order


def _instructions(graph, order, outputs, fuse) -> list[Instruction]:
    uses = Counter(j for i in order for j in graph.arguments[i])
    uses.update(outputs)
    known = {(graph.operations[i], graph.arguments[i]): i for i in order}
    single = {i for i in order if fuse and graph.operations[i] == "mul" and uses[i] == 1}
    fused, written = {}, set()
    for i in order:
        if graph.operations[i] in ("add", "sub"):
            found = _fused(graph, i, single)
            if found:
                fused[i], absorbed = found
                single.discard(absorbed)
                written.add(absorbed)
    instructions: list[Instruction] = []
    for i in order:
        operation, arguments = graph.operations[i], graph.arguments[i]
        if i in written:
            continue
        if operation in ("sin", "cos"):
            pair = [known.get((name, arguments)) for name in ("sin", "cos")]
            written.update(pair)
            instructions.append(("sincos", pair, list(arguments)))
        else:
            operation, arguments = fused.get(i, (operation, arguments))
            instructions.append((operation, [i], list(arguments)))
    return instructions


def _fused(graph, i, single):
    """Instruction of a sum fused with a product in it, and the product's node."""
    a, b = graph.arguments[i]
    plus = graph.operations[i] == "add"
    if b in single:
        return (("fma" if plus else "fnma"), (*graph.arguments[b], a)), b
    if a in single:
        return (("fma" if plus else "fms"), (*graph.arguments[a], b)), a
    return None


def _allocate(graph, instructions, outputs, inputs):
    constants = sorted({j for _, _, read in instructions for j in read if j in graph.values})
    constants += sorted({j for j in outputs if j in graph.values} - set(constants))
    place = {j: k for k, j in enumerate((*constants, *inputs))}
    count, free, kept = len(place), [], set(outputs) | set(place)
    last = {j: t for t, (_, _, read) in enumerate(instructions) for j in read}
    code = np.zeros((len(instructions), WIDTH), dtype=np.int64)
    for t, (operation, written, read) in enumerate(instructions):
        operands = [place[j] for j in read]
        free += {place[j] for j in read if last[j] == t and j not in kept}
        targets = []
        for j in written:
            if not free:
                free.append(count)
                count += 1
            targets.append(free.pop())
            if j is not None:
                place[j] = targets[-1]
        free += [register for j, register in zip(written, targets, strict=True) if j is None]
        numbers = [targets[0], *operands, *targets[1:]]
        code[t, : 1 + len(numbers)] = CODES[operation], *numbers
    values = np.array([graph.values[j] for j in constants], dtype=float)
    return Program(code, values, np.array([place[j] for j in outputs], dtype=np.int64), count)
