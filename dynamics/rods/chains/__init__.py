"""Closed chains: their configurations, and motion under their constraints."""
