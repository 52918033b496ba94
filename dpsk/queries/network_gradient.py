"""The sum of clipped gradients of a network."""

import numpy as np

from ..data.grid import check_clip, power_of_two_above
from ..data.private import Query
from ..data.rows import Chunk, Labels, Matrix
from ..data.weights import joined
from ..losses import Loss
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Floats, Integers
from ..networks import Network
from ..networks.signals import SIGNAL_STEP, SLOPE_BITS
from ..networks.thread_memory import ThreadMemory
from ..privacy.neighbours import Adjacency

MOST_ROWS = 2**24
"""Of all chunks: a row adds at most 2^38 to an entry of a sum of 64-bit integers. The model refuses more."""

_EXACT_ROWS = {False: 2**15, True: 2**11}  # without and with weights: added in floats, at most 2^38 and 2^42 each

_memory = ThreadMemory()


def require_outputs(network: Network, loss: Loss) -> None:
    """Raise ValueError unless the network has as many outputs as the loss takes scores."""
    if network.n_outputs != (loss.n_classes or 1):
        raise ValueError(f"{loss!r} needs {loss.n_classes or 1} outputs; this network has {network.n_outputs}")


class NetworkGradient(Query):
    """The sum over rows of the loss gradient at the flat weights ``w``, each clipped to l2 norm ``clip``.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.17)
    What a row adds has norm at most ``clip``, whatever the loss returns and whatever the network is: a leaving row
    moves the sum by at most that much, a replaced one by twice as much.
    """

    label = "gradient"
    weighed = True
    evaluations = 1

    def __init__(self, network: Network, loss: Loss, w: Floats, *, clip: float) -> None:
        require_outputs(network, loss)
        self.network, self.loss, self.clip = network, loss, check_clip(clip)
        self.w = network.on_grid(w)
        self.w.flags.writeable = False
        self.unit = power_of_two_above(self.clip) * 2.0**-SLOPE_BITS * SIGNAL_STEP

    def sensitivity(self, adjacency: str) -> Sensitivity:
        l2 = self.clip / self.unit * Adjacency(adjacency).parts
        return Sensitivity(l1=np.nextafter(l2 * np.sqrt(self.w.size), np.inf), l2=l2, linf=l2)

    def __call__(self, chunk: Chunk) -> Integers:
        weighted = chunk.weights is not None
        sums, since = _memory.zeros(*((2, self.w.size) if weighted else (self.w.size,))), 0
        total: Integers | int = 0
        for rows, signals in self.network.blocks(chunk):
            n = signals.shape[0]
            if since + n > _EXACT_ROWS[weighted]:
                total = total + sums.astype(np.int64)
                sums[...], since = 0, 0
            self._add(sums, signals, chunk.y[rows], None if chunk.weights is None else chunk.weights[rows])
            since += n
        last = sums.astype(np.int64)
        last += total
        return joined(last[0], last[1]) if weighted else last

    def _add(self, sums: Floats, signals: Matrix, y: Labels, weights: Floats | None) -> None:
        gradients = self.network.row_gradients(signals, y, self.w, self.loss)
        squared = gradients[0].squared_norms
        for others in gradients[1:]:
            squared = squared + others.squared_norms
        limit = self.clip * (1 - 2.0**-30)
        factors = limit / np.maximum(np.sqrt(squared), limit)
        for stage, gradient in zip(self.network.stages, gradients, strict=True):
            part = sums[..., stage.place].reshape(*sums.shape[:-1], *stage.layer.weight_shape)
            gradient.add_to(part, factors, self.unit, weights)
