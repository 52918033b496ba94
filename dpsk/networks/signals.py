"""Fixed public grids on which the sums of a network are exact.

Signals (inputs of layers) and slopes (derivatives by the values before an activation) are kept as integers in float64
arrays: multiples of a fixed step, clipped to a fixed reach. Weights are public, and lie on a grid relative to their own
size. So every partial sum of a product is an integer below 2^53 (docs/guarantees.md, 3.8), and what a row adds is the
same in every batch, order, storage and number of threads.
"""

import math

import numpy as np
import scipy.sparse as sp

from ..data.grid import WEIGHT_BITS, power_of_two_above
from ..data.rows import Matrix
from ..mechanisms.samplers import Floats

SIGNAL_BITS = 22
SIGNAL_STEP = 2.0**-16
ONE = 2.0**16
"""The constant 1 in steps of signals: the input of biases."""

REACH = 2.0**SIGNAL_BITS
"""The largest signal in steps: 64."""

SLOPE_BITS = 22
SLOPE_STEP = 2.0**-18
SLOPE_REACH = 2.0**SLOPE_BITS
"""The largest slope in steps: 16."""

MOST_BLOCK_ROWS: int = 2 ** (53 - SIGNAL_BITS - SLOPE_BITS)
"""How many rows a layer may add up at a time: products of a signal and a slope take 44 bits."""

LARGEST_SCORE = 2.0**100
"""Beyond, clipped: products and squares of scores are finite."""

_EXACT = 2.0**53


def signals_of(values: Floats, scale: Floats, out: Floats | None = None) -> Floats:
    """Return finite values times the scales of their rows as signals, in an array that lies row by row."""
    rows = np.multiply(values, (scale * ONE)[:, None], out=np.empty(values.shape) if out is None else out)
    return round_signals(rows)


def sparse_signals_of(values: Matrix, scale: Floats) -> Matrix:
    """Return the rows of a CSR matrix, with one entry in each place, times their scales as signals."""
    steps = np.repeat(scale * ONE, np.diff(values.indptr))
    steps *= values.data
    return sp.csr_matrix((round_signals(steps), values.indices, values.indptr), values.shape)


def round_signals(steps: Floats) -> Floats:
    """Round finite numbers of steps to signals, in place."""
    np.clip(steps, -REACH, REACH, out=steps)
    return np.rint(steps, out=steps)


def round_slopes(steps: Floats) -> Floats:
    """Round finite numbers of steps to slopes, in place."""
    np.clip(steps, -SLOPE_REACH, SLOPE_REACH, out=steps)
    return np.rint(steps, out=steps)


def slopes_of(derivatives: Floats) -> Floats:
    """Return derivatives of a loss as slopes, in an array of their own, row by row: NaN counts as 0."""
    steps = np.array(derivatives, dtype=np.float64, order="C")
    steps[np.isnan(steps)] = 0
    steps *= 1 / SLOPE_STEP
    return round_slopes(steps)


def on_weight_grid(W: Floats, size: float) -> Floats:
    """Return weights rounded to a grid of 2^-WEIGHT_BITS relative to ``size``, their largest l1 norm in a product.

    Weights that lie on a grid twice as fine are returned as they are: rounded weights can be a bit larger than before,
    and rounding them again must change nothing.
    """
    if not size < 2.0**400:
        raise ValueError("weights of a network must stay finite and below 2**400: shorter steps (learning_rate) help")
    if size < 2.0**-400:
        return np.zeros_like(W)
    spacing = power_of_two_above(size) * 2.0**-WEIGHT_BITS
    if _lie_on(spacing / 2, W.ravel()[:8]) and _lie_on(spacing / 2, W):  # the first few mostly tell that they do not
        return W
    return _rounded(spacing, W)


def _lie_on(spacing: float, W: Floats) -> bool:
    return np.array_equal(_rounded(spacing, W), W)


def _rounded(spacing: float, W: Floats) -> Floats:
    steps = W * (1 / spacing)
    np.rint(steps, out=steps)
    steps *= spacing
    return steps


def squared_norms(x: Matrix) -> Floats:
    """Return the squared l2 norm of each row of integers, the same bits in any company, in an array or in CSR.

    Sums below 2^53 are exact in any order. The others are added in one order: halves onto halves.
    """
    if sp.issparse(x):
        return _sparse_squared_norms(x)
    x = x.reshape(len(x), math.prod(x.shape[1:]))
    sums: Floats = np.einsum("ij,ij->i", x, x)
    large = np.flatnonzero(~(sums < _EXACT))  # a sum in another order lies on the same side of 2^53
    if large.size:
        sums[large] = _in_one_order(np.square(x[large]))
    return sums


def _sparse_squared_norms(x: Matrix) -> Floats:
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    sums = np.asarray(np.bincount(rows, np.square(x.data), minlength=x.shape[0]), dtype=np.float64)
    for i in np.flatnonzero(~(sums < _EXACT)):  # few, if any; with their zeros they are long
        sums[i] = squared_norms(x[i].toarray())[0]
    return sums


def _in_one_order(terms: Floats) -> Floats:
    """Return the sum of each row, by elementwise additions whose order follows from the number of columns alone."""
    width = terms.shape[1]
    while width > 1:
        half = width // 2
        terms[:, :half] += terms[:, width - half : width]
        width -= half
    return terms[:, 0]


def largest_sums(W: Floats) -> float:
    """Return the larger of the largest l1 norms of a column and of a row of weights."""
    size = np.abs(W)
    return max(float(size.sum(axis=0).max(initial=0.0)), float(size.sum(axis=1).max(initial=0.0)))


def glorot(fan_in: int, fan_out: int) -> float:
    """Return the standard deviation of initial weights that keeps signals and slopes about as large as they are."""
    return math.sqrt(2 / (fan_in + fan_out))


def he(fan_in: int) -> float:
    """Return the standard deviation of initial weights in front of ramps, half of whose signals are 0."""
    return math.sqrt(2 / fan_in)
