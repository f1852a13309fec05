"""The backward pass: expansions of a problem along a trajectory, and the sweep that computes gains from them."""
