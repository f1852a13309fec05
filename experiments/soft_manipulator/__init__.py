"""iLQR and DDP on soft robots: three problems, and many targets of a soft manipulator."""
