"""Private standardisation: column ranges, then means and variances, from noisy counts and sums.

Everything returned is a function of releases. Each release is bought with a fixed part of the whole budget.
"""

from __future__ import annotations

import math

import numpy as np

from ..data import Columns, PrivateData
from ..mechanisms import Gaussian
from ..mechanisms.exact import Floats
from ..queries import Magnitudes, Moments, Positions, RowNorms

__all__ = ["find_ranges", "standardise", "typical_norm"]

NORM_SHARE = 0.01
RANGE_SHARE = 0.04  # twice: for magnitudes and for positions
MOMENT_SHARE = 0.1
SCALE_POWER = 0.85
_RARE = 0.002  # the part of all rows below which entries are left out of a range, however little noise there is
_SURE = 5.0  # standard deviations of noise above which a count is taken for real: one in 3 million


def _gaussian(data: PrivateData, share: float) -> Gaussian:
    return Gaussian.priced(data.portion(1 / share), data.currency)


def _noise(query: Magnitudes | Moments, mechanism: Gaussian, data: PrivateData) -> float:
    """Return the standard deviation of the noise that a release will have, in the units of its values."""
    return query.sensitivity(data.adjacency).l2 * query.unit / mechanism.mu


def typical_norm(data: PrivateData) -> float:
    """Return a norm near most rows' norms: the noisy mode of their distribution, an octave wide at half height."""
    counts = data.release(data.measure(RowNorms()), _gaussian(data, NORM_SHARE))
    tent = np.maximum(0, 1 - np.abs(np.arange(-8, 9)) / 8)
    near = np.convolve(counts, tent, mode="same")
    low, high = np.searchsorted(RowNorms.norms, data.norm_range)  # where noise is all there is, it stays plausible
    return float(RowNorms.norms[low : high + 1][np.argmax(near[low : high + 1])])


def find_ranges(raw: PrivateData, *, through_zero: bool) -> Columns:
    """Return bounds of the columns that hold most of their entries, found by two histograms per column.

    The first is of magnitudes (powers of two), the second of positions within the power of two found. A column of which
    nothing is seen above the noise gets [-1, 1]: rare entries, as those of a rare category, then count as signs.
    ``through_zero`` asks that every range contains 0.
    """
    d, n = raw.n_features, raw.n_rows
    entries = max(1.0, typical_norm(raw) ** 2)
    mechanism = _gaussian(raw, RANGE_SHARE)
    magnitudes = Magnitudes(d, entries)
    noise = _noise(magnitudes, mechanism, raw)  # the same for positions

    counts = raw.release(raw.measure(magnitudes), mechanism)
    top = Magnitudes.n_bins - 1 - _first_sure(counts[:, ::-1], noise, raw.n_rows)
    reach = np.where(top >= 0, 2.0 ** (np.maximum(top, 0) + Magnitudes.lowest), 1.0)

    counts = raw.release(raw.measure(Positions(d, entries, reach)), mechanism)
    bins = Positions.n_bins
    low = reach * (2 * _cut(counts, noise, n) / bins - 1)
    high = reach * (1 - 2 * _cut(counts[:, ::-1], noise, n) / bins)
    # 0 is left out only where hardly an entry can be 0: all rows that have it would be taken for the nearest bound
    zeros = n - counts.sum(axis=1) + 3 * noise * math.sqrt(bins)
    zero = through_zero | (zeros > 0.1 * n)
    return Columns.within(np.where(zero, np.minimum(low, 0), low), np.where(zero, np.maximum(high, 0), high), d)


def _first_sure(counts: Floats, noise: float, n: int) -> Floats:
    """Return per row the first bin that is not noise, or the fullest of the first run that is not; n_bins if none is.

    Runs of 1, 2, 4 and 8 bins are looked at, because entries may be spread thinly; each is compared with its own noise.
    """
    d, n_bins = counts.shape
    total = np.concatenate([np.zeros((d, 1)), np.cumsum(counts, axis=1)], axis=1)
    first = np.full(d, n_bins)
    for run in (1, 2, 4, 8):
        sure = total[:, run:] - total[:, :-run] > max(_SURE * noise * math.sqrt(run), _RARE * n, 1.5)
        start = sure.argmax(axis=1)
        fullest = start + np.argmax(counts[np.arange(d)[:, None], start[:, None] + np.arange(run)], axis=1)
        first = np.minimum(first, np.where(sure.any(axis=1), fullest, n_bins))
    return first


def _cut(counts: Floats, noise: float, n: int) -> Floats:
    """Return per row how many bins at the beginning may be cut off: empty ones, or few of the entries."""
    below = np.cumsum(counts, axis=1)
    most = below + 3 * noise * np.sqrt(np.arange(1, counts.shape[1] + 1))
    few = most < 0.05 * below[:, -1:]
    return np.minimum(_first_sure(counts, noise, n), np.where(few.all(axis=1), 0, few.argmin(axis=1)))


def standardise(data: PrivateData, columns: Columns, *, centred: bool) -> Columns:
    """Return the columns centred at their noisy means and divided by a power of their noisy standard deviations.

    ``data`` are rows placed by ``columns``, without an intercept. A variance is not believed below its own noise.
    """
    d, n = data.n_features, data.n_rows
    query = Moments(d, clip=math.sqrt(2) * typical_norm(data))
    mechanism = _gaussian(data, MOMENT_SHARE)
    moments = data.release(data.measure(query), mechanism) / n
    mean, square = np.clip(moments[:d], -1, 1), moments[d:]
    noise = _noise(query, mechanism, data) / n
    variance = np.clip(square - mean * mean, max(noise, 1e-6), 1.0)
    return columns.standardised(variance ** (-SCALE_POWER / 2), mean if centred else None)
