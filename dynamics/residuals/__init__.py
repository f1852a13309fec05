"""Residuals of a robot's state x = [q; v] and of its contact forces: values, Jacobians and exact Hessian products, all
knots in one call."""
