"""Derivatives of expressions, as expressions of the same graph.

Jacobians are taken in forward mode, where every node carries its derivatives by the arguments that it depends on, or in
reverse mode, one output at a time, where there are few.  The Hessian of a scalar is the forward-mode Jacobian of its
reverse-mode gradient [Griewank & Walther 2008, chapter 5]; zeros are dropped.

Where a variable equals the number that it is clipped to, the derivative of the maximum or minimum is that of the
variable: a control at a limit of its box is not also blocked by a clip to the same limit, and can move inwards.  Of two
equal variables each counts one half.  A selection by a condition is differentiated on the side that the condition
selects, in forward mode: the other side, perhaps not a number there, does not enter.

The root of a sum of squares, and its other powers, are not differentiable where the sum is zero, as the speed of a body
at rest: there their derivatives are taken as zero, with which drag |v| v, smooth at rest, has its true derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynamics.tape.graph import Graph
from dynamics.tape.symbol import Symbol, indices_of, wrapped

TIE = 1e-12
"""Difference between a variable and a number, relative to the number, within which they count as equal: limits are
rounded where their units are converted."""


def _larger(a: Symbol, b: Symbol) -> Symbol:
    """One where a > b, zero where a < b: the derivative of max(a, b) by a and of min(a, b) by b.  Where they are equal
    it is one half, but one if either is a number."""
    c, d = (x.graph.values.get(x.index) for x in (a, b))
    if d is not None:
        return 1.0 - a.less(d - TIE * abs(d))
    if c is not None:
        return 1.0 - a.like(c + TIE * abs(c)).less(b)
    return 0.5 + 0.5 * (b.less(a) - a.less(b))


PARTIALS = {
    "add": lambda f, a, b: (1.0, 1.0),
    "sub": lambda f, a, b: (1.0, -1.0),
    "mul": lambda f, a, b: (b, a),
    "neg": lambda f, a: (-1.0,),
    "inverse": lambda f, a: (-(f * f),),
    "inverse_or_zero": lambda f, a: (-(f * f),),
    "sqrt": lambda f, a: (0.5 * _inverse(f, a),),
    "sin": lambda f, a: (a.cos(),),
    "cos": lambda f, a: (-a.sin(),),
    "exp": lambda f, a: (f,),
    "log": lambda f, a: (1.0 / a,),
    "power": lambda f, a, b: (b * f * _inverse(a, a) if _has_tip(a) else b * a ** (b - 1.0), f * a.log()),
    "arcsin": lambda f, a: (1.0 / (1.0 - a * a).sqrt(),),
    "arccos": lambda f, a: (-1.0 / (1.0 - a * a).sqrt(),),
    "arctan": lambda f, a: (1.0 / (1.0 + a * a),),
    "arctan2": lambda f, a, b: (b * _inverse(a * a + b * b), -a * _inverse(a * a + b * b)),
    "sinh": lambda f, a: (a.cosh(),),
    "cosh": lambda f, a: (a.sinh(),),
    "tanh": lambda f, a: (1.0 - f * f,),
    "arcsinh": lambda f, a: (1.0 / (1.0 + a * a).sqrt(),),
    "arccosh": lambda f, a: (1.0 / ((a - 1.0).sqrt() * (a + 1.0).sqrt()),),
    "arctanh": lambda f, a: (1.0 / (1.0 - a * a),),
    "expm1": lambda f, a: (f + 1.0,),
    "log1p": lambda f, a: (1.0 / (1.0 + a),),
    "absolute": lambda f, a: (a.sign(),),
    "mod": lambda f, a, b: (1.0, (f - a) / b),
    "maximum": lambda f, a, b: (_larger(a, b), _larger(b, a)),
    "minimum": lambda f, a, b: (_larger(b, a), _larger(a, b)),
}
"""Partial derivatives of f by a and b, where they are not zero throughout."""


def _inverse(x: Symbol, of: Symbol | None = None) -> Symbol:
    """1/x, or zero where x is zero, if `of`, or else x, is a sum of squares, whose powers have a tip there."""
    return x.apply("inverse_or_zero" if _has_tip(x if of is None else of) else "inverse")


def _has_tip(x: Symbol) -> bool:
    """True if x is a sum of squares, whose root has a tip at zero."""
    graph = x.graph
    return all(
        graph.values.get(i, -1.0) >= 0.0 or graph.operations[i] == "absolute" or _is_square(graph, i)
        for i in _addends(x)
    )


def _addends(x: Symbol) -> Iterator[int]:
    """The nodes that add up to x."""
    todo = [x.index]
    while todo:
        i = todo.pop()
        if x.graph.operations[i] == "add":
            todo += x.graph.arguments[i]
        else:
            yield i


def _is_square(graph: Graph, i: int) -> bool:
    """True if a node is a product of factors that come in pairs, and of positive numbers."""
    single, todo = set(), [i]
    while todo:
        j = todo.pop()
        if graph.operations[j] == "mul":
            todo += graph.arguments[j]
        elif graph.values.get(j, -1.0) < 0.0:
            single ^= {j}
    return not single


KINKED = {"absolute", "sign", "maximum", "minimum", "less", "select", "mod"}
"""Operations with a kink or a jump, those of conditions among them."""


def may_have_kinks(y: np.ndarray) -> bool:
    """True if expressions contain a condition, another operation with a kink or a jump, or the root of a sum of squares
    that may vanish."""
    made = [x for x in y.flat if isinstance(x, Symbol)]
    for i in made[0].graph.needed([x.index for x in made]) if made else ():
        graph = made[0].graph
        if graph.operations[i] in KINKED:
            return True
        if graph.operations[i] in ("sqrt", "power"):
            inside = Symbol(graph, graph.arguments[i][0])
            if _has_tip(inside) and not any(graph.values.get(j, 0.0) > 0.0 for j in _addends(inside)):
                return True
    return False


def _partials(graph: Graph, i: int) -> list[tuple[int, Symbol | float]]:
    """Pairs (argument, partial derivative) of a node; those by constants are left out."""
    rule = PARTIALS.get(graph.operations[i])
    if rule is None:
        return []
    arguments = graph.arguments[i]
    partials = rule(Symbol(graph, i), *(Symbol(graph, j) for j in arguments))
    return [(j, d) for j, d in zip(arguments, partials, strict=True) if j not in graph.values]


def _times(d: Symbol | float, x: Symbol) -> Symbol:
    return x * d


def forward(graph: Graph, outputs: list[int], leaves: list[int]) -> np.ndarray:
    """Derivatives (m, n) of the outputs by the leaves, in forward mode."""
    one = Symbol(graph, graph.constant(1.0))
    slopes: dict[int, dict[int, Symbol]] = {leaf: {k: one} for k, leaf in enumerate(leaves)}
    for i in graph.needed(outputs):
        if i in slopes:
            continue
        if graph.operations[i] == "select":
            slopes[i] = _selected(graph, i, slopes)
            continue
        slope: dict[int, Symbol] = {}
        moving = any(slopes.get(j) for j in graph.arguments[i])
        for j, d in _partials(graph, i) if moving else ():
            for k, x in slopes[j].items():
                slope[k] = slope[k] + _times(d, x) if k in slope else _times(d, x)
        slopes[i] = slope
    J = np.zeros((len(outputs), len(leaves)), dtype=object)
    for row, i in enumerate(outputs):
        for k, x in slopes[i].items():
            J[row, k] = x
    return J


def _selected(graph: Graph, i: int, slopes: dict[int, dict[int, Symbol]]) -> dict[int, Symbol]:
    """Derivatives of a selection, by the leaves on which either side depends."""
    condition, *sides = graph.arguments[i]
    one, other = (slopes[j] for j in sides)
    return {k: Symbol(graph, condition).select(one.get(k, 0.0), other.get(k, 0.0)) for k in {**one, **other}}


def backward(graph: Graph, seeds: list[tuple[int, Symbol]], leaves: list[int]) -> np.ndarray:
    """Gradient (n,) of sum_i w_i y_i by the leaves, for pairs (y_i, w_i), in reverse mode."""
    slopes: dict[int, Symbol] = {}
    for i, w in seeds:
        slopes[i] = slopes[i] + w if i in slopes else w
    moving = _depending(graph, [i for i, _ in seeds], leaves)
    selections = [i for i in sorted(moving) if graph.operations[i] == "select"]
    forwards = dict(zip(selections, forward(graph, selections, leaves), strict=True))
    for i in reversed(graph.needed(slopes)):
        if i not in slopes or i in leaves:
            continue
        if i in forwards:
            for leaf, d in zip(leaves, forwards[i], strict=True):
                if isinstance(d, Symbol):
                    x = _times(d, slopes[i])
                    slopes[leaf] = slopes[leaf] + x if leaf in slopes else x
            continue
        for j, d in _partials(graph, i):
            if j in moving:
                x = _times(d, slopes[i])
                slopes[j] = slopes[j] + x if j in slopes else x
    return np.array([slopes.get(leaf, 0.0) for leaf in leaves] + [None], dtype=object)[:-1]


def _depending(graph, roots, leaves):
    """The nodes under the roots that depend on a leaf."""
    found = set(leaves)
    for i in graph.needed(roots):
        if any(j in found for j in graph.arguments[i]):
            found.add(i)
    return found


def jacobian(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """dy/dz (m, n) of expressions y (m,) by leaves z (n,)."""
    graph = z[0].graph
    outputs, leaves = indices_of(graph, y), indices_of(graph, z)
    if 2 * len(outputs) >= len(leaves):
        return forward(graph, outputs, leaves)
    one = Symbol(graph, graph.constant(1.0))
    return np.stack([backward(graph, [(i, one)], leaves) for i in outputs])


def hessian(y: np.ndarray, mu: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Hessian (n, n) of sum_i mu_i y_i by z, its upper triangle mirrored."""
    graph = z[0].graph
    leaves = indices_of(graph, z)
    weights = wrapped(graph, indices_of(graph, mu))
    gradient = backward(graph, list(zip(indices_of(graph, y), weights, strict=True)), leaves)
    H = forward(graph, indices_of(graph, gradient), leaves)
    below = np.tril_indices(len(leaves), -1)
    H[below] = H.T[below]
    return H
