"""Warm starts: own optima given back, initial states that have moved, predictive control with a hard goal."""
