"""The quadruped's gaits by iLQR and DDP, from random starts too, and Crocoddyl's gaits in both libraries."""
