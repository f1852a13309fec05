"""Solves of thousands of random problems with bad weights, starts, limits and constraints: none may fail unnamed."""
