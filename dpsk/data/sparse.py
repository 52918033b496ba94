"""Sparse matrices in one form, whatever form they came in."""

from typing import Any

import numpy as np


def one_per_place(X: Any) -> Any:
    """Return a sparse matrix as CSR with one entry in each place. Entries for the same place are added in their order.

    SciPy sorts all rows if one of them is not sorted, and then changes the order of entries for the same place. So one
    row could decide how the entries of another row are rounded.
    """
    X = X if X.format == "coo" else X.tocsr()
    if X.format == "csr" and X.has_canonical_format:
        return X
    X = X.tocoo()
    order = np.lexsort((X.col, X.row))  # stable
    return type(X)((X.data[order], (X.row[order], X.col[order])), shape=X.shape).tocsr()  # sorted: only adds
