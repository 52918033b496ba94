"""Random Fourier features beside linear columns: which columns they are of, how many there are, and their frequencies.

How many there are follows from public facts. Where there are any, a small part of the budget tells which columns hold
more than -1, 0 and 1, up to a factor. All else follows from a public seed and from the moments that were released to
standardise the columns.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..data import Columns, PrivateData, Waves
from ..mechanisms import Laplace
from ..mechanisms.randomness import SeededBits
from ..mechanisms.samplers import Floats, Integers
from ..queries import Middles
from ..solvers.precision import deviation, share_of_noise
from .standardization import ColumnMoments

LEAST_PRECISION = 2_500.0  # rows that outweigh the noise of one sum, if the whole budget bought it
LEAST_ROWS = 2_000  # with fewer, so many weights follow their chance
PAIRS, MOST_PAIRS = 100, 300  # at precision 10,000 or less, growing like its root
MOST_COLUMNS = 3  # of a phase; at least one
SLOWEST, OCTAVES = 0.5, 3  # the standard deviation of a phase, in radians, and how many octaves it is spread over
PART = 0.5  # of the variance of linear columns that all waves together have
MIDDLE_SHARE = 0.01
MIDDLE_CLIP = 1.0  # the norm of 16 columns in the middle between 0 and 1
SURE = 3.0  # deviations of noise by which a column has to be other than binary
LEAST_PART = 0.1  # of the mean size of its entries that they have to lack to being 1 or -1


def pairs_for(data: PrivateData, n_scores: int | None) -> int:
    """Return how many pairs of a cosine and a sine a fit can bear: a rule from public facts.

    ``n_scores`` is the number of scores of a row, None for a single one: each has weights of its own.
    """
    mechanism = share_of_noise(data, 1.0)
    mu = mechanism.epsilon / math.sqrt(2) if isinstance(mechanism, Laplace) else mechanism.mu
    precision = mu * data.n_units / data.adjacency.parts / math.sqrt(n_scores or 1)
    if precision < LEAST_PRECISION or data.n_units < LEAST_ROWS:
        return 0
    return int(np.clip(PAIRS * math.sqrt(precision / 10_000), PAIRS, MOST_PAIRS))


def curved_columns(data: PrivateData, moments: ColumnMoments) -> Integers:
    """Return which columns surely hold more than -1, 0 and 1, up to a factor; ``data`` are the placed rows.

    This is a release of its own: of columns whose signs are not known, the moments do not tell.
    """
    query = Middles(data.n_features, clip=MIDDLE_CLIP)
    mechanism = share_of_noise(data, MIDDLE_SHARE)
    middles = data.release(data.measure(query), mechanism) / data.n_units
    noise = deviation(mechanism, query.sensitivity(data.adjacency)) * query.unit / data.n_units
    sizes = middles + moments.variance + np.square(moments.mean)  # the means of |x|
    return np.flatnonzero((middles > SURE * noise) & (middles > LEAST_PART * sizes))


def with_waves(
    data: PrivateData, columns: Columns, moments: ColumnMoments, seed: int, n_scores: int | None
) -> tuple[Columns, Waves | None]:
    """Return standardised columns with those of their waves, and the waves; the columns alone where there are none.

    ``data`` are the placed rows. Nothing is released where public facts tell that there are too few. More columns than
    pairs have no waves: each would hardly be in one.
    """
    n_pairs = pairs_for(data, n_scores)
    if not n_pairs:
        return columns, None
    curved = curved_columns(data, moments)
    if not 1 <= len(curved) <= n_pairs:
        return columns, None
    return beside(columns, moments.mean, moments.variance, curved, frequencies(seed, len(curved), n_pairs))


def beside(
    columns: Columns, mean: Floats, variance: Floats, curved: Integers, radians: Floats
) -> tuple[Columns, Waves]:
    """Return columns and waves of some of them.

    ``mean`` and ``variance`` are those of placed columns, and ``radians`` tells what a standard deviation of each of
    the ``curved`` ones adds to each phase.
    """
    centred, n_pairs = columns.centre is not None, radians.shape[1]
    placed = Columns.within(columns.low[curved], columns.high[curved], len(curved))
    placed = placed.standardised(placed.factor, mean[curved] if centred else None)
    waves = Waves(curved, placed, radians / (2 * math.pi) / np.sqrt(variance[curved])[:, None])
    # the mean of a cosine, if its phase is as the normal distribution
    centre = np.concatenate([np.exp(-np.square(radians).sum(axis=0) / 2), np.zeros(n_pairs)])
    ones = np.ones(waves.n_columns)
    factor = math.sqrt(PART * math.fsum(np.square(columns.factor) * variance) / waves.n_pairs)
    pairs = (columns.low, -ones), (columns.high, ones), (columns.factor, factor * ones)
    low, high, factors = (np.concatenate(pair) for pair in pairs)
    centres = None if columns.centre is None else np.concatenate([columns.centre, centre])
    return Columns(low, high, factors, centres), waves


def frequencies(seed: int, n_columns: int, n_pairs: int, *, fewest: int = 1) -> Floats:
    """Return what each column adds to each phase, in radians for each of its standard deviations.

    A phase is of ``fewest`` to three columns. Its direction in these is uniform, and its length is drawn from a
    layer of its own between the slowest and the fastest.
    """
    layers, within = _words(seed, "lengths", 2 * n_pairs).reshape(2, n_pairs)
    places = layers.argsort(kind="stable") + (within >> np.uint64(11)) * 2.0**-53
    octaves = OCTAVES * (places / n_pairs)
    lengths = SLOWEST * np.ldexp(1 + octaves % 1, octaves.astype(np.int64))  # about uniform in their logarithm
    normals = public_normals(seed, MOST_COLUMNS * n_pairs).reshape(n_pairs, MOST_COLUMNS)
    made = np.zeros((n_columns, n_pairs))
    for k, columns in enumerate(_dealt(seed, n_columns, n_pairs, fewest)):
        direction = normals[k, : len(columns)]
        made[columns, k] = direction * (lengths[k] / math.sqrt(sum(x * x for x in direction.tolist()) or 1.0))
    return made


def _dealt(seed: int, n_columns: int, n_pairs: int, fewest: int) -> Iterator[list[int]]:
    """Yield the columns of each phase: all columns are dealt in a random order, then in another one, and so on."""
    n_decks = 2 + MOST_COLUMNS * n_pairs // n_columns
    decks = iter(_words(seed, "columns", n_decks * n_columns).reshape(n_decks, n_columns))
    left = list[int]()
    for k in range(n_pairs):
        hand, size = list[int](), fewest + k % (MOST_COLUMNS - fewest + 1)
        while len(hand) < min(size, n_columns):
            if set(left) <= set(hand):
                left += next(decks).argsort(kind="stable").tolist()
            hand.append(left.pop(next(i for i, column in enumerate(left) if column not in hand)))
        yield hand


def public_normals(seed: int, n: int) -> Floats:
    """Return ``n`` numbers that are about normal: sums of twelve uniform ones, multiples of 2^-17.

    They belong to the model, so their bits must never change, unlike those of noise.
    """
    parts = _words(seed, "normals", 3 * n).view("<u2").reshape(n, 12)
    normals: Floats = (2 * parts.sum(axis=1, dtype=np.int64) - 12 * (2**16 - 1)) * 2.0**-17
    return normals


def _words(seed: int, purpose: str, n: int) -> NDArray[np.uint64]:
    """Return ``n`` uniform words of 64 bits, the same ones for ever. The seeds of noise are other numbers."""
    stream = int.from_bytes(f"dpsk waves {purpose}".encode(), "little")
    return np.frombuffer(SeededBits((stream << 64) + seed).take(8 * n), dtype="<u8")
