"""Robots of other packages, read by `dynamics.load_robot`, against what these packages compute."""
