"""Robots: their joints, bodies and attachments, builders and edits, and the arrays that kernels take."""
