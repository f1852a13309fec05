"""Small dense matrices for kernels that run one knot at a time, with SIMD registers along the rows.

A `Matrix` names row-major float64 numbers in memory by address and row length.  Rows are read and written LANES numbers
at a time.  The last vector of a row stops where the row ends: entries beyond read as zero and are never touched, so
that unpadded arrays need no copies.  `update_tile` is the one building block of matrix products.

A matrix does not keep its array alive; the caller of the kernel must.
"""

from typing import NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dynamics.simd.compilation import helper
from dynamics.simd.span import data_pointer
from dynamics.simd.vector import LANES, VEC

_DOUBLE, _I32, _I64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_VECTOR, _INTEGERS, _MASK = (ir.VectorType(t, LANES) for t in (_DOUBLE, _I64, ir.IntType(1)))


class Matrix(NamedTuple):
    """Row-major float64 matrix: address of the first entry, and the stride from one row to the next."""

    address: int
    stride: int


class Term(NamedTuple):
    """The product left' right, of shape (columns of left, columns of right), over the first `depth` rows of both."""

    left: Matrix
    right: Matrix
    depth: int


# ------------------------------------------------------------------------------------------------ LLVM pieces
def _pointer(builder, matrix, i, j, kind):
    index = builder.add(builder.mul(i, builder.extract_value(matrix, 1)), j)
    base = builder.inttoptr(builder.extract_value(matrix, 0), _DOUBLE.as_pointer())
    return builder.bitcast(builder.gep(base, [index]), kind.as_pointer())


def _broadcast(builder, x):
    """Vector with all lanes equal to x."""
    undefined = ir.Constant(ir.VectorType(x.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, x, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))


def _first_lanes(builder, count):
    """Mask of the first `count` lanes; count may be negative or exceed LANES."""
    return builder.icmp_signed("<", ir.Constant(_INTEGERS, list(range(LANES))), _broadcast(builder, count))


def _masked_load(builder, pointer, mask):
    kind = ir.FunctionType(_VECTOR, [pointer.type, _I32, _MASK, _VECTOR])
    f = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.v{LANES}f64.p0")
    return builder.call(f, [pointer, ir.Constant(_I32, 8), mask, ir.Constant(_VECTOR, [0.0] * LANES)])


def _masked_store(builder, pointer, mask, x):
    kind = ir.FunctionType(ir.VoidType(), [_VECTOR, pointer.type, _I32, _MASK])
    f = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.store.v{LANES}f64.p0")
    builder.call(f, [x, pointer, ir.Constant(_I32, 8), mask])


# ------------------------------------------------------------------------------------------------ entries and rows
@intrinsic
def matrix(typing, array, offset, stride):
    """The matrix that starts at number `offset` of a C-contiguous float64 array, with rows of `stride` numbers."""
    if array.dtype != types.float64:
        return None

    def generate(context, builder, sig, args):
        data = data_pointer(context, builder, array, args[0])
        address = builder.ptrtoint(builder.gep(data, [args[1]]), _I64)
        return context.make_tuple(builder, sig.return_type, [address, args[2]])

    return types.NamedUniTuple(types.int64, 2, Matrix)(array, types.int64, types.int64), generate


@helper
def submatrix(m, i, j):
    """m[i:, j:] with the row length of m, so that rows end j numbers later: the caller limits the width."""
    return Matrix(m.address + 8 * (i * m.stride + j), m.stride)


@intrinsic
def entry(typing, m, i, j):
    """m[i, j]."""

    def generate(context, builder, sig, args):
        return builder.load(_pointer(builder, *args, _DOUBLE), align=8)

    return types.float64(m, types.int64, types.int64), generate


@intrinsic
def set_entry(typing, m, i, j, x):
    """m[i, j] = x."""

    def generate(context, builder, sig, args):
        builder.store(args[3], _pointer(builder, *args[:3], _DOUBLE), align=8)
        return context.get_dummy_value()

    return types.void(m, types.int64, types.int64, types.float64), generate


@intrinsic
def load_part(typing, m, i, j, count):
    """m[i, j : j + LANES], only the first `count` numbers read and the others zero."""

    def generate(context, builder, sig, args):
        return _masked_load(builder, _pointer(builder, *args[:3], _VECTOR), _first_lanes(builder, args[3]))

    return VEC(m, types.int64, types.int64, types.int64), generate


@intrinsic
def store_part(typing, m, i, j, count, x):
    """m[i, j : j + LANES] = x, only the first `count` numbers written."""

    def generate(context, builder, sig, args):
        _masked_store(builder, _pointer(builder, *args[:3], _VECTOR), _first_lanes(builder, args[3]), args[4])
        return context.get_dummy_value()

    return types.void(m, types.int64, types.int64, types.int64, VEC), generate


# ------------------------------------------------------------------------------------------------ products
def _add_term(builder, term, sums, rows, columns, masks):
    """sums[r][v] += sum_k left[k, rows[r]] right[k, columns[v] :]."""
    fma = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    fma = cgutils.get_or_insert_function(builder.module, fma, f"llvm.fma.v{LANES}f64")
    left, right = builder.extract_value(term, 0), builder.extract_value(term, 1)
    with cgutils.for_range(builder, builder.extract_value(term, 2)) as loop:
        k = loop.index
        pointers = [_pointer(builder, right, k, j, _VECTOR) for j in columns]
        ys = [_masked_load(builder, p, mask) for p, mask in zip(pointers, masks(right), strict=True)]
        for row, i in zip(sums, rows, strict=True):
            x = _broadcast(builder, builder.load(_pointer(builder, left, k, i, _DOUBLE), align=8))
            for total, y in zip(row, ys, strict=True):
                builder.store(builder.call(fma, [x, y, builder.load(total)]), total)


@intrinsic(prefer_literal=True)
def update_tile(typing, rows, vectors, i, j, target, source, terms):
    """Compute a block of target = source + sum of the terms (a tuple of `Term`), summed in registers.

    The block has `rows` rows from row i on and `vectors` vectors from column j on (both literal integers).  Target may
    be the source.  The loop over k is the only one that is not unrolled.
    """
    if not (isinstance(rows, types.IntegerLiteral) and isinstance(vectors, types.IntegerLiteral)):
        return None
    row_count, vector_count, term_count = rows.literal_value, vectors.literal_value, len(terms)

    def generate(context, builder, sig, args):
        i, j, target, source, terms = args[2:]
        block_rows = [builder.add(i, ir.Constant(_I64, r)) for r in range(row_count)]
        columns = [builder.add(j, ir.Constant(_I64, v * LANES)) for v in range(vector_count)]

        def masks(matrix):
            stride = builder.extract_value(matrix, 1)
            return [_first_lanes(builder, builder.sub(stride, column)) for column in columns]

        def places(matrix, row):
            pointers = [_pointer(builder, matrix, row, column, _VECTOR) for column in columns]
            return list(zip(pointers, masks(matrix), strict=True))

        sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in columns] for _ in block_rows]
        for row, totals in zip(block_rows, sums, strict=True):
            for (pointer, mask), total in zip(places(source, row), totals, strict=True):
                builder.store(_masked_load(builder, pointer, mask), total)
        for number in range(term_count):
            _add_term(builder, builder.extract_value(terms, number), sums, block_rows, columns, masks)
        for row, totals in zip(block_rows, sums, strict=True):
            for (pointer, mask), total in zip(places(target, row), totals, strict=True):
                _masked_store(builder, pointer, mask, builder.load(total))
        return context.get_dummy_value()

    i64 = types.int64
    return types.void(rows, vectors, i64, i64, target, source, terms), generate
