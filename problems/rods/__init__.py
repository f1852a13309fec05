"""Soft robots that problems and scripts share."""
