"""Inverse dynamics with derivatives, the equation of motion, closed chains and accelerations with constraints."""
