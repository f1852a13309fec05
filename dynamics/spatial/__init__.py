"""Lie groups of the joints, on flat tuples of numbers, generic over float64 and lanes: one file per group.

Conventions, the same in every file.  Right tangents, q (+) d = q exp(d), so that velocities are body velocities; twists
are [linear; angular].  For a tangent vector xi and a covector k:

    A(xi)     = Ad_exp(-xi)        Jr(xi)  right Jacobian,  exp(xi + eta) = exp(xi) exp(Jr eta + O(eta^2))
    C(k)      k'[a, b] = a'C(k) b, antisymmetric
    Gam(xi,k) symmetric,  eta'Gam eta = k'(D Jr(xi)[eta]) eta

All four are analytic in xi and evaluated without a branch from the Stumpff coefficients of |phi|^2.
"""
