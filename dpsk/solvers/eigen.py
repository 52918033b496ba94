"""The smallest eigenvalue of a public symmetric matrix, surely, and its eigenvector."""

import math

import numpy as np
from scipy.sparse.linalg import ArpackError, eigsh

from ..mechanisms.samplers import Floats

_DENSE = 300  # up to which size all eigenvalues are computed
_ACCURACY, _VECTORS, _RESTARTS = 1e-6, 60, 30


def smallest_eigenpair(blocks: Floats, shape: tuple[int, ...]) -> tuple[float, Floats]:
    """Return the smallest eigenvalue of a block-diagonal matrix, and its eigenvector as weights of ``shape``.

    Large blocks are left to Lanczos' method, which may miss the smallest eigenvalue: what it finds is checked by a
    Cholesky factorisation, and if it fails, or did not converge, all eigenvalues are computed. The value is never above
    the true one, and below it by a millionth of the largest entry times the root of the size at most.
    """
    pairs = [_of_block(block) for block in blocks]
    k = int(np.argmin([value for value, _ in pairs]))
    vector = np.zeros((shape[0], len(blocks)))
    vector[:, k] = pairs[k][1]
    return pairs[k][0], vector.reshape(shape)


def _of_block(block: Floats) -> tuple[float, Floats]:
    p = len(block)
    if p > _DENSE:
        slack = _ACCURACY * float(np.abs(block).max())
        start = np.cos(np.arange(p, dtype=np.float64))  # Lanczos' method would draw one at random
        try:
            values, vectors = eigsh(block, k=1, which="SA", v0=start, tol=1e-4, ncv=_VECTORS, maxiter=_RESTARTS)
            value = float(values[0]) - slack * math.sqrt(p)
            np.linalg.cholesky(block - value * np.eye(p))
            return value, vectors[:, 0]
        except (ArpackError, np.linalg.LinAlgError):
            pass
    values, vectors = np.linalg.eigh(block)
    return float(values[0]), vectors[:, 0]
