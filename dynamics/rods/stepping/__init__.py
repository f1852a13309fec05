"""Motion in time: implicit steps, stiff integrators, and soft robots as systems of optimal control."""
