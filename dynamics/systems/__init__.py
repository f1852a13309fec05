"""Discrete-time systems: robots under integrators, their expansions and rollouts."""
