"""Shapes of bodies, for pictures and for collisions, in metres, in the axes of the shape itself."""
