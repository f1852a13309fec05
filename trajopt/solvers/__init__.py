"""iLQR and DDP: one loop, two kinds of direction."""
