"""iLQR and DDP: one loop, with Gauss-Newton or exact directions."""
