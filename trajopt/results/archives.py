"""Arrays by name as the content of an .npz file, and back.

An .npz file is a zip archive with one .npy member for each array, stored without compression.  A solution has dozens of
small arrays, for each of which numpy's writer and reader compose, or parse, a header; there are few different ones, so
that here they are kept, and a file takes a fifth of the time.  numpy reads what is written here, and what numpy has
written is read here.
"""

from __future__ import annotations

import math
import os
import stat
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
_VERSION, _UTF_8, _ENCRYPTED, _DAY = 20, 1 << 11, 1, 1 << 5 | 1
"""Version of the format; the flags of names in UTF-8 and of encryption; the first of January of 1980, so that equal
arrays make equal files."""

LARGEST = 1 << 31
"""Bytes of arrays from which on numpy writes the archive, in the extended format for more than 4 GiB."""
MOST = (1 << 16) - 1
"""Number of arrays from which on it does, because the format counts them in two bytes."""


def archive_of(arrays: dict[str, np.ndarray]) -> bytes:
    """The content of an .npz file of these arrays, which are numbers or text."""
    return with_arrays(_END.pack(b"PK\5\6", 0, 0, 0, 0, 0, 0, 0), arrays)


def with_arrays(content: bytes, arrays: dict[str, np.ndarray]) -> bytes:
    """The content of a file that was made by `archive_of`, with these arrays behind its own, which have other names."""
    *_, count, _, size, place, _ = _END.unpack(content[-_END.size :])
    large = len(content) + sum(array.nbytes for array in arrays.values()) >= LARGEST
    if large or count + len(arrays) >= MOST:
        stream = BytesIO()
        np.savez(stream, **_arrays(content), **arrays)  # pyright: ignore[reportArgumentType]
        return stream.getvalue()
    *_, count, size, place, _ = _END.unpack(content[-_END.size :])
    members, directory = [content[:place]], [content[place : place + size]]
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
    listing, count = b"".join(directory), count + len(arrays)
    return b"".join([*members, listing, _END.pack(b"PK\5\6", 0, 0, count, count, len(listing), place, 0)])


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

    Raises
    ------
    FileNotFoundError, PermissionError
    ValueError
        The source is a folder or a device, no archive of arrays, or damaged.
    """
    return _arrays(content_of(source) if isinstance(source, (str, os.PathLike)) else _content_of_stream(source))


def content_of(path: str | os.PathLike) -> bytes:
    """The content of a regular file.

    Raises
    ------
    FileNotFoundError, PermissionError
    ValueError
        The path is that of a folder, of a device or a pipe, which may never end, or cannot be one.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("got a folder, a device or a pipe, expected a file")
    with open(path, "rb") as stream:
        return stream.read()


def _content_of_stream(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read()


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of an archive with this content; ValueError for every other content."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            listed = archive.infolist()
            _check_members(listed, len(content))
            members = {member.filename: archive.read(member) for member in listed}
        headers = {name: _checked_header(name, member, len(content)) for name, member in members.items()}
        return {name.removesuffix(".npy"): _array(member, *headers[name]) for name, member in members.items()}
    except MemoryError:  # of a file that is whole, and larger than the memory
        raise
    except Exception as error:  # of zipfile, zlib and numpy, whose readers raise all kinds for damaged files
        raise ValueError(str(error)) from error


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise ValueError unless members are plain, and the file is as large as they claim, before one of them is read:
    they are stored uncompressed, so that no small file becomes a large array."""
    if any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED for member in members):
        raise ValueError("expected members that are neither compressed nor encrypted")
    if sum(member.file_size for member in members) > size:
        raise ValueError("its members are larger than the file")
    names = [member.filename for member in members]
    if len(set(names)) != len(names) or not all(name.endswith(".npy") for name in names):
        raise ValueError("expected one .npy member for each array")


_HEADERS = {(1, 0): (2, npy.read_array_header_1_0), (2, 0): (4, npy.read_array_header_2_0)}
"""Bytes of the length of a header, and numpy's reader of it, by the version of the format."""


def _checked_header(name: str, content: bytes, most: int) -> tuple[int, tuple[int, ...], bool, np.dtype]:
    """Size of the header, shape, order and type of an array; ValueError unless its numbers, and no more, are there.

    No axis is longer than `most`, the bytes of the whole file, which an array without any numbers could claim."""
    version = npy.read_magic(BytesIO(content[: npy.MAGIC_LEN]))
    if version not in _HEADERS:
        raise ValueError(f"{name}: got .npy format {version}, expected one of {list(_HEADERS)}")
    start = npy.MAGIC_LEN + _HEADERS[version][0]
    end = start + int.from_bytes(content[npy.MAGIC_LEN : start], "little")
    shape, fortran, dtype = _parsed(version, content[npy.MAGIC_LEN : end])
    whole = not dtype.hasobject and end + math.prod(shape) * dtype.itemsize == len(content)
    if not whole or any(not 0 <= n <= most for n in shape) or (not dtype.itemsize and math.prod(shape) > most):
        raise ValueError(f"{name}: got {len(content)} bytes for shape {shape} of {dtype}")
    return end, shape, fortran, dtype


@lru_cache(maxsize=1024)
def _parsed(version: tuple[int, int], header: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    return _HEADERS[version][1](BytesIO(header))


def _array(content: bytes, start: int, shape: tuple[int, ...], fortran: bool, dtype: np.dtype) -> np.ndarray:
    return np.ndarray(shape, dtype, content, start, order="F" if fortran else "C").copy("K")
