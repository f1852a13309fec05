"""What tasks are made of, measured: distances, free durations, steps of every problem, systems of a user's own."""
