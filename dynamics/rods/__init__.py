"""Cosserat rods and rigid bodies in trees: models, dynamics, first and second derivatives."""
