"""Collision models of robots: capsules around shapes, and the pairs of shapes that may collide."""
