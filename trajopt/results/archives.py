"""Arrays by name as the content of an .npz file, and back.

An .npz file is a zip archive with one .npy member for each array, stored without compression.  A solution has dozens of
small arrays, for each of which numpy's writer and reader compose, or parse, a header; there are few different ones, so
that here they are kept, and a file takes a fifth of the time.  numpy reads what is written here, and what numpy has
written is read here.
"""

from __future__ import annotations

import math
import os
import zipfile
from functools import lru_cache
from io import BytesIO
from struct import Struct
from typing import IO
from zlib import crc32

import numpy as np
from numpy.lib import format as npy

# --------------------------------------------------------------------------------------------
# Writing.  The layout is that of sections 4.3.7, 4.3.12 and 4.3.16 of PKWARE's "APPNOTE.TXT - .ZIP File Format
# Specification", version 6.3.

_LOCAL, _DIRECTORY, _END = Struct("<4s5H3I2H"), Struct("<4s6H3I5H2I"), Struct("<4s4H2IH")
_VERSION, _UTF_8, _DAY = 20, 1 << 11, 1 << 5 | 1
"""Version of the format; the flag of names in UTF-8; the first of January of 1980, so that equal arrays make equal
files."""

LARGEST = 1 << 31
"""Bytes of arrays from which on numpy writes the archive, in the extended format for more than 4 GiB."""


def archive_of(arrays: dict[str, np.ndarray]) -> bytes:
    """The content of an .npz file of these arrays, which are numbers or text."""
    if sum(array.nbytes for array in arrays.values()) >= LARGEST or len(arrays) >= 1 << 16:
        stream = BytesIO()
        np.savez(stream, **arrays)  # pyright: ignore[reportArgumentType]
        return stream.getvalue()
    members, directory, place = [], [], 0
    for name, array in arrays.items():
        title = f"{name}.npy".encode()
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        header, checksum = _header(array.shape, array.dtype, fortran)
        numbers = array.tobytes("F" if fortran else "C")
        size = len(header) + len(numbers)
        about = (_VERSION, _UTF_8, 0, 0, _DAY, crc32(numbers, checksum), size, size, len(title), 0)
        members += [_LOCAL.pack(b"PK\3\4", *about), title, header, numbers]
        directory += [_DIRECTORY.pack(b"PK\1\2", _VERSION, *about, 0, 0, 0, 0, place), title]
        place += _LOCAL.size + len(title) + size
    listing = b"".join(directory)
    end = _END.pack(b"PK\5\6", 0, 0, len(arrays), len(arrays), len(listing), place, 0)
    return b"".join([*members, listing, end])


@lru_cache(maxsize=1024)
def _header(shape: tuple[int, ...], dtype: np.dtype, fortran: bool) -> tuple[bytes, int]:
    """Header of an .npy file, and its checksum."""
    stream = BytesIO()
    about = {"descr": npy.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape}
    npy.write_array_header_1_0(stream, about)
    return stream.getvalue(), crc32(stream.getvalue())


# --------------------------------------------------------------------------------------------
# Reading.


def read_archive(source: str | os.PathLike | IO[bytes]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, a path or a binary stream.

    Raises ValueError, or an error of `zipfile`, for a file that is none or is damaged.
    """
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as stream:
            return read_archive(stream)
    size = source.seek(0, os.SEEK_END)
    source.seek(0)
    with zipfile.ZipFile(source) as archive:
        members = archive.infolist()
        _check_sizes(members, size)
        contents = {member.filename: archive.read(member) for member in members}
    headers = {name: _checked_header(name, content) for name, content in contents.items()}
    return {name.removesuffix(".npy"): _array(content, *headers[name]) for name, content in contents.items()}


def _check_sizes(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise ValueError unless the file is as large as its members claim, before one of them is read: members are stored
    uncompressed, so that no small file becomes a large array."""
    if sum(member.file_size for member in members) > size:
        raise ValueError("its members are larger than the file; expected members that are not compressed")
    names = [member.filename for member in members]
    if len(set(names)) != len(names) or not all(name.endswith(".npy") for name in names):
        raise ValueError("expected one .npy member for each array")


_HEADERS = {(1, 0): (2, npy.read_array_header_1_0), (2, 0): (4, npy.read_array_header_2_0)}
"""Bytes of the length of a header, and numpy's reader of it, by the version of the format."""


def _checked_header(name: str, content: bytes) -> tuple[int, tuple[int, ...], bool, np.dtype]:
    """Size of the header, shape, order and type of an array; ValueError unless its numbers, and no more, are there."""
    version = npy.read_magic(BytesIO(content[: npy.MAGIC_LEN]))
    if version not in _HEADERS:
        raise ValueError(f"{name}: got .npy format {version}, expected one of {list(_HEADERS)}")
    start = npy.MAGIC_LEN + _HEADERS[version][0]
    end = start + int.from_bytes(content[npy.MAGIC_LEN : start], "little")
    shape, fortran, dtype = _parsed(version, content[npy.MAGIC_LEN : end])
    if dtype.hasobject or end + math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"{name}: got {len(content)} bytes for shape {shape} of {dtype}")
    return end, shape, fortran, dtype


@lru_cache(maxsize=1024)
def _parsed(version: tuple[int, int], header: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    return _HEADERS[version][1](BytesIO(header))


def _array(content: bytes, start: int, shape: tuple[int, ...], fortran: bool, dtype: np.dtype) -> np.ndarray:
    return np.ndarray(shape, dtype, content, start, order="F" if fortran else "C").copy("K")
