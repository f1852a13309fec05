"""Predictive control: a cart and pole under gusts, by open loop, gains and re-planning; an arm whose target is known
when it is sampled, by what is left to do then."""
