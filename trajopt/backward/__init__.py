"""The backward pass: expansions of a problem along a trajectory, and the sweep that makes gains of them."""
