"""Prepared calls as a C library, which runs without Python."""

from dynamics.simd.c_library.library import write_library

__all__ = ["write_library"]
