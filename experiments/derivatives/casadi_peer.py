"""Derivatives of inverse dynamics by automatic differentiation with CasADi (extra `peers`), as fast as it will go.

First order: `casadi_symbols.FIRST_ORDER`.  Second order: the Jacobians of those expressions, in two ways,

    expanded   one straight-line function of all nonzero entries, each written with the zeros of its own sweep dropped
               and common subexpressions merged; the fastest, as long as it can be held (`EXPANDABLE`)
    sweeps     one function of a tangent direction, called once per degree of freedom; the only way for deep trees

and each runs in CasADi's virtual machine or, where a compiler digests it, as machine code (`casadi_compiler`).
"""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.derivatives.casadi_compiler import compiled, compiler, shared_library
from experiments.derivatives.casadi_symbols import FIRST_ORDER, ca, symbols
from experiments.derivatives.chains import body_depths

EXPANDABLE = 5_000_000
"""Instructions of an expanded function that memory (about 1 kB each while it is made) and patience allow."""
INSTRUCTIONS_PER_TRIPLE = 400
"""About what one triple of joints on a path to the root takes in an expanded function, to foresee its length."""
COMPILABLE = 300_000
"""Instructions that are compiled by default; gcc takes a minute for them."""
COMPILED_SPEED_UP = 20
"""About what compiling gains: compiled sweeps of this many times the instructions may still win."""


def first_order(model, by: str = "rnea") -> Any:
    """casadi.Function (q, v, a) -> dtau_dq, dtau_dv, M: "rnea" differentiated automatically, or "idsva" as it is."""
    x = symbols(model)
    return ca.Function(f"first_order_{by}", list(x), ca.cse(list(FIRST_ORDER[by](model, *x))))


def second_order(model, by: str = "rnea") -> Any:
    """casadi.Function (q, v, a) -> sparse Jacobians (nv^2, nv) of vec dtau_dq by q, vec dtau_dv by q, vec dtau_dv by v
    and vec M by q, expanded; see `tensors`."""
    q, v, a = symbols(model)
    dq, dv, M = (ca.vec(x) for x in FIRST_ORDER[by](model, q, v, a))
    results = [ca.jacobian(f, x) for f, x in ((dq, q), (dv, q), (dv, v), (M, q))]
    return ca.Function(f"second_order_{by}", [q, v, a], ca.cse(results))


def second_order_sweeps(model, by: str = "idsva", code: Callable[[Any], Any] = lambda f: f) -> tuple[Any, int]:
    """The same function, dense, from one sweep per direction of q and one per direction of v.

    Parameters: code: what turns each sweep, a Function of SX, into the one to call.
    Returns: casadi.Function, instructions of both sweeps.
    """
    q, v, a = symbols(model)
    n = model.nv
    dq, dv, M = (ca.vec(x) for x in FIRST_ORDER[by](model, q, v, a))
    s = ca.SX.sym("s", n)
    along_q = ca.Function(f"along_q_{by}", [q, v, a, s], ca.cse([ca.jtimes(f, q, s) for f in (dq, dv, M)]))
    along_v = ca.Function(f"along_v_{by}", [q, v, a, s], ca.cse([ca.jtimes(dv, v, s)]))
    points, every = [ca.MX.sym(name, n) for name in "qva"], ca.DM.eye(n)
    qq, vq, Mq = code(along_q).map("all_q", "serial", n, [0, 1, 2], [])(*points, every)
    vv = code(along_v).map("all_v", "serial", n, [0, 1, 2], [])(*points, every)
    length = along_q.n_instructions() + along_v.n_instructions()
    return ca.Function(f"second_order_sweeps_{by}", points, [qq, vq, vv, Mq]), length


def tensors(model, jacobians) -> tuple[np.ndarray, ...]:
    """d2tau_dqdq, d2tau_dqdv, d2tau_dvdv, dM_dq, each (nv, nv, nv), from what a second-order function returns."""
    n = model.nv
    qq, vq, vv, Mq = (np.asarray(ca.densify(x)).reshape((n, n, n), order="F") for x in jacobians)
    return qq, vq.transpose(0, 2, 1), vv, Mq


def evaluator(function: Any, q, v, a, library: Path | None = None) -> Callable[[], list[np.ndarray]]:
    """A call that evaluates the function at K points (K, nv) without conversions between Python and CasADi.

    It returns the nonzero entries of each result, one array (K, nonzeros) that the next call overwrites.

    Parameters: library: where the function is a `shared_library`, its path; then a loop in C calls it, without
    the tenth of a microsecond that CasADi takes per call.
    """
    inputs = [np.ascontiguousarray(x, dtype=float) for x in (q, v, a)]
    results = [np.empty((len(q), function.nnz_out(i))) for i in range(function.n_out())]
    if library is None:
        call = _loop_of_casadi(function, inputs, results)
    else:
        call = _loop_in_c(function, inputs, results, library)

    def evaluate():
        call()
        return results

    return evaluate


def _loop_of_casadi(function, inputs, results) -> Callable[[], object]:
    buffer, trigger = function.map(len(inputs[0])).buffer()
    for i, x in enumerate(inputs):
        buffer.set_arg(i, memoryview(x))
    for i, x in enumerate(results):
        buffer.set_res(i, memoryview(x))
    return lambda _keep=(buffer, inputs): trigger()  # what the trigger points to must live as long


def _loop_in_c(function, inputs, results, library) -> Callable[[], object]:
    run = getattr(ctypes.CDLL(str(library)), f"{function.name()}_over_points")
    run.restype = None
    work = np.empty(function.sz_w())
    arguments = (
        ctypes.c_longlong(len(inputs[0])),
        *((ctypes.c_void_p * len(x))(*(y.ctypes.data for y in x)) for x in (inputs, results)),
        ctypes.c_void_p(work.ctypes.data),
    )
    return lambda _keep=(work, inputs): run(*arguments)


# ------------------------------------------------------------------------------------------------ candidates
@dataclass(frozen=True)
class Candidate:
    """One way to the derivatives: what to call, and what it took to make it."""

    name: str
    function: Any
    instructions: int
    build_seconds: float
    library: Path | None = None  # where all of it is machine code

    def evaluator(self, q, v, a) -> Callable[[], list[np.ndarray]]:
        """The fastest way to call it at K points, see `evaluator`."""
        return evaluator(self.function, q, v, a, self.library)


def _timed(make: Callable[[], tuple[Any, int]], name: str) -> Candidate:
    start = time.perf_counter()
    function, instructions = make()
    return Candidate(name, function, instructions, time.perf_counter() - start)


def expanded_length(model) -> int:
    """Instructions that `second_order` will have, within a factor of two."""
    return INSTRUCTIONS_PER_TRIPLE * int((body_depths(model) ** 2).sum())


def second_order_candidates(
    model, folder: Path, compilable: int = COMPILABLE, expandable: int = EXPANDABLE
) -> list[Candidate]:
    """All ways to the second derivatives that are feasible for this tree."""
    found = []
    if expanded_length(model) <= expandable:
        for by in FIRST_ORDER:
            plain = _timed(lambda by=by: _with_length(second_order(model, by)), f"{by} expanded, virtual machine")
            found += [plain, *_compiled(plain, f"{by} expanded, compiled", folder, compilable)]
    shortest = min((x.instructions for x in found), default=None)
    if shortest is not None and shortest <= compilable:
        return found
    plain = _timed(lambda: second_order_sweeps(model), "idsva sweeps, virtual machine")
    if shortest is None or model.nv * plain.instructions < COMPILED_SPEED_UP * shortest:
        found.append(plain)
        if compiler() and plain.instructions <= compilable:
            make = lambda: second_order_sweeps(model, code=lambda f: compiled(f, folder))  # noqa: E731
            found.append(_timed(make, "idsva sweeps, compiled"))
    return found


def _with_length(function: Any) -> tuple[Any, int]:
    return function, function.n_instructions()


def _compiled(plain: Candidate, name: str, folder: Path, compilable: int) -> list[Candidate]:
    if compiler() is None or plain.instructions > compilable:
        return []
    start = time.perf_counter()
    path = shared_library(plain.function, folder)
    function = ca.external(plain.function.name(), str(path))
    return [Candidate(name, function, plain.instructions, time.perf_counter() - start, path)]
