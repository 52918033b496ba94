"""Random Fourier features beside linear columns: which columns they are of, how many there are, and their frequencies.

How many there are follows from public facts. Where there are any, a small part of the budget tells which columns hold
more than -1, 0 and 1, up to a factor. All else follows from a public seed and from the moments that were released to
standardise the columns.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ..data import Columns, PrivateData
from ..data.waves import Waves
from ..mechanisms import Laplace
from ..mechanisms.randomness import SeededBits
from ..mechanisms.samplers import Floats, Integers
from ..queries import Middles
from ..solvers.precision import deviation, share_of_noise
from .standardization import ColumnMoments

PAIRS = 100
LEAST_PRECISION = 5_000.0  # rows that outweigh the noise of one sum, if the whole budget bought it
MOST_COLUMNS = 3  # of a phase; at least one
SLOWEST, OCTAVES = 0.5, 3  # the standard deviation of a phase, in radians, and how many octaves it is spread over
PART = 0.5  # of the variance of linear columns that all waves together have
MIDDLE_SHARE = 0.01
MIDDLE_CLIP = 1.0  # the norm of 16 columns in the middle between 0 and 1
SURE = 3.0  # deviations of noise by which a column has to be other than binary
LEAST_PART = 0.1  # of the mean size of its entries that they have to lack to being 1 or -1
_DOMAIN = int.from_bytes(b"dpsk waves", "little") << 128  # seeds of noise are other numbers
_OF_PAIRS = 2**32 - 1  # the number of a column that there cannot be


def pairs_for(data: PrivateData) -> int:
    """Return how many pairs of a cosine and a sine a fit can bear: a rule from public facts."""
    mechanism = share_of_noise(data, 1.0)
    mu = mechanism.epsilon / math.sqrt(2) if isinstance(mechanism, Laplace) else mechanism.mu
    precision = mu * data.n_units / data.adjacency.parts
    return PAIRS if precision >= LEAST_PRECISION else 0


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
    data: PrivateData, columns: Columns, moments: ColumnMoments, seed: int, *, centred: bool
) -> tuple[Columns, Waves | None]:
    """Return standardised columns with those of their waves, and the waves; the columns alone where there are none.

    ``data`` are the placed rows. Nothing is released where public facts tell that there are too few.
    """
    n_pairs = pairs_for(data)
    curved = curved_columns(data, moments) if n_pairs else np.zeros(0, dtype=np.int64)
    if not len(curved):
        return columns, None
    waves = waves_of(columns, moments, curved, n_pairs, seed, centred=centred)
    # the mean of a cosine, if its phase is as the normal distribution
    powers = np.square(2 * math.pi * waves.turns) * moments.variance[curved][:, None]
    centre = np.concatenate([np.exp(-powers.sum(axis=0) / 2), np.zeros(n_pairs)]) if centred else None
    return beside(columns, waves, moments.variance, centre), waves


def waves_of(
    columns: Columns, moments: ColumnMoments, curved: Integers, n_pairs: int, seed: int, *, centred: bool
) -> Waves:
    """Return the waves of some columns, with frequencies that suit their spreads."""
    turns = frequencies(seed, curved, n_pairs) / (2 * math.pi) / np.sqrt(moments.variance[curved])[:, None]
    placed = Columns.within(columns.low[curved], columns.high[curved], len(curved))
    return Waves(curved, placed.standardised(placed.factor, moments.mean[curved] if centred else None), turns)


def beside(columns: Columns, waves: Waves, variance: Floats, centre: Floats | None) -> Columns:
    """Return the map of columns with these variances, and of waves with these centres."""
    ones = np.ones(waves.n_columns)
    factor = math.sqrt(PART * float(np.square(columns.factor) @ variance) / waves.n_pairs)
    pairs = (columns.low, -ones), (columns.high, ones), (columns.factor, factor * ones)
    low, high, factors = (np.concatenate(pair) for pair in pairs)
    centres = None if columns.centre is None or centre is None else np.concatenate([columns.centre, centre])
    return Columns(low, high, factors, centres)


def frequencies(seed: int, columns: Integers, n_pairs: int) -> Floats:
    """Return what each column adds to each phase, in radians for each of its standard deviations.

    A phase is of few columns, which are drawn for it, and has a direction and a length of its own. Another column, or
    one less, changes the phases that it belongs to, and no others.
    """
    words = _words(seed, _OF_PAIRS, 2 * n_pairs)
    sizes = 1 + words[:n_pairs] % np.uint64(MOST_COLUMNS)
    octave, within = words[n_pairs:] % np.uint64(OCTAVES), (words[n_pairs:] >> np.uint64(11)) * 2.0**-53
    lengths = SLOWEST * np.ldexp(1 + within, octave.astype(np.int64))  # about as many in each octave
    places = np.stack([_words(seed, int(column), n_pairs) for column in columns])
    normals = np.stack([public_normals(seed, int(column), n_pairs) for column in columns])
    normals[places.argsort(axis=0, kind="stable").argsort(axis=0) >= sizes] = 0.0
    size = np.sqrt(np.square(normals).sum(axis=0))
    directed: Floats = normals * (lengths / np.where(size > 0, size, 1.0))
    return directed


def public_normals(seed: int, column: int, n: int) -> Floats:
    """Return ``n`` numbers for a column that are about normal: sums of twelve uniform ones, multiples of 2^-17.

    They belong to the model, so their bits must never change, unlike those of noise.
    """
    parts = _words(seed, column + 2**32, 3 * n).view("<u2").reshape(n, 12)
    normals: Floats = (2 * parts.sum(axis=1, dtype=np.int64) - 12 * (2**16 - 1)) * 2.0**-17
    return normals


def _words(seed: int, stream: int, n: int) -> NDArray[np.uint64]:
    """Return ``n`` uniform words of 64 bits, the same ones for ever."""
    return np.frombuffer(SeededBits(_DOMAIN + (seed << 64) + stream).take(8 * n), dtype="<u8")
