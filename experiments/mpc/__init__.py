"""Predictive control of a cart and pole under gusts: open loop, the gains of one plan, a plan renewed at every knot."""
