"""Products of R^n, SO(3), SE(3) and SE(2): one point per call, with little overhead for callers in Python.

A product is rows (P, 4) of integers, one for each factor: its group, its offsets in a point and in a tangent, and its
dimension, which is read for R^n alone.  Points are those of the groups' files: quaternions (x y z w), positions and
quaternions, positions and an angle.
"""

from dynamics.simd import helper, kernel, lean_routine, load, store
from dynamics.spatial import se2, se3, so3
from dynamics.spatial.spatial import load3, load6, store3, store6

EUCLIDEAN, SO3, SE3, SE2 = range(4)
UNIT = 1e-6
"""Tolerance on the norm of a unit quaternion."""


@helper
def _quaternion(x, i):
    return load(x, i), load(x, i + 1), load(x, i + 2), load(x, i + 3)


@helper
def _store_quaternion(x, i, quaternion):
    store3(x, i, (quaternion[0], quaternion[1], quaternion[2]))
    store(x, i + 3, quaternion[3])


@kernel
def _integrate(factors, x, dx, out):
    """out = x exp(dx), quaternions renormalised."""
    for i in range(factors.shape[0]):
        group, a, b = factors[i, 0], factors[i, 1], factors[i, 2]
        if group == SE3:
            p, quaternion = se3.integrate(load3(x, a), _quaternion(x, a + 3), load6(dx, b))
            store3(out, a, p)
            _store_quaternion(out, a + 3, quaternion)
        elif group == SO3:
            _store_quaternion(out, a, so3.normalise(so3.product(_quaternion(x, a), so3.exp(load3(dx, b)))))
        elif group == SE2:
            store3(out, a, se2.integrate(load3(x, a), load3(dx, b)))
        else:
            for k in range(factors[i, 3]):
                store(out, a + k, load(x, a + k) + load(dx, b + k))


@kernel
def _difference(factors, x0, x1, dx):
    """dx = log(x0^-1 x1), with rotations at most pi long and angles of SE(2) not wrapped."""
    for i in range(factors.shape[0]):
        group, a, b = factors[i, 0], factors[i, 1], factors[i, 2]
        if group == SE3:
            p0, p1 = load3(x0, a), load3(x1, a)
            store6(dx, b, se3.difference(p0, _quaternion(x0, a + 3), p1, _quaternion(x1, a + 3)))
        elif group == SO3:
            store3(dx, b, so3.log(so3.product(so3.conjugate(_quaternion(x0, a)), _quaternion(x1, a))))
        elif group == SE2:
            store3(dx, b, se2.difference(load3(x0, a), load3(x1, a)))
        else:
            for k in range(factors[i, 3]):
                store(dx, b + k, load(x1, a + k) - load(x0, a + k))


@lean_routine
def integrate(factors, x, dx, out):
    """out = x exp(dx) for a point x and a tangent dx of the product."""
    _integrate(factors, x, dx, out)


@lean_routine
def difference(factors, x0, x1, dx):
    """dx = log(x0^-1 x1) for points of the product."""
    _difference(factors, x0, x1, dx)


@lean_routine
def first_no_point(factors, x):
    """Index of the first factor in which x is no point, for a number that is not finite or a quaternion that is not of
    unit length; -1 if x is a point of the product."""
    for i in range(factors.shape[0]):
        group, a = factors[i, 0], factors[i, 1]
        count = factors[i, 3] if group == EUCLIDEAN else 7 if group == SE3 else 4 if group == SO3 else 3
        total = 0.0
        for k in range(a, a + count):
            total += abs(x[k])
        if not total < float("inf"):
            return i
        if group == SE3 or group == SO3:
            square = 0.0
            for k in range(a + count - 4, a + count):
                square += x[k] * x[k]
            if abs(square**0.5 - 1.0) > UNIT:
                return i
    return -1
