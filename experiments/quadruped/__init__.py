"""The quadruped: what an iteration on it takes."""
