"""Robots: their joints, bodies and attachments, builders and edits, and the arrays that kernels take.

What makes robots of others is loaded on first use: a model has it as methods, and it stands on builders of models.
"""

from importlib import import_module
from typing import Any

_EDITS = ("locked", "with_body")


def __getattr__(name: str) -> Any:
    if name in _EDITS:
        return getattr(import_module("dynamics.model.edits"), name)
    raise AttributeError(f"module 'dynamics.model' has no attribute {name!r}")
