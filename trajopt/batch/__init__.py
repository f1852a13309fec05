"""Many problems at once, in worker processes here or on a cluster; `trajopt.solve_many` is the way in."""
