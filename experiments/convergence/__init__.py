"""How iLQR and DDP converge: on every problem, and from many perturbed starts of two of them."""
