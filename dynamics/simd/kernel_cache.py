"""numba's disk cache in the folder that it is told.

Left to itself numba looks for a folder, and where the first cannot be used takes another, beside the sources, where
kernels survive edits of the files that they depend on.

Machine code with a wrong bit can end the process where LLVM reads it, which nothing in Python catches.  So every file
begins with the SHA-256 digest of the rest, and is neither unpickled nor linked unless that agrees.
"""

import hashlib
import inspect
import pickle
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

from dynamics.simd.cache_folder import make_folder
from dynamics.simd.caller import warn
from dynamics.simd.shipped import level


class _CacheFolder(_CacheLocator):
    """The folder of a function's files.  Its name has a hash of the sources, so files in it are never stale."""

    def __init__(self, function, folder: Path):
        self._py_file, self._folder = inspect.getfile(function), folder
        self._line = function.__code__.co_firstlineno

    def ensure_cache_path(self):
        make_folder(self._folder)

    def get_cache_path(self):
        return str(self._folder)

    def get_source_stamp(self):
        return ""

    def get_disambiguator(self):
        return str(self._line)


class KernelCacheImpl(CompileResultCacheImpl):
    """Saves and loads what numba compiled, in one folder."""

    def __init__(self, function, folder: Path):
        self._lineno = function.__code__.co_firstlineno
        self._locator = _CacheFolder(function, folder)
        name = f"{Path(inspect.getfile(function)).stem}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(name, sys.abiflags)


class DamagedFileError(ValueError):
    """The content of a file is not what was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: the content does not have the digest that was written with it")
        self.path = path


class VerifiedFiles(IndexDataCacheFile):
    """An index of signatures and a file of code for each, all verified as they are read."""

    def _write(self, path: str, content: bytes) -> None:
        with self._open_for_write(path) as stream:
            stream.write(hashlib.sha256(content).digest())
            stream.write(content)

    def _read(self, path: str) -> Any:
        """Raises DamagedFileError, or OSError if there is none."""
        stored = memoryview(Path(path).read_bytes())
        size = hashlib.sha256().digest_size
        if hashlib.sha256(stored[size:]).digest() != stored[:size]:
            raise DamagedFileError(Path(path))
        return pickle.loads(stored[size:])

    def _load_index(self):
        try:
            return self._read(self._index_path)
        except FileNotFoundError:  # nothing is kept yet
            return {}

    def _save_index(self, overloads):
        self._write(self._index_path, self._dump(overloads))

    def _load_data(self, name):
        return self._read(self._data_path(name))

    def _save_data(self, name, data):
        self._write(self._data_path(name), self._dump(data))


class KernelCache(FunctionCache):
    """The files of one function.  Damaged ones are removed; if none can be written the function is compiled again in
    each process, which one warning says."""

    _impl_class = KernelCacheImpl
    warned = False

    def __init__(self, function, folder: Path, shipped: Path | None = None):
        self._impl_class = partial(type(self)._impl_class, folder=folder)
        super().__init__(function)
        self._shipped = None if shipped is None else type(self)(function, shipped)
        self._level: str | None = None
        if self._shipped is not None:
            self._shipped._level = level()
        # numba numbers the files of a function's signatures.  Two processes that compile different ones at the same
        # time would give both one number, and load one in place of the other.
        base = self._impl.filename_base
        self._cache_file = VerifiedFiles(str(folder), base, self._impl.locator.get_source_stamp())
        self._cache_file._data_name = lambda number: f"{base}.{uuid4().hex}.nbc"

    def load_overload(self, sig, target_context):
        """Called by numba: the function for these types, or None."""
        if self._shipped is not None:
            found = self._shipped.load_overload(sig, target_context)
            if found is not None:
                return found
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # whatever damaged files and pickles raise
            if self._level is not None:  # not the user's to mend
                return None
            if isinstance(error, DamagedFileError):
                with suppress(OSError):
                    error.path.unlink()
            try:
                self.flush()
            except OSError:
                self._do_without(error)

    def _index_key(self, sig, codegen):
        """By types, processor and code; files for a level are found by any processor of that level."""
        key = super()._index_key(sig, codegen)
        return key if self._level is None else (sig, (codegen.magic_tuple()[0], self._level, ""), *key[2:])

    def save_overload(self, sig, data):
        """Called by numba with a new function."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            self._do_without(error)

    def _do_without(self, error):
        self.disable()
        if not KernelCache.warned:
            KernelCache.warned = True
            warn(
                f"compiled kernels cannot be kept in {self.cache_path} ({type(error).__name__}: {error}), so they will "
                "be compiled again; TRAJOPT_CACHE_DIR names another folder for them",
                RuntimeWarning,
            )
