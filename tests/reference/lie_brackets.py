"""Brackets of velocity components, [e_k, e_j], from the matrices of the joints' motions: slow, for tests."""

import numpy as np


def twist(angular_axis, linear_axis):
    """4x4 matrix of a twist."""
    x, y, z = angular_axis
    matrix = np.zeros((4, 4))
    matrix[:3, :3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]]
    matrix[:3, 3] = linear_axis
    return matrix


def structure_constants(model):
    """c (nv, nv, nv): [e_k, e_j] = sum_l c[l, k, j] e_l; zero between different joints."""
    c = np.zeros((model.nv, model.nv, model.nv))
    for joint, start in zip(model.joints, model.v_index, strict=True):
        axes, angular = joint.motion_subspace()
        zero = np.zeros(3)
        basis = [twist(a, zero) if turns else twist(zero, a) for a, turns in zip(axes, angular, strict=True)]
        columns = np.array([b.ravel() for b in basis]).T
        for k, x in enumerate(basis):
            for j, y in enumerate(basis):
                bracket = (x @ y - y @ x).ravel()
                coefficients, *_ = np.linalg.lstsq(columns, bracket, rcond=None)
                assert np.allclose(columns @ coefficients, bracket, atol=1e-15), "the motions form an algebra"
                c[start : start + joint.nv, start + k, start + j] = coefficients
    return c
