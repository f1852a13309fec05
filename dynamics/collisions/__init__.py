"""What of a robot can hit what: capsules around its shapes, and the pairs of them worth looking at."""
