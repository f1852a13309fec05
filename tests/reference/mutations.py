"""Seeded mutations of files: bytes, members and headers of .npz archives, nodes of JSON, elements of XML.

Each function yields descriptions and the mutated contents, of which a reader may take some for whole: what it refuses
must be refused by the errors that it documents.
"""

from __future__ import annotations

import copy
import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

DESCRIPTIONS = (
    "'<f8'",
    "'<f4'",
    "'>f8'",
    "'<i8'",
    "'<c16'",
    "'|b1'",
    "'|O'",
    "'<U0'",
    "'<U7'",
    "'|S0'",
    "'|S5'",
    "'|V0'",
    "'|V8'",
    "'<M8[ns]'",
    "'<m8[s]'",
    "[('a', '<f8')]",
    "[]",
    "'<f2'",
    "'<f16'",
    "'x'",
    "None",
    "('<f8', (0,))",
    "('<f8', (2,))",
)
"""Types in headers of arrays: all kinds, of no bytes, of records, of none."""
SHAPES = (
    "()",
    "(0,)",
    "(1,)",
    "(True,)",
    "(-1,)",
    "(1099511627776,)",
    "(0, 1099511627776)",
    "(2, 3)",
    "(1.0,)",
    "None",
    "(" + "1," * 40 + ")",
    "(" + "0," * 65 + ")",
    "(9223372036854775807, 2)",
    "(18446744073709551616, 0)",
    "('a',)",
)
NODES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    3,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    10**30,
    "",
    "array",
    "scalar",
    "x" * 50,
    "\x1b[31m",
    "..",
    "/etc/passwd",
    [],
    {},
    [[]],
    [1, 2],
    {"a": "array"},
    ["array"],
    {"": None},
)
"""Values that take the place of others in JSON."""
WORDS = (
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-1",
    "0",
    "1e-320",
    "1e308",
    "0x10",
    "1_0",
    "true",
    "1 2",
    "1 2 3",
    "1 2 3 4",
    "x",
    "\x85",
    "é",
    "9" * 400,
    "${1/0}",
    "../..",
    "package://a/b",
    "fixed",
    "floating",
    "planar",
    "ball",
    "arm",
    "j0",
    "world",
)
"""Values that take the place of attributes in XML."""


def bytes_changed(content: bytes, rng: np.random.Generator, count: int) -> Iterator[tuple[str, bytes]]:
    """Bits and bytes replaced, parts cut out, doubled, zeroed and moved, the file cut short."""
    size = len(content)
    for _ in range(count):
        how, i, n = rng.integers(7), int(rng.integers(size)), int(rng.integers(1, 40))
        raw = bytearray(content)
        if how == 0:
            raw[i] ^= 1 << int(rng.integers(8))
        elif how == 1:
            raw[i] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))
        elif how == 2:
            del raw[i : i + n]
        elif how == 3:
            raw[i:i] = raw[i : i + n]
        elif how == 4:
            raw[i : i + n] = bytes(len(raw[i : i + n]))
        elif how == 5:
            raw = raw[:i]
        else:
            raw[i:i] = rng.bytes(n)
        yield f"bytes {how} at {i}, {n}", bytes(raw)


def members_of(content: bytes) -> dict[str, bytes]:
    """The members of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as new, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a name twice
        for name, content in members:
            new.writestr(zipfile.ZipInfo(name), content, compression)
    return out.getvalue()


def array_file(description: str, shape: str, numbers: bytes = b"", order: str = "False") -> bytes:
    """The content of an .npy file with any header."""
    head = f"{{'descr': {description}, 'fortran_order': {order}, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + numbers


def npy(array: Any) -> bytes:
    """The content of the .npy file of an array."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), allow_pickle=True)
    return out.getvalue()


def others_of(array: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Whole arrays of other types, shapes and values."""
    found: list[Any] = [
        np.array("x"),
        np.array("\x1b[31mred"),
        np.array(3),
        np.array(-1),
        np.array(2.5),
        np.array(np.nan),
        np.array([True]),
        np.zeros((0,)),
        np.zeros((0, 0)),
        np.zeros((2, 0, 3)),
        np.array(1j),
        np.array([], dtype="U1"),
        np.array(b"x"),
        np.array(10**18),
        np.array("2026-01-01", dtype="M8[s]"),
        array[None],
        array.astype("U9") if array.size < 50 else array.T,
        array.reshape(-1)[:-1],
        array.reshape(-1)[::-1],
        np.asarray(array.astype("O").tolist() and array).astype("V"),
    ]
    if array.dtype.kind == "f":
        some = array.copy()
        if some.size:
            some.reshape(-1)[rng.integers(some.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e308])
        found += [array.astype(np.float32), array.astype(complex), some, np.zeros_like(array), array.astype(">f8")]
    if array.dtype.kind in "iub":
        found += [
            array.astype(float),
            array.astype(np.uint8),
            array - 1 if array.dtype.kind != "b" else array[..., None],
        ]
    return found


def archives_changed(content: bytes, rng: np.random.Generator, count: int) -> Iterator[tuple[str, bytes]]:
    """Archives of one member with another header, numbers or name; encrypted, compressed, doubled, absent."""
    members = members_of(content)
    names = list(members)
    for _ in range(count):
        how, name = rng.integers(9), str(rng.choice(names))
        what, changed = name, dict(members)
        if how == 0:
            raw = bytearray(content)
            places = [m.start() for m in re.finditer(b"PK\1\2", content)] or [0]
            at, bit = (
                int(rng.choice(places)) + int(rng.choice([6, 8, 9, 10, 20, 24, 28, 30, 32, 42])),
                int(rng.integers(8)),
            )
            raw[min(at, len(raw) - 1)] ^= 1 << bit
            yield f"directory at {at}, bit {bit}", bytes(raw)
            continue
        if how == 1:
            about = (
                str(rng.choice(DESCRIPTIONS)),
                str(rng.choice(SHAPES)),
                str(rng.choice(["False", "True", "0", "None"])),
            )
            numbers = members[name][128:] if rng.integers(2) else b""
            changed[name], what = array_file(about[0], about[1], numbers, about[2]), f"{name} {about}"
        elif how in (2, 3, 4):
            with np.load(io.BytesIO(content)) as data:
                others = others_of(data[name.removesuffix(".npy")], rng)
            k = int(rng.integers(len(others)))
            changed[name], what = npy(others[k]), f"{name} as other {k}"
        elif how == 5:
            del changed[name]
            what = f"without {name}"
        elif how == 6:
            new = str(
                rng.choice(
                    ["x.npy", "../x.npy", "x", "/x.npy", "\x1b[31m.npy", "lower.npy", "hold_x.npy", "K.npy", ".npy"]
                )
            )
            changed = {new if each == name else each: value for each, value in members.items()}
            what = f"{name} called {new!r}"
        elif how == 7:
            yield f"{name} twice", archive([*members.items(), (name, members[name])])
            continue
        else:
            method = int(rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
            yield f"compressed, {method}", archive(list(members.items()), method)
            continue
        texts = [each for each in ("layout.npy", "space.npy") if each in members]
        if texts and how == 3:  # the text that describes the rest
            text = str(np.load(io.BytesIO(members[texts[0]])))
            node = next(iter(json_changed(text.encode(), rng, 1)))
            changed, what = {**members, texts[0]: npy(node[1].decode(errors="replace"))}, f"{texts[0]}: {node[0]}"
        yield what, archive(list(changed.items()))


def json_changed(content: bytes, rng: np.random.Generator, count: int) -> Iterator[tuple[str, bytes]]:
    """JSON with one value or key replaced, left out or nested deeply."""
    whole = json.loads(content)
    paths = list(_paths(whole))
    for _ in range(count):
        new, path = copy.deepcopy(whole), paths[rng.integers(len(paths))]
        value = NODES[rng.integers(len(NODES))]
        how = rng.integers(4)
        if not path or how == 3:
            text = json.dumps(value) if rng.integers(2) else "[" * 5000 + "]" * 5000
            yield (
                f"{text[:40]} in place of {path}",
                (text if not path else json.dumps(whole).replace("null", text)).encode(),
            )
            continue
        inside = new
        for key in path[:-1]:
            inside = inside[key]
        if how == 0 and isinstance(inside, dict):
            del inside[path[-1]]
        elif how == 1 and isinstance(inside, dict):
            inside[str(value)] = inside.pop(path[-1])
        else:
            inside[path[-1]] = value
        yield f"{path} to {value!r}, {how}", json.dumps(new).encode()


def _paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from _paths(value, (*path, key))


_TAG, _ATTRIBUTE = re.compile(r"<(/?)([\w:]+)"), re.compile(r'([\w:]+)="([^"]*)"')


def xml_changed(content: bytes, rng: np.random.Generator, count: int) -> Iterator[tuple[str, bytes]]:
    """XML whose attributes, names of elements and lines are replaced, left out or doubled."""
    text = content.decode()
    attributes, tags = list(_ATTRIBUTE.finditer(text)), list(_TAG.finditer(text))
    lines = text.splitlines(keepends=True)
    for _ in range(count):
        how = rng.integers(8)
        if how <= 3:
            found, word = attributes[rng.integers(len(attributes))], WORDS[rng.integers(len(WORDS))]
            values = found[2].split()
            if how == 3 and values:
                values[rng.integers(len(values))] = word
                word = " ".join(values)
            new = f'{found[1]}="{word}"' if how else ""
            yield (
                f"{found[0]} to {new} at {found.start()}",
                (text[: found.start()] + new + text[found.end() :]).encode(),
            )
        elif how == 4:
            found, other = tags[rng.integers(len(tags))], tags[rng.integers(len(tags))][2]
            new = re.sub(rf"<(/?){found[2]}\b", rf"<\1{other}", text)
            yield f"<{found[2]}> to <{other}>", new.encode()
        else:
            i, k = int(rng.integers(len(lines))), int(rng.integers(len(lines)))
            new = [*lines]
            if how == 5:
                del new[i]
            elif how == 6:
                new.insert(k, lines[i])
            else:
                new[i], new[k] = new[k], new[i]
            yield f"line {i}, {k}, {how}", "".join(new).encode()
