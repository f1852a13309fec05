"""Second order at a solution: what its exact Hessian says of minima, of neighbouring solutions, and of noise."""
