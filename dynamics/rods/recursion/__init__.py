"""The two passes over the segments: inverse dynamics with first and second derivatives, and what is solved with it."""
