"""Random Fourier features beside linear columns: which columns they are of, how many there are, and their frequencies.

All of it follows from public facts, from a public seed, and from moments that were released to standardise the columns.
So it costs no privacy (docs/guarantees.md, 1.3).
"""

import math

import numpy as np

from ..data import Columns, PrivateData
from ..data.waves import Waves
from ..mechanisms.randomness import SeededBits
from ..mechanisms.samplers import Floats
from ..solvers.precision import share_of_noise
from .standardization import ColumnMoments

PAIRS = 400
LEAST_PRECISION = 5_000.0  # rows that outweigh the noise of one sum, if the whole budget bought it
BANDWIDTH = 0.5  # deviations of a column that one deviation of the sum of a phase is, in radians
FACTOR = 1.0  # of a cosine, beside linear columns of about unit variance
CURVED = 0.002  # the least mean of |x| - x^2 of a column that is worth it
SURE = 3.0  # deviations of noise by which it has to be larger than 0
_DOMAIN = int.from_bytes(b"dpsk waves", "little") << 64  # seeds of noise are other numbers


def pairs_for(data: PrivateData, n_columns: int) -> int:
    """Return how many pairs of a cosine and a sine a fit can bear: a rule from public facts."""
    del n_columns
    mechanism = share_of_noise(data, 1.0)
    mu = getattr(mechanism, "mu", None) or mechanism.epsilon / math.sqrt(2)
    precision = mu * data.n_units / data.adjacency.parts
    return PAIRS if precision >= LEAST_PRECISION else 0


def with_waves(
    data: PrivateData, columns: Columns, moments: ColumnMoments, seed: int, *, centred: bool
) -> tuple[Columns, Waves | None]:
    """Return standardised columns with those of their waves, and the waves; the columns alone where there are none.

    ``data`` are the placed rows, of which public facts are taken only.
    """
    curved = np.flatnonzero(moments.within > np.maximum(CURVED, SURE * moments.noise))
    n_pairs = pairs_for(data, len(curved))
    if not n_pairs or not len(curved):
        return columns, None
    variance = moments.variance[curved]
    normals = public_normals(seed, n_pairs * len(curved)).reshape(n_pairs, len(curved)).T
    turns = normals * (BANDWIDTH / (2 * math.pi)) / np.sqrt(variance)[:, None]
    placed = Columns.within(columns.low[curved], columns.high[curved], len(curved))
    waves = Waves(curved, placed.standardised(placed.factor, moments.mean[curved] if centred else None), turns)
    # the mean of a cosine, if its phase is as the normal distribution
    decay = np.exp(-((2 * math.pi * waves.turns) ** 2 * variance[:, None]).sum(axis=0) / 2)
    return beside(columns, waves, np.concatenate([decay, np.zeros(n_pairs)]) if centred else None), waves


def beside(columns: Columns, waves: Waves, centre: Floats | None) -> Columns:
    """Return the map of columns, and of waves with these centres."""
    ones = np.ones(waves.n_columns)
    low, high, factor = (
        np.concatenate(pair)
        for pair in ((columns.low, -ones), (columns.high, ones), (columns.factor, FACTOR * ones))
    )
    centres = None if columns.centre is None or centre is None else np.concatenate([columns.centre, centre])
    return Columns(low, high, factor, centres)


def public_normals(seed: int, n: int) -> Floats:
    """Return ``n`` numbers that are about normal: sums of twelve uniform ones, multiples of 2^-17.

    They belong to the model, so their bits must never change, unlike those of noise.
    """
    words = np.frombuffer(SeededBits(_DOMAIN + seed).take(24 * n), dtype="<u2").reshape(n, 12)
    sums = words.sum(axis=1, dtype=np.int64)
    normals: Floats = (2 * sums - 12 * (2**16 - 1)) * 2.0**-17
    return normals
