"""Prepared calls as a C library, which runs without Python."""

from dynamics.simd.c_library.library import check_place, identifier, write_library

__all__ = ["check_place", "identifier", "write_library"]
