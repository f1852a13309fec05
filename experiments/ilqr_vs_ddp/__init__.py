"""iLQR against DDP on every problem from many random starts: how often each succeeds, in how many steps, how soon."""
