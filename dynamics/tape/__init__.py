"""Functions as lists of instructions: traced once, differentiated exactly, run for many points by one compiled loop.

    trace                 calls a user's function with symbols, which gives expressions in its arguments
    calculus              expressions of the Jacobian, and of the Hessian of a weighted sum
    program               instructions that compute expressions, in few registers
    interpreter           runs programs, one point per lane; compiled once for all functions
"""
