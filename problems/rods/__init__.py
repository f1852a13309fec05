"""Soft and hybrid robots of Mathew et al. 2025 with inputs for ten seconds: functions that return a `RodExample`."""
