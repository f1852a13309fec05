"""Shapes of rest, by Newton's method."""
