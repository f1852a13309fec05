"""Second order at a solution: minima, neighbouring solutions, and noise, from the exact Hessian."""
