"""The quadruped's gaits by iLQR and DDP, from random starts too, Crocoddyl's gaits in both libraries, and a jump under
limits that are barely reached."""
