"""Products of small dense matrices in SIMD registers along rows, for compiled kernels (see `dynamics.simd.rows`)."""

from dynamics.simd import LANES, helper, shared_kernel
from dynamics.simd.rows import load_part, store_part, update_tile


@helper
def padded(width):
    """The width rounded up to whole vectors."""
    return (width + LANES - 1) // LANES * LANES


def _make_band(rows):
    @helper
    def band(i, j, width, target, source, terms):
        while j + LANES < width:
            update_tile(rows, 2, i, j, target, source, terms)
            j += 2 * LANES
        if j < width:
            update_tile(rows, 1, i, j, target, source, terms)

    return band


_band6, _band2, row_product = _make_band(6), _make_band(2), _make_band(1)


@shared_kernel
def _shared_band6(i, j, width, target, source, terms):
    """Kernel for blocks of six rows, most of a product's code, where sizes are not known at compile time."""
    _band6(i, j, width, target, source, terms)


@helper
def product(shared, upper, start, stop, width, target, source, terms):
    """Compute rows start to stop of target = source + sum of the terms, `width` columns; with `upper`, vectors left of
    the diagonal are left out.  The target may be the source.  shared: None compiles all code into the caller, () most
    of it once for all callers."""
    i = start
    while i + 6 <= stop:
        j = i // LANES * LANES if upper else 0
        if shared is None:
            _band6(i, j, width, target, source, terms)
        else:
            _shared_band6(i, j, width, target, source, terms)
        i += 6
    while i + 2 <= stop:
        _band2(i, i // LANES * LANES if upper else 0, width, target, source, terms)
        i += 2
    if i < stop:
        row_product(i, i // LANES * LANES if upper else 0, width, target, source, terms)


@helper
def add_product(upper, rows, width, target, term):
    """Add the product to `rows` rows of the target, `width` columns; `upper`: see `product`."""
    product((), upper, 0, rows, width, target, target, (term,))


@helper
def copy_rows(rows, width, target, source):
    """Copy target[:rows, :width] = source[:rows, :width]."""
    for i in range(rows):
        for j in range(0, width, LANES):
            store_part(target, i, j, width - j, load_part(source, i, j, width - j))
