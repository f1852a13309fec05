"""Loads on segments: weight, water, contact, given wrenches, tendons."""
