"""What a C library consists of besides kernels and their memory: its interface in C, and files about it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynamics.simd.c_library.image import ALIGNMENT, Image

TYPES = {np.dtype(np.float64): "double", np.dtype(np.int64): "int64_t"}
"""Numbers that a C program may read and write."""


class Interface(NamedTuple):
    """What a C program sees.

    Parameters
    ----------
    name : of the library, which all of its names begin with
    entries : numbers of the calls that each entry makes, in their order
    arrays : by name
    constants : numbers by name
    """

    name: str
    entries: dict[str, list[int]]
    arrays: Mapping[str, np.ndarray]
    constants: Mapping[str, int] = {}

    @property
    def image(self) -> str:
        """Symbol of the stored bytes."""
        return f"{self.name}__image"

    @property
    def kernel(self) -> str:
        """What the symbols of kernels begin with."""
        return f"{self.name}__kernel_"


def _numbers(values: Sequence[int]) -> str:
    """A list of numbers in C, in lines; of none, a zero, as C has no empty arrays."""
    texts = [str(x) for x in values] or ["0"]
    return ",\n    ".join(", ".join(texts[i : i + 16]) for i in range(0, len(texts), 16))


def header(interface: Interface, about: str) -> str:
    """The header."""
    name, upper = interface.name, interface.name.upper()
    constants, functions = [], []
    for array, x in interface.arrays.items():
        sizes = [f"{upper}_{array}_DIM{i} = {n}" for i, n in enumerate(x.shape)]
        constants.append("    " + ", ".join([f"{upper}_{array}_SIZE = {x.size}", *sizes]))
        functions.append(f"{upper}_API {TYPES[x.dtype]} *{name}_{array}({name}_t *self);")
    entries = [f"{upper}_API int {name}_{entry}({name}_t *self);" for entry in interface.entries]
    text = f"""
/* {name}: {about}

   One object holds all memory of the computation and what is in it.  Objects share nothing that is written to:
   each may be used by one thread at a time, and several by several threads.  Nothing is allocated but by
   {name}_create. */
#ifndef {upper}_LIBRARY_H
#define {upper}_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define {upper}_API __attribute__((visibility("default")))
#else
#define {upper}_API
#endif

#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {name} {name}_t;

/* Bytes of an object. */
{upper}_API size_t {name}_size(void);

/* A new object in its first state, NULL if there is no memory. */
{upper}_API {name}_t *{name}_create(void);

/* An object in its first state in {name}_size() bytes at an address that is a multiple of 64, else NULL.  It cannot be
   copied to another address, and need not be freed. */
{upper}_API {name}_t *{name}_init(void *memory);

/* Free what {name}_create returned. */
{upper}_API void {name}_free({name}_t *self);

/* Computations, which read and write the arrays below.  They return 0, and 1 if a function could not go on. */
{chr(10).join(entries)}
"""
    if interface.constants:
        named = [f"    {upper}_{constant.upper()} = {number}" for constant, number in interface.constants.items()]
        text += f"""
enum {{
{f",{chr(10)}".join(named)}
}};
"""
    if constants:
        text += f"""
/* Numbers of arrays, and of each of their dimensions, the last of which is that of neighbours in memory. */
enum {{
{f",{chr(10)}".join(constants)}
}};

/* Arrays, to be read and written between computations. */
{chr(10).join(functions)}
"""
    return f"""{text.lstrip()}
#ifdef __cplusplus
}}
#endif

#endif
"""


def source(interface: Interface, image: Image, kernels: Sequence[str]) -> str:
    """The functions of the header."""
    name = interface.name
    text = f"""
#include "{name}.h"

#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

typedef int32_t kernel(int64_t *block);

extern HIDDEN const unsigned char {interface.image}[];
{"".join(f"extern HIDDEN kernel {symbol};{chr(10)}" for symbol in kernels)}
static const size_t size = {image.size}, stored = {len(image.stored)};

static kernel *const kernels[] = {{
    {f",{chr(10)}    ".join(kernels)}
}};

/* Words of an object that are addresses in it. */
static const uint32_t pointers[] = {{
    {_numbers(image.pointers)}
}};

/* First words of blocks, which are addresses of kernels. */
static const uint32_t blocks[] = {{
    {_numbers(image.blocks)}
}};

size_t {name}_size(void) {{
    return size;
}}

{name}_t *{name}_init(void *memory) {{
    if (memory == NULL || (uintptr_t)memory % 64 != 0)
        return NULL;
    memcpy(memory, {interface.image}, stored);
    memset((char *)memory + stored, 0, size - stored);
    int64_t *words = memory;
    for (size_t i = 0; i < {len(image.pointers)}; i++)
        words[pointers[i]] += (int64_t)(intptr_t)memory;
    for (size_t i = 0; i < {len(image.blocks)}; i++)
        words[blocks[i]] = (int64_t)(intptr_t)kernels[words[blocks[i]]];
    return memory;
}}

{name}_t *{name}_create(void) {{
    return {name}_init(aligned_alloc(64, size));
}}

void {name}_free({name}_t *self) {{
    free(self);
}}

/* Call the kernel of each block with its words; -2 is how numba says that None was returned. */
static int run({name}_t *self, const uint32_t *first, size_t count) {{
    for (size_t i = 0; i < count; i++) {{
        int64_t *block = (int64_t *)(void *)self + first[i];
        int32_t status = ((kernel *)(intptr_t)block[0])(block);
        if (status != 0 && status != -2)
            return 1;
    }}
    return 0;
}}
"""
    for entry, calls in interface.entries.items():
        text += f"""
int {name}_{entry}({name}_t *self) {{
    static const uint32_t first[] = {{{_numbers([image.blocks[i] for i in calls])}}};
    return run(self, first, {len(calls)});
}}
"""
    for array, x in interface.arrays.items():
        text += f"""
{TYPES[x.dtype]} *{name}_{array}({name}_t *self) {{
    return ({TYPES[x.dtype]} *)(void *)((char *)self + {image.places[array]});
}}
"""
    return text.lstrip()


def constant(symbol: str, file: str) -> str:
    """The bytes of a file under a symbol, in the language of assemblers."""
    return f"""
    .section .rodata, "a", %progbits
    .balign {ALIGNMENT}
    .globl {symbol}
    .hidden {symbol}
    .type {symbol}, %object
{symbol}:
    .incbin "{file}"
    .size {symbol}, . - {symbol}
    .section .note.GNU-stack, "", %progbits
"""


def cmake(name: str) -> str:
    """For `find_package`: the targets NAME::shared and NAME::static."""
    return f"""
# find_package({name} REQUIRED PATHS where/this/folder/is), then
# target_link_libraries(program PRIVATE {name}::shared) or {name}::static
foreach(kind IN ITEMS shared static)
    if(NOT TARGET {name}::${{kind}})
        string(TOUPPER ${{kind}} upper)
        add_library({name}::${{kind}} ${{upper}} IMPORTED)
        set_target_properties({name}::${{kind}} PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
    endif()
endforeach()
set_target_properties({name}::shared PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.so" IMPORTED_SONAME lib{name}.so)
set_target_properties({name}::static PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.a" INTERFACE_LINK_LIBRARIES m)
""".lstrip()


def readme(interface: Interface, sizes: Mapping[str, int], about: str) -> str:
    """What is in the folder, and how to use it."""
    name = interface.name
    rows = [f"| {file} | {number / 1024:.0f} kB |" for file, number in sizes.items()]
    arrays = [
        f"| `{array}` | {TYPES[x.dtype]} | {' x '.join(map(str, x.shape))} |" for array, x in interface.arrays.items()
    ]
    calls = "\n".join(f"    {name}_{entry}(self);" for entry in interface.entries)
    return f"""# {name}

{about}

```c
#include "{name}.h"

int main(void) {{
    {name}_t *self = {name}_create();
{calls}
    {name}_free(self);
}}
```

    cc program.c -I. -L. -l{name} -Wl,-rpath,'$ORIGIN'      the shared library
    cc program.c -I. lib{name}.a -lm                      the static one

or, in CMake, `find_package({name} REQUIRED PATHS this/folder)` and
`target_link_libraries(program PRIVATE {name}::static)`.

| part | size |
|---|---|
{chr(10).join(rows)}

| array | numbers | dimensions |
|---|---|---|
{chr(10).join(arrays)}

Arrays begin with the numbers that they held when this was written.  The library calls the C library alone, in it
functions of memory and of mathematics: it contains nothing of Python, numba or LLVM.
"""


# ------------------------------------------------------------------------------------------------ examples
CONTROL_LOOP = """\
/* ABOUT

       cc control_loop.c -I. libNAME.a -lm -o control_loop && ./control_loop 1000 */
#define _POSIX_C_SOURCE 200112L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "NAME.h"

OWN
/* Of a robot's drivers, too. */
static void write_control(const double *u) {
    (void)u;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **words) {
    long cycles = count > 1 ? atol(words[1]) : 1000;
    double x[NX], u[NU], longest = 0.0;
    NAME_t *self = NAME_create();
    if (self == NULL || start(self))
        return 1;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long cycle = 0; cycle < cycles; cycle++) {
        read_state(self, x);
        double begin = seconds();
        if (update(self, cycle, x, u))
            return 2;
        double took = seconds() - begin;
        longest = took > longest ? took : longest;
        write_control(u);
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    printf("%ld cycles, the longest update %.3g ms", cycles, 1e3 * longest);
    report(self);
    NAME_free(self);
    return 0;
}
"""
"""A loop at 1 kHz with the functions of a hardware interface as in ros2_control: read, update, write.  ABOUT is what it
does, OWN are the functions start, read_state, update and report, and the numbers NX and NU of states and controls."""


def add_files(folder: Path, name: str, files: Mapping[str, str], words: Mapping[str, str]) -> None:
    """Write files beside a library of this name, and behind its README what this has to say: texts in which NAME and
    UPPER stand for the name, also in capitals, and other whole words for others."""
    replaced = {**words, "NAME": name, "UPPER": name.upper()}
    pattern = re.compile("|".join(["NAME", "UPPER", *[rf"\b{word}\b" for word in words]]))
    for file, text in files.items():
        path = folder / file
        before = path.read_text(encoding="utf-8") if file == "README.md" else ""
        path.write_text(before + pattern.sub(lambda found: replaced[found[0]], text), encoding="utf-8")
