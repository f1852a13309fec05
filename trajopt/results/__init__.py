"""Results of a solve: the solution, its policy, its explanation, its file, and comparisons of several."""
