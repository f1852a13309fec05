"""How inverse and hybrid dynamics change along a direction in which everything may move.

Body i moves relative to its parent by the twist delta_i = Ad placement_i + S dq.  In the world frame, let nu, alpha and
phi be the change of a body's velocity V, of its acceleration A and of the force F on its subtree *as seen from the
moving body* (dF = phi + xi x* F, xi the sum of delta down the path), so that S and I change only as far as p enters
them directly.  Down the tree and back up                                                           [Kim 2012, table 5]

    nu    = nu_p + V_p x delta + S dqd
    alpha = alpha_p + A_p x delta + (nu_p + V_p x delta) x S qd + V_p x S dqd + S dqdd
    phi   = I alpha + dI A + nu x* I V + V x* (I nu + dI V) - dW + sum over children c of (phi_c + delta_c x* F_c)
    dtau  = S.phi + armature dqdd

where dW is the change of the external wrench seen from the body: its given direction, and for dead loads what they fall
behind a load that turns with the body.

Forward and hybrid dynamics need no recursion of their own (tables 6 and 7 there).  With r = dID at the known part of
da, M x = dtau - r where torques are given, and dtau = r + M x where accelerations are: one solve with the factor that
the articulated-body algorithm has left.
"""

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, hybrid_dynamics_kernel, solve_articulated
from dynamics.algorithms.frames import frame_pose
from dynamics.algorithms.kinematics import (
    ACCELERATION,
    BODY,
    COLUMN,
    DOF,
    FORCE,
    INERTIA,
    MOMENT,
    MOMENTUM,
    POSITION,
    ROTATION,
    VELOCITY,
)
from dynamics.algorithms.loads import add_loads, dead_load
from dynamics.derivatives.inertial_parameters import INERTIAL
from dynamics.derivatives.parameter_directions import TWIST
from dynamics.knot_driver import nb, nv
from dynamics.simd import align_stack, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.lane_blocks import carving, lanes
from dynamics.spatial import (
    add6,
    add_cross,
    add_cross_force,
    add_cross_motion,
    add_inertia_times,
    add_scaled6,
    cross,
    dot6,
    inertia_times,
    join,
    load3,
    load6,
    load9,
    rotate,
    store3,
    store6,
    world_inertia,
)

# per body: delta, nu, alpha, phi, and the angular part of xi
DELTA, NU, ALPHA, PHI, TURN = 0, 6, 12, 18, 24
CHANGE = 27


@helper
def _moved_placement(m, i, placement, body):
    """World twist of joint i's placement, given as [linear; angular] in its own axes."""
    C, t = m.rotation[i], m.translation[i]
    frame = (  # a revolute joint's blocks at angle zero are [0] + [1]; those of the others [0] + 0
        C[0] + C[9], C[1] + C[10], C[2] + C[11], C[3] + C[12], C[4] + C[13], C[5] + C[14], C[6] + C[15], C[7] + C[16],
        C[8] + C[17], t[0], t[1], t[2],
    )  # fmt: skip
    R, p = frame_pose(m.parent[i], frame, body)
    w = rotate(R, load3(placement, TWIST * i + 3))
    return join(w, add_cross(rotate(R, load3(placement, TWIST * i)), p, w))


@helper
def _load_parent(m, i, body, change):
    """V and A of the parent of body i, and its nu, alpha and turn; the world's acceleration is -g."""
    zero = splat(body, 0.0)
    g = m.gravity
    V = nu = alpha = (zero, zero, zero, zero, zero, zero)
    A = (zero, zero, zero, zero - g[0], zero - g[1], zero - g[2])
    turn = (zero, zero, zero)
    if m.parent[i] >= 0:
        b, c = m.parent[i] * BODY, m.parent[i] * CHANGE
        V, A = load6(body, b + VELOCITY), load6(body, b + ACCELERATION)
        nu, alpha, turn = load6(change, c + NU), load6(change, c + ALPHA), load3(change, c + TURN)
    return V, A, nu, alpha, turn


@kernel
def _change_motion(m, v, direction, body, dof, change):
    """delta, nu, alpha and turn of every body."""
    align_stack(body)
    zero = splat(body, 0.0)
    for i in range(m.parent.size):
        V, A, nu, alpha, turn = _load_parent(m, i, body, change)
        delta = joint = rate = (zero, zero, zero, zero, zero, zero)
        if direction.placement.shape[0] > 0:
            delta = _moved_placement(m, i, direction.placement, body)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            S = load6(dof, k * DOF + COLUMN)
            delta = add_scaled6(delta, load(direction.q, k), S)
            joint = add_scaled6(joint, load(v, k), S)
            rate = add_scaled6(rate, load(direction.v, k), S)
            alpha = add_scaled6(alpha, load(direction.a, k), S)
        nu = add_cross_motion(nu, V, delta)
        alpha = add_cross_motion(add_cross_motion(alpha, A, delta), nu, joint)
        c = i * CHANGE
        store6(change, c + DELTA, delta)
        store6(change, c + NU, add6(nu, rate))
        store6(change, c + ALPHA, add_cross_motion(alpha, V, rate))
        store3(change, c + TURN, (turn[0] + delta[0], turn[1] + delta[1], turn[2] + delta[2]))


@kernel
def _change_forces(m, direction, body, change):
    """phi of every body alone, external wrenches left out."""
    align_stack(body)
    for i in range(m.parent.size):
        b, c = i * BODY, i * CHANGE
        V, A, P = load6(body, b + VELOCITY), load6(body, b + ACCELERATION), load6(body, b + MOMENTUM)
        h, I = load3(body, b + MOMENT), load6(body, b + INERTIA)
        nu = load6(change, c + NU)
        force = add_cross_force(inertia_times(m.mass[i], h, I, load6(change, c + ALPHA)), nu, P)
        momentum = inertia_times(m.mass[i], h, I, nu)
        if direction.inertial.shape[0] > 0:
            o = i * INERTIAL
            x = load6(direction.inertial, o + 4)  # xx xy yy xz yz zz
            mass = load(direction.inertial, o)
            h, I = world_inertia(
                load9(body, b + ROTATION), load3(body, b + POSITION), mass, load3(direction.inertial, o + 1),
                (x[0], x[1], x[3], x[2], x[4], x[5]),
            )  # fmt: skip
            force = add_inertia_times(force, mass, h, I, A)
            momentum = add_inertia_times(momentum, mass, h, I, V)
        store6(change, c + PHI, add_cross_force(force, V, momentum))


@helper
def _add_force(change, c, p, f, n):
    """phi at offset c += the force f at the point p and the moment n."""
    store6(change, c + PHI, add6(load6(change, c + PHI), join(add_cross(n, p, f), f)))


@kernel
def _change_loads(m, loads, dloads, body, change):
    """phi -= dW."""
    if dloads.follower.shape[0] > 0:
        for i in range(m.parent.size):
            R, w = load9(body, i * BODY + ROTATION), load6(dloads.follower, 6 * i)
            f, n = rotate(R, (-w[0], -w[1], -w[2])), rotate(R, (-w[3], -w[4], -w[5]))
            _add_force(change, i * CHANGE, load3(body, i * BODY + POSITION), f, n)
    for l in range(dloads.dead.shape[0] // 6):
        b, p, f, n = dead_load(dloads, l, body)
        _add_force(change, b // BODY * CHANGE, p, (-f[0], -f[1], -f[2]), (-n[0], -n[1], -n[2]))
    for l in range(loads.dead.shape[0] // 6):  # a load that turned with the body would change by turn x f, turn x n
        b, p, f, n = dead_load(loads, l, body)
        c = b // BODY * CHANGE
        turn = load3(change, c + TURN)
        _add_force(change, c, p, cross(turn, f), cross(turn, n))


@kernel
def _change_torques(m, da, body, dof, change, dtau):
    """dtau, while FORCE and phi become those of the subtrees."""
    align_stack(body)
    for i in range(m.parent.size - 1, -1, -1):
        b, c = i * BODY, i * CHANGE
        F, phi = load6(body, b + FORCE), load6(change, c + PHI)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            rotor = splat(dtau, m.armature[k]) * load(da, k)
            store(dtau, k, rotor + dot6(load6(dof, k * DOF + COLUMN), phi))
        if m.parent[i] >= 0:
            o, e = m.parent[i] * BODY + FORCE, m.parent[i] * CHANGE + PHI
            store6(body, o, add6(load6(body, o), F))
            store6(change, e, add_cross_force(add6(load6(change, e), phi), load6(change, c + DELTA), F))


@shared_kernel
def change_of_inverse_dynamics(m, v, loads, dloads, direction, body, dof, change, dtau):
    """dtau (nv) for one knot per lane, after the forward pass with the net FORCE of every body, loads subtracted.

    change (nb CHANGE) is scratch; FORCE becomes that of the subtrees."""
    _change_motion(m, v, direction, body, dof, change)
    _change_forces(m, direction, body, change)
    if loads is not None:
        _change_loads(m, loads, dloads, body, change)
    _change_torques(m, direction.a, body, dof, change, dtau)


class HybridLanes(NamedTuple):
    """Scratch of `change_of_hybrid_dynamics` on top of that of inverse dynamics."""

    art: np.ndarray = lanes(nb * ARTICULATED)
    elim: np.ndarray = lanes(nv * ELIMINATION)
    tau: np.ndarray = lanes(nv)
    r: np.ndarray = lanes(nv)
    rest: np.ndarray = lanes(nv)
    x: np.ndarray = lanes(nv)


carve_hybrid, hybrid_numbers = carving(HybridLanes)


@shared_kernel
def change_of_hybrid_dynamics(m, q, v, a, prescribed, loads, dloads, direction, dtau, body, dof, change, w):
    """direction.a and dtau (nv) where not given, for one knot per lane; zeros are expected there.

    w.tau are the torques; the other arguments as above and in `hybrid_dynamics_kernel`."""
    _, elim, _, r, rest, x = w
    x[:] = 0.0
    hybrid_dynamics_kernel(m, q, v, a, w.tau, prescribed, x, loads, body, dof, w.art, elim)
    for i in range(m.parent.size):
        b = i * BODY
        h, I = load3(body, b + MOMENT), load6(body, b + INERTIA)
        force = inertia_times(m.mass[i], h, I, load6(body, b + ACCELERATION))
        store6(body, b + FORCE, add_cross_force(force, load6(body, b + VELOCITY), load6(body, b + MOMENTUM)))
    if loads is not None:
        add_loads(m, loads, -1.0, body)
    change_of_inverse_dynamics(m, v, loads, dloads, direction, body, dof, change, r)
    for k in range(m.dof_body.size):
        store(rest, k, load(dtau, k) - load(r, k))
    solve_articulated(m, x, rest, prescribed, dof, elim, w.art)
    for k in range(m.dof_body.size):
        if prescribed[k] != 0:
            store(dtau, k, load(r, k) + load(rest, k))
        else:
            store(direction.a, k, load(x, k))
