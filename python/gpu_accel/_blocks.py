"""Types whose elements come in blocks, as arrays of bytes."""
from . import _core

BLOCKS = {name: sizes for name, sizes in _core.block_sizes().items() if sizes[0] > 1}  # elements and bytes of a block


def block_of(op, w_dtype):
    """(elements, bytes) of a block of that type; DtypeError when there is none."""
    if w_dtype not in BLOCKS:
        raise _core.DtypeError(f"{op}: w_dtype is {w_dtype!r}; allowed are types of blocks: {', '.join(BLOCKS)}")
    return BLOCKS[w_dtype]
