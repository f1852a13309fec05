"""Strains, poses and twists along segments, their derivatives and curvatures."""
