"""Equilibria of soft robots and their sensitivities, by Newton's method."""
