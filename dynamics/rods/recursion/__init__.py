"""Recursions over the segments: inverse dynamics with first and second derivatives, and forward dynamics."""
