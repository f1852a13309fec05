"""First and second derivatives of inverse and forward dynamics."""
