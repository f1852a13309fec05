"""Shapes of bodies, for pictures and for collisions: plain numbers, in metres, in the axes of the shape itself."""
