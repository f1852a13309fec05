"""trajopt compile: all kernels, or those that some kinds of problems need, compiled by several processes at once."""

import sys
from collections.abc import Sequence
from time import perf_counter

from dynamics.compilation.ahead import Workers, missing, worker_count
from dynamics.compilation.manifest import Entry, manifest
from dynamics.progress import counted
from dynamics.simd.cache_folder import cache_root


def chosen(words: Sequence[str]) -> list[tuple[int, Entry]]:
    """Numbered entries of the manifest that problems and examples need that have one of the words, in singular or
    plural, in their name or in that of a class of their parts; all without words.

    Raises ValueError for a word that is in no name."""
    listed, found = manifest(), {}
    if not words:
        return list(enumerate(listed.entries))
    for word in words:
        part = word.lower().removesuffix("s")
        jobs = [job for job, has in listed.jobs.items() if any(part in name.lower() for name in (job, *has))]
        if not jobs:
            names = ", ".join(sorted(listed.jobs))
            raise ValueError(f"--for: got {word!r}, expected part of the name of a class, as Rod, or of one of {names}")
        for job in jobs:
            found.update(listed.numbered(listed.jobs[job]))
    return sorted(found.items())


def compile_kernels(words: Sequence[str]) -> list[str]:
    """Compile what is not on the disk yet; returns what could not be compiled, with the reason."""
    entries = chosen(words)
    wanted, start = missing(entries), perf_counter()
    failed: list[str] = []
    if wanted:
        with counted(True, len(wanted), "compiling") as count:
            workers = Workers([i for i, _ in wanted], max(worker_count(), 1), count)
            workers.wait()
        failed = workers.failed or [f"{entry.module}.{entry.name}" for _, entry in missing(wanted)]
    there = f"{len(entries) - len(failed)} functions in {cache_root()}"
    sys.stdout.write(f"{there}, {len(wanted) - len(failed)} of them compiled now in {perf_counter() - start:.0f} s\n")
    return failed
