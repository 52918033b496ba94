"""Private standardisation: column ranges, then means and variances, from noisy counts and sums.

Everything returned is a function of releases. Each release is bought with a fixed part of the whole budget.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Columns, PrivateData
from ..mechanisms.samplers import Floats
from ..queries import Magnitudes, Moments, Positions
from ..solvers.precision import deviation, share_of_noise, typical_norm

RANGE_SHARE = 0.04  # for each count: one of magnitudes, one to three of positions
MOMENT_SHARE = 0.1
SCALE_POWER, WEIGHTED_POWER = 0.85, 0.65  # the second with class weights: benchmarks/results/rare_classes.md
NOISY = 0.1  # the noise in a mean from which on it does more harm than shortened rows
SHORTEST = 0.8  # of typical rows, what they are shortened to at most
SMALLEST_VARIANCE = 1e-6
SURE = 3.0  # deviations of its noise beyond which the mean of a column of mixed sign is believed
FARTHEST = 1.0  # deviations of its noise by which a mean is moved at most
_RARE = 0.002  # the part of all rows below which entries are left out of a range, however little noise there is
_HIDING = 0.02  # the noise of a count, as a part of all rows, from which on it hides more than rare entries
_SEEN, _FEW, _FEWEST, _MOST = 4.0, 0.1, 1.5, 2.5  # when entries of a sign are sure, and when few: see _signs
_LOOKS, _FEW_BINS = 3, 3  # how often positions are counted at most, and how few bins ask for a closer look


def find_ranges(raw: PrivateData, *, through_zero: bool) -> Columns:
    """Return bounds that hold most entries of each column, found by counting.

    The first count is of magnitudes (powers of two), the next of positions within the power of two found. Where a
    column turns out to sit within a few bins away from 0, as years and temperatures do, positions are counted again
    within these. A column of which nothing is seen above the noise gets [-1, 1]: rare entries, as those of a rare
    category, then count as signs. Where noise hides columns, only the signs of their entries are counted: all of them
    together may tell that these columns have one sign (see :func:`_signs`). Each then gets [0, 1], or [-1, 0].
    ``through_zero`` asks that every range contains 0.
    """
    d, n = raw.n_features, raw.n_units
    entries = max(1.0, 1.25 * typical_norm(raw) ** 2)  # rows with somewhat more entries than usual count fully too
    mechanism = share_of_noise(raw, RANGE_SHARE)
    magnitudes = Magnitudes(d, entries, norm=mechanism.norm)
    noise = deviation(mechanism, magnitudes.sensitivity(raw.adjacency)) * magnitudes.unit  # the same for positions

    counts = raw.release(raw.measure(magnitudes), mechanism)
    top = Magnitudes.n_bins - 1 - _first_sure(counts[:, ::-1], noise, n)
    reach = np.where(top >= 0, 2.0 ** (np.maximum(top, 0) + Magnitudes.lowest), 1.0)
    hidden = (top < 0) & (noise > _HIDING * n)
    reach[hidden] = 2.0**Magnitudes.lowest  # so small that entries lie in the bins at the ends

    low, high, coarse, bins = -reach, reach, np.ones(d, dtype=bool), Positions.n_bins
    for look in range(_LOOKS):
        counts = raw.release(raw.measure(Positions(d, entries, low, high, norm=mechanism.norm)), mechanism)
        width = (high - low) / bins
        start, end, found = _narrow_run(counts, noise, n)
        without_zero = (low > 0) | (high < 0)
        # 0 is left out only where hardly an entry can be 0: rows that have it would be taken for the nearest bound
        away = found & (without_zero | ((low + start * width > 0) | (low + end * width < 0)) & (not through_zero))
        lower = low + width * np.where(away, start, _cut(counts, noise, n))
        upper = high - width * np.where(away, bins - end, _cut(counts[:, ::-1], noise, n))
        zero = ~(away | without_zero)
        lower, upper = np.where(zero, np.minimum(lower, 0), lower), np.where(zero, np.maximum(upper, 0), upper)
        low, high = np.where(coarse, lower, low), np.where(coarse, upper, high)
        if look == 0:
            low[hidden], high[hidden] = _signs(counts[hidden], noise)
            coarse &= ~hidden
        coarse &= away & (end - start <= _FEW_BINS)
        if not coarse.any():
            break
    return Columns.within(low, high, d)


def _narrow_run(counts: Floats, noise: float, n: int) -> tuple[Any, Any, Any]:
    """Return per row where its narrowest run of bins with nearly all of n starts and ends, and whether there is one.

    The run surely holds half of n, and misses no more than a hundredth and what noise can hide.
    """
    d, bins = counts.shape
    start, end, found = np.zeros(d, dtype=int), np.full(d, bins), np.zeros(d, dtype=bool)
    total = np.concatenate([np.zeros((d, 1)), np.cumsum(counts, axis=1)], axis=1)
    for run in range(1, bins // 4 + 1):
        held, spread = total[:, run:] - total[:, :-run], noise * math.sqrt(run)
        enough = max(0.99 * n - 2 * spread, n / 2 + _sure(d * bins * bins) * spread)
        new = ~found & (held.max(axis=1) >= enough)
        start = np.where(new, held.argmax(axis=1), start)
        end = np.where(new, start + run, end)
        found |= new
    return start, end, found


def _signs(counts: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return ranges of columns whose first and last bins count negative and positive entries: [-1, 1], or half of it.

    The noise in the sums over k columns is only sqrt(k) times as large. A side is left out if the sum of the other is
    ``_SEEN`` deviations of the noise and its own is below ``_FEW`` of that. This limit is at least ``_FEWEST``
    deviations, which noise alone often reaches, and at most ``_MOST``. Columns of which the side is seen keep it.
    """
    sides = counts[:, [0, -1]]
    sums, spread = sides.sum(axis=0), noise * math.sqrt(max(1, len(counts)))
    few = np.clip(_FEW * sums[::-1], _FEWEST * spread, _MOST * spread)
    missing = (sums < few) & (sums[::-1] > _SEEN * spread)
    kept = ~missing | (sides > _sure(max(1, sides.size)) * noise)
    return np.where(kept[:, 0], -1.0, 0.0), np.where(kept[:, 1], 1.0, 0.0)


def _sure(tests: int) -> float:
    """Return how many standard deviations noise hardly ever reaches in any of so many tests."""
    return 1 + math.sqrt(2 * math.log(tests))


def _first_sure(counts: Floats, noise: float, n: int) -> Floats:
    """Return per row the first bin that is not noise, or the fullest of the first run that is not; n_bins if none is.

    Runs of 1, 2, 4 and 8 bins are looked at, because entries may be spread thinly; each is compared with its own noise.
    """
    d, n_bins = counts.shape
    sure = _sure(4 * d * n_bins)
    total = np.concatenate([np.zeros((d, 1)), np.cumsum(counts, axis=1)], axis=1)
    first = np.full(d, n_bins)
    for run in (1, 2, 4, 8):
        seen = total[:, run:] - total[:, :-run] > max(sure * noise * math.sqrt(run), _RARE * n, 1.5)
        start = seen.argmax(axis=1)
        fullest = start + np.argmax(counts[np.arange(d)[:, None], start[:, None] + np.arange(run)], axis=1)
        first = np.minimum(first, np.where(seen.any(axis=1), fullest, n_bins))
    return first


def _cut(counts: Floats, noise: float, n: int) -> Floats:
    """Return per row how many bins at the beginning may be cut off: empty ones, or few of the entries."""
    below = np.cumsum(counts, axis=1)
    most = below + 3 * noise * np.sqrt(np.arange(1, counts.shape[1] + 1))
    few = most < 0.05 * below[:, -1:]
    return np.minimum(_first_sure(counts, noise, n), np.where(few.all(axis=1), 0, few.argmin(axis=1)))


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """What is known of placed columns, entries in [-1, 1], from one release: one number per column.

    Parameters
    ----------
    mean, variance : array
        Estimates, of which noise was taken away as far as columns are alike: a variance is not believed below what
        noise leaves open.
    noise : float
        The standard deviation of the noise in each of the released means: of x, and of the second sum.
    """

    mean: Floats
    variance: Floats
    noise: float


def column_moments(data: PrivateData, columns: Columns) -> ColumnMoments:
    """Return noisy moments of rows that are placed by ``columns``, without an intercept."""
    d, n = data.n_features, data.n_units
    one_sign = one_sided(columns)
    norm, mechanism = typical_norm(data), share_of_noise(data, MOMENT_SHARE)
    longest = math.sqrt(2) * norm  # no row is more than sqrt(2) times as long as its entries
    query = Moments(d, clip=longest, one_sign=one_sign)
    noise = deviation(mechanism, query.sensitivity(data.adjacency)) * query.unit / n
    if noise > NOISY and one_sign.all():  # categories with a known sign are only as long as their entries
        query = Moments(d, clip=max(longest * NOISY / noise, SHORTEST * norm), one_sign=one_sign)
        noise = deviation(mechanism, query.sensitivity(data.adjacency)) * query.unit / n
    sums = data.release(data.measure(query), mechanism) / n
    return moments_of(sums[:d], sums[d:], noise, columns)


def moments_of(first: Floats, second: Floats, noise: float, columns: Columns) -> ColumnMoments:
    """Return estimates from noisy means of x, and of |x| - x^2, or of x^2 in columns of mixed sign.

    Columns of one sign are turned to the positive side. Their means are brought nearer to one another, and a variance
    is at least the standard deviation of what noise is left in it. In columns of mixed sign 0 is the middle unless a
    mean is surely another (many small errors would add up to one large common shift), and a variance is at least the
    noise.
    """
    mean, variance = np.empty_like(first), np.empty_like(first)
    one = one_sided(columns)
    side = np.where(columns.low[one] >= 0, 1.0, -1.0)
    sizes, left = shrunk(side * first[one], noise)
    lacks, left_of_lacks = shrunk(second[one], noise)
    sizes, lacks = np.clip(sizes, 0, 1), np.clip(lacks, 0, 0.25)
    doubt = noise * np.sqrt(left * np.square(1 - 2 * sizes) + left_of_lacks)
    mean[one], variance[one] = side * sizes, np.maximum(sizes - lacks - np.square(sizes), doubt)

    means = np.where(np.abs(first[~one]) < SURE * noise, 0.0, np.clip(first[~one], -1, 1))
    squares = np.clip(shrunk(second[~one], noise)[0], 0, 1)
    mean[~one], variance[~one] = means, np.maximum(squares - np.square(means), noise)
    return ColumnMoments(mean, np.clip(variance, SMALLEST_VARIANCE, 1.0), noise)


def one_sided(columns: Columns) -> Any:
    """Return which columns hold nothing below 0, or nothing above: their ends say so."""
    return (columns.low >= 0) | (columns.high <= 0)


def shrunk(means: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return noisy means nearer to their average, and which part of the noise in each is left, as a variance.

    The noise is known, so what they differ by without it is known, too (James & Stein 1961; Efron & Morris 1973). None
    moves by more than ``FARTHEST`` deviations of its noise, so that a few that are far from the others stay (Efron &
    Morris 1972). The average of all, or each of up to three, is brought nearer to 0 where it is hardly above its noise.
    """
    d = len(means)
    if d <= 3:
        return _above_noise(means, noise), np.ones(d)
    average = means.mean()
    apart = means - average
    kept = max(0.0, 1 - (d - 3) * noise**2 / max(float(apart @ apart), 1e-300))
    shift, limit = (1 - kept) * apart, FARTHEST * noise
    left = np.where(np.abs(shift) > limit, 1.0, kept + (1 - kept) / d)
    return _above_noise(average, noise / math.sqrt(d)) + apart - np.clip(shift, -limit, limit), left


def _above_noise(means: Any, noise: float) -> Any:
    return means * np.maximum(0, 1 - noise**2 / np.maximum(np.square(means), 1e-300))


def standardised(columns: Columns, moments: ColumnMoments, *, centred: bool, power: float = SCALE_POWER) -> Columns:
    """Return the columns centred at their noisy means and divided by a power of their noisy standard deviations."""
    return columns.standardised(moments.variance ** (-power / 2), moments.mean if centred else None)
