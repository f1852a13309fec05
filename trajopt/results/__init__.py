"""What a solve leaves: the solution, its policy, its explanation, its file, and comparisons of several."""
