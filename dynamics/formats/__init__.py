"""Readers of robot descriptions: one per format, and one function for all of them."""
