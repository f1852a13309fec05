"""Rigid contacts: accelerations and contact forces, and their first and second derivatives."""
