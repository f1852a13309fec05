"""Derivatives of inverse dynamics by automatic differentiation with CasADi (extra `peers`), as fast as it will go.

Expressions are written by two algorithms, each the better start for automatic differentiation on some trees:

    rnea     recursive Newton-Euler in body coordinates; few joints enter each intermediate   [Featherstone 2008, 5.3]
    idsva    the analytical first derivatives in ground coordinates, as paper 004 differentiates [Singh 2022, alg. 1]

Vectors are SX columns, spatial vectors [angular; linear]; no 6x6 matrix is formed.  SX drops products with the zeros
and ones of a model while they are written, so the expressions fit the one robot they are made for: a tree of revolute
and prismatic joints.  Second order, the Jacobians of those expressions, in two ways,

    expanded   one straight-line function of all nonzero entries, each written with the zeros of its own sweep dropped
               and common subexpressions merged; the fastest, as long as it can be held (`EXPANDABLE`)
    sweeps     one function of a tangent direction, called once per degree of freedom; the only way for deep trees

and each runs in CasADi's virtual machine (VM) or, where a compiler digests it, as machine code.  CasADi writes one C
function of a million lines, on which gcc takes hours or gives up.  Here intermediates go to the work array (option
`avoid_stack`), so the lines can be cut anywhere: pieces of `PIECE` lines compile in time linear in their number, to
code as fast as that of the whole, 15 to 40 times as fast as the virtual machine.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynamics.model.joints import PRISMATIC, REVOLUTE
from experiments.derivatives.chains import depths

try:
    import casadi  # pyright: ignore[reportMissingImports]
except ImportError:
    casadi = None
ca: Any = casadi

EXPANDABLE = 5_000_000
"""Instructions of an expanded function that memory (about 1 kB each while it is made) and patience allow."""
INSTRUCTIONS_PER_TRIPLE = 400
"""About what one triple of joints on a path to the root takes in an expanded function, to foresee its length."""
COMPILABLE = 300_000
"""Instructions that are compiled by default; gcc takes a minute for them."""
COMPILED_SPEED_UP = 20
"""About what compiling gains: compiled sweeps of this many times the instructions may still win."""
ARGUMENTS = "const casadi_real** arg, casadi_real** res, casadi_real* restrict w"
PIECE = 500
"""Lines of C in a piece."""
UPPER = np.triu_indices(3)


# ------------------------------------------------------------------------------------------------ Newton-Euler
def symbols(model) -> tuple:
    """q, v, a as columns of symbols.

    Raises ImportError without CasADi, ValueError if a joint is neither revolute nor prismatic.
    """
    if ca is None:
        raise ImportError("this comparison needs CasADi: make peers")
    if not set(model.arrays.joint_type) <= {REVOLUTE, PRISMATIC}:
        raise ValueError("model: got other joints, expected revolute and prismatic ones only, as CasADi's expressions")
    return tuple(ca.SX.sym(name, model.nv) for name in "qva")


def _local_pose(m, i, q):
    """R, p of body i in its parent."""
    blocks, p = m.rotation[i].reshape(3, 3, 3), ca.SX(m.translation[i])
    if m.joint_type[i] == PRISMATIC:
        return ca.SX(blocks[0]), p + q * ca.SX(m.joint_axis[i])
    return ca.SX(blocks[0]) + ca.SX(blocks[1]) * ca.cos(q) + ca.SX(blocks[2]) * ca.sin(q), p


def _inertia(m, i):
    """Mass, first moment and inertia about the body's origin, as numbers."""
    I = np.zeros((3, 3))
    I[UPPER] = m.rotational_inertia[i]
    return float(m.mass[i]), m.first_moment[i], I + np.triu(I, 1).T


def rnea(model, q, v, a):
    """tau (nv, 1)."""
    m = model.arrays
    poses, motions, wrenches, tau = [], [], [], ca.SX(model.nv, 1)
    for i, parent in enumerate(m.parent):
        R, p = _local_pose(m, i, q[i])
        w, alpha, acc = motions[parent] if parent >= 0 else (ca.SX(3, 1), ca.SX(3, 1), ca.SX(-m.gravity))
        acc = R.T @ (acc + ca.cross(alpha, p) + ca.cross(w, ca.cross(w, p)))
        w, alpha, axis = R.T @ w, R.T @ alpha, ca.SX(m.dof_axis[i])
        if m.joint_type[i] == REVOLUTE:
            alpha = alpha + ca.cross(w, axis * v[i]) + axis * a[i]
            w = w + axis * v[i]
        else:
            acc = acc + axis * a[i] + 2 * ca.cross(w, axis * v[i])
        mass, h, I = _inertia(m, i)
        force = mass * acc + ca.cross(alpha, h) + ca.cross(w, ca.cross(w, h))
        moment = I @ alpha + ca.cross(w, I @ w) + ca.cross(h, acc)
        poses.append((R, p))
        motions.append((w, alpha, acc))
        wrenches.append((force, moment))
    for i in reversed(range(len(wrenches))):
        (R, p), (force, moment), parent = poses[i], wrenches[i], m.parent[i]
        effort = moment if m.joint_type[i] == REVOLUTE else force
        tau[i] = ca.dot(ca.SX(m.dof_axis[i]), effort) + m.armature[i] * a[i]
        if parent >= 0:
            above = wrenches[parent]
            force = R @ force
            wrenches[parent] = above[0] + force, above[1] + R @ moment + ca.cross(p, force)
    return tau


# ------------------------------------------------------------------------------------------------ analytical
def _mirror(I):
    """The symmetric matrix of this upper triangle; each entry is one expression, not two."""
    return ca.triu2symm(ca.triu(I))


def _cross_motion(x, y):
    return ca.vertcat(ca.cross(x[:3], y[:3]), ca.cross(x[:3], y[3:]) + ca.cross(x[3:], y[:3]))


def _cross_force(x, f):
    return ca.vertcat(ca.cross(x[:3], f[:3]) + ca.cross(x[3:], f[3:]), ca.cross(x[:3], f[3:]))


def _inertia_times(mass, h, I, x):
    return ca.vertcat(I @ x[:3] + ca.cross(h, x[3:]), mass * x[3:] + ca.cross(x[:3], h))


def _parallel_axis(h, v):
    """2 h.v 1 - h v' - v h'"""
    return 2 * ca.dot(h, v) * ca.SX.eye(3) - h @ v.T - v @ h.T


def _rate(h, I, x):
    """Rotational part of x x* I - I x."""
    turned = ca.skew(x[:3]) @ I
    return _mirror(turned + turned.T + _parallel_axis(h, x[3:]))


def _forward(model, q, v, a):
    """Per body its column S, psi, psi2 and its inertia, inertia rate, momentum and force in ground coordinates."""
    m, places, columns, composites = model.arrays, [], [], []
    for i, parent in enumerate(m.parent):
        world = ca.SX.eye(3), ca.SX(3, 1), ca.SX(6, 1), ca.vertcat(ca.SX(3, 1), -m.gravity)
        R, p, vp, ap = places[parent] if parent >= 0 else world
        axis, (local, shift) = R @ ca.SX(m.joint_axis[i]), _local_pose(m, i, q[i])
        R, p = R @ local, p + R @ shift
        S = ca.vertcat(axis, ca.cross(p, axis)) if m.joint_type[i] == REVOLUTE else ca.vertcat(ca.SX(3, 1), axis)
        psi = _cross_motion(vp, S)
        psi2 = _cross_motion(ap, S) + _cross_motion(vp, psi)
        vi, ai = vp + S * v[i], ap + S * a[i] + psi * v[i]
        mass, h, I = _inertia(m, i)
        com = h / mass if mass > 0.0 else h
        about_com = I - mass * (com @ com * np.eye(3) - np.outer(com, com))
        com = p + R @ ca.SX(com)
        h = mass * com
        I = _mirror(R @ ca.SX(about_com) @ R.T + 0.5 * _parallel_axis(h, com))
        momentum = _inertia_times(mass, h, I, vi)
        force = _inertia_times(mass, h, I, ai) + _cross_force(vi, momentum)
        places.append((R, p, vi, ai))
        columns.append((S, psi, psi2))
        composites.append((mass, h, I, _rate(h, I, vi), momentum, force))
    return columns, composites


def idsva(model, q, v, a):
    """dtau_dq, dtau_dv, M (nv, nv), zero between branches."""
    m, n = model.arrays, model.nv
    columns, composites = _forward(model, q, v, a)
    dq, dv, M = ca.SX(n, n), ca.SX(n, n), ca.SX(n, n)
    for i in reversed(range(n)):
        S, psi, psi2 = columns[i]
        mass, h, I, J, p, f = composites[i]
        massless = lambda x, k=p[3:], J=J: _inertia_times(0, k, J, x)  # noqa: E731
        half, turned = massless(S), _cross_force(S, p)
        i_s, b_s = _inertia_times(mass, h, I, S), half - turned
        f_v = half + turned + 2 * _inertia_times(mass, h, I, psi)
        f_q = massless(psi) + _cross_force(psi, p) + _inertia_times(mass, h, I, psi2) + _cross_force(S, f)
        j = i
        while j >= 0:
            Sj, psij, psi2j = columns[j]
            M[i, j] = ca.dot(i_s, Sj)
            dq[i, j] = ca.dot(b_s, psij) + ca.dot(i_s, psi2j)
            dv[i, j] = ca.dot(b_s, Sj) + 2 * ca.dot(i_s, psij)
            if j < i:
                M[j, i] = M[i, j]
                dq[j, i] = ca.dot(f_q, Sj)
                dv[j, i] = ca.dot(f_v, Sj)
            j = m.parent[j]
        M[i, i] += m.armature[i]
        parent = m.parent[i]
        if parent >= 0:
            sums = [above + below for above, below in zip(composites[parent], composites[i], strict=True)]
            sums[2], sums[3] = _mirror(sums[2]), _mirror(sums[3])
            composites[parent] = tuple(sums)
    return dq, dv, M


def rnea_jacobians(model, q, v, a):
    """dtau_dq, dtau_dv, M by automatic differentiation of `rnea`."""
    tau = rnea(model, q, v, a)
    return tuple(ca.jacobian(tau, x) for x in (q, v, a))


FIRST_ORDER: dict[str, Callable] = {"rnea": rnea_jacobians, "idsva": idsva}


# ------------------------------------------------------------------------------------------------ functions
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


# ------------------------------------------------------------------------------------------------ machine code
def compiler() -> str | None:
    """Path of a C compiler, or None."""
    return shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")


def split(source: str) -> str:
    """CasADi's C source of one function of SX, its body cut into pieces; all arguments and results are present."""
    start = re.search(r"^static int casadi_f0\(.*\{\n", source, re.M)
    if start is None:
        raise ValueError("source: expected C code generated by CasADi for one function")
    end = source.index("  return 0;\n}", start.end())
    body = source[start.end() : end]
    body = re.sub(r"if \(res\[\d+\]!=0\) ", "", body)
    body = re.sub(r"=arg\[(\d+)\]\? arg\[\1\]\[(\d+)\] : 0;", r"=arg[\1][\2];", body)
    lines = body.splitlines()
    pieces = ["\n".join(lines[i : i + PIECE]) for i in range(0, len(lines), PIECE)]
    head = "static __attribute__((noinline)) void piece_"
    functions = [f"{head}{i}({ARGUMENTS}) {{\n{piece}\n}}\n" for i, piece in enumerate(pieces)]
    calls = "".join(f"  piece_{i}(arg, res, w);\n" for i in range(len(pieces)))
    return source[: start.start()] + "\n".join(functions) + start.group() + calls + source[end:]


def compiled(function: Any, folder: Path) -> Any:
    """The casadi.Function, made of SX, as machine code for this processor.

    Source and shared library are kept in `folder` under a name made from their contents, and found again.
    Raises RuntimeError where there is no C compiler or it fails.
    """
    command = compiler()
    if command is None:
        raise RuntimeError("no C compiler found: expected gcc, cc or clang")
    generator = ca.CodeGenerator("generated.c", {"avoid_stack": True})
    generator.add(function)
    code = split(generator.dump())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.resolve() / f"{function.name()}_{hashlib.sha256(code.encode()).hexdigest()[:16]}.so"
    if not path.exists():
        written, unfinished = path.with_suffix(".c"), path.with_suffix(".part")
        written.write_text(code)
        flags = ["-O3", "-march=native", "-fPIC", "-shared", str(written), "-o", str(unfinished), "-lm"]
        result = subprocess.run([command, *flags], capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"{command} failed: {result.stderr[-500:]}")
        unfinished.rename(path)
    return ca.external(function.name(), str(path))


# ------------------------------------------------------------------------------------------------ calls
def evaluator(function: Any, q, v, a) -> Callable[[], list[np.ndarray]]:
    """A call that evaluates the function at K points (K, nv) without conversions between Python and CasADi.

    It returns the nonzero entries of each result, one array (K, nonzeros) that the next call overwrites.
    """
    inputs = [np.ascontiguousarray(x, dtype=float) for x in (q, v, a)]
    results = [np.empty((len(q), function.nnz_out(i))) for i in range(function.n_out())]
    buffer, trigger = function.map(len(inputs[0])).buffer()
    for i, x in enumerate(inputs):
        buffer.set_arg(i, memoryview(x))
    for i, x in enumerate(results):
        buffer.set_res(i, memoryview(x))
    used = buffer, inputs  # what the trigger points to must live as long as the call

    def evaluate(_used=used):
        trigger()
        return results

    return evaluate


class Candidate(NamedTuple):
    """One way to the derivatives: what to call, and how long it is."""

    name: str
    function: Any
    instructions: int


def second_order_candidates(
    model, folder: Path, compilable: int = COMPILABLE, expandable: int = EXPANDABLE
) -> list[Candidate]:
    """All ways to the second derivatives that are feasible for this tree."""
    found: list[Candidate] = []
    length = INSTRUCTIONS_PER_TRIPLE * int((depths(model) ** 2).sum())  # expanded, within a factor of two
    for by in FIRST_ORDER if length <= expandable else ():
        function = second_order(model, by)
        instructions = function.n_instructions()
        found.append(Candidate(f"{by} expanded, virtual machine", function, instructions))
        if compiler() and instructions <= compilable:
            found.append(Candidate(f"{by} expanded, compiled", compiled(function, folder), instructions))
    shortest = min((x.instructions for x in found), default=None)
    if shortest is not None and shortest <= compilable:
        return found
    function, instructions = second_order_sweeps(model)
    if shortest is None or model.nv * instructions < COMPILED_SPEED_UP * shortest:
        found.append(Candidate("idsva sweeps, virtual machine", function, instructions))
        if compiler() and instructions <= compilable:
            code, _ = second_order_sweeps(model, code=lambda f: compiled(f, folder))
            found.append(Candidate("idsva sweeps, compiled", code, instructions))
    return found
