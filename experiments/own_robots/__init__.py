"""Scripts as users write them, with robots and functions of their own: what do they compile where all else is there?
Run by `experiments.cold_start`."""
