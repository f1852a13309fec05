"""Model of a soft robot: rods, links, strain bases, loads and closures, as arrays that kernels read."""
