"""The acceleration a(q, v, u) of a controlled robot and its derivatives, one knot per lane."""

from dynamics.algorithms.inverse_mass import AUTOMATIC
from dynamics.derivatives.forward_dynamics import (
    forward_dynamics_first_order,
    forward_dynamics_hessian_kernel,
)
from dynamics.simd import align_stack, fma, kernel, load, splat, store
from dynamics.systems.actuation import times_actuation, torques_of_controls


@kernel
def acceleration_derivatives(m, B, skip, q, v, u, d, e, a):
    """a(q, v, u) and its derivatives, into e.aq, e.av, e.au; d, e are scratch (`Dynamics`, `Derivatives`)."""
    torques_of_controls(B, skip, u, d.tau)
    forward_dynamics_first_order(
        m, q, v, d.tau, AUTOMATIC, d.zeros, None, d.body, d.dof, d.art, d.elim, e.torque, a, e.aq, e.av, e.M, e.Minv
    )
    times_actuation(B, skip, e.Minv, e.au)


@kernel
def acceleration_hessian(m, B, skip, q, v, u, d, e, s):
    """Hessian of s.y'a(q, v, u): s.Hqq (symmetric part of the Lie Hessian), s.Hqv, s.Hvv, s.Hqu; also d.a and the
    first order into e.aq, e.av, e.au.  d, e, s are scratch (`Dynamics`, `Derivatives`, `Curvature`)."""
    align_stack(u)
    n, nu = B.shape
    torques_of_controls(B, skip, u, d.tau)
    forward_dynamics_hessian_kernel(
        m, q, v, d.tau, s.y, d.zeros, None, d.body, d.dof, d.art, d.elim, s.virtual, s.zeta, e.torque, d.a,
        e.aq, e.av, e.M, e.Minv, s.w, s.Hqq, s.Hqv, s.Hvv, s.Hqa,
    )  # fmt: skip
    times_actuation(B, skip, e.Minv, e.au)
    for i in range(n):
        for j in range(nu):
            x = splat(u, 0.0)
            for k in range(n):
                x = fma(load(s.Hqa, i * n + k), load(e.au, k * nu + j), x)
            store(s.Hqu, i * nu + j, -x)
        for j in range(i):
            x = 0.5 * (load(s.Hqq, i * n + j) + load(s.Hqq, j * n + i))
            store(s.Hqq, i * n + j, x)
            store(s.Hqq, j * n + i, x)
