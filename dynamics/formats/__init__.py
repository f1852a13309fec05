"""Robots as others describe them: one reader per format, and one entry to all of them."""
