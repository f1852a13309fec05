"""Functions as lists of instructions: traced once, differentiated exactly, run for many points by one compiled loop.

    trace                 a user's function is called with symbols, which gives expressions of its arguments
    calculus              expressions of their Jacobian, and of the Hessian of a weighted sum
    program               the instructions that compute expressions, in few registers
    interpreter           runs them, one point per lane; compiled once for all functions
"""
