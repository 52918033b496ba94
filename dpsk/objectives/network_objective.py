"""The objective of networks: the mean loss of rows, and a penalty of the weights that are not biases."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..data import Facts, RowMap
from ..losses import Loss
from ..mechanisms.samplers import Floats
from ..networks import Network, TrainedNetwork
from ..penalties import Penalty, WeightDecay
from ..queries.network_gains import NetworkGains, NetworkLosses
from ..queries.network_gradient import MOST_ROWS, NetworkGradient
from .objective import Model, Objective


@dataclass(frozen=True)
class NetworkObjective(Objective):
    """``mean(loss(network(x, w))) + penalty(w)`` for one flat array of all weights.

    Descent starts at random weights that ``seed`` decides. The seed is public, and has nothing to do with the noise.
    """

    network: Network
    loss: Loss
    penalty: Penalty
    seed: int = 0

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.network.n_weights,)

    def of_weighed(self, multiple: float) -> "NetworkObjective":
        return replace(self, penalty=self.penalty.divided(multiple))

    def attributes(self, w: Floats, how: RowMap) -> dict[str, Any]:
        trained = TrainedNetwork.of(self.network, w, how)
        weights = trained.matrices_for_columns
        return {
            "coefs_": [W[:-1].copy() for W in weights],
            "intercepts_": [W[-1].copy() for W in weights],
            "network_": trained,
            "n_layers_": len(weights) + 1,
        }

    def start(self) -> Floats:
        return self.network.start(self.seed)

    def gradient(self, w: Floats, *, clip: float) -> NetworkGradient:
        return NetworkGradient(self.network, self.loss, w, clip=clip)

    def losses_along(
        self, w: Floats, step: Floats, multiples: Sequence[float] | Floats, *, clip: float
    ) -> NetworkLosses:
        return NetworkLosses(self.network, self.loss, w, step, multiples, clip=clip)

    def gains(self, w: Floats, direction: Floats, steps: Floats, *, clip: float, per_unit: bool = True) -> NetworkGains:
        return NetworkGains(self.network, self.loss, w, direction, steps, clip=clip, per_unit=per_unit)


@dataclass(frozen=True)
class NetworkModel(Model):
    """A network before the data are known.

    Parameters
    ----------
    loss_for : callable
        The loss for every number of classes.
    network_for : callable
        The network for so many inputs and outputs, e.g. :class:`Perceptron`.
    alpha : float
        The penalty is alpha/2 times the squares of all weights but the biases.
    seed : int
        Decides the initial weights. It is public.
    """

    loss_for: Callable[[int], Loss]
    network_for: Callable[[int, int], Network]
    alpha: float = 0.0
    seed: int = 0

    def require(self, facts: Facts) -> None:
        # before a batch is drawn: how many rows a batch holds is secret, and whether they are too many would tell
        if facts.n_rows > MOST_ROWS:
            raise ValueError(
                f"{facts.n_rows} rows are too many for a network: at most {MOST_ROWS} are added up exactly"
            )

    def on(self, n_parameters: int, n_classes: int) -> NetworkObjective:
        """Return the objective. Rows have no intercept: the layers of a network have biases."""
        loss = self.loss_for(n_classes)
        network = self.network_for(n_parameters, loss.n_classes or 1)
        return NetworkObjective(network, loss, decay_of(network, self.alpha), self.seed)


@dataclass(frozen=True)
class Perceptron:
    """Dense layers of these sizes: a function of the numbers of inputs and outputs."""

    hidden_layer_sizes: tuple[int, ...] = (100,)
    activation: str = "relu"

    def __call__(self, n_inputs: int, n_outputs: int) -> Network:
        return Network.dense(n_inputs, self.hidden_layer_sizes, n_outputs, self.activation)


def decay_of(network: Network, alpha: float) -> WeightDecay:
    """Return the penalty alpha/2 times the squares of all weights of a network but its biases."""
    ends = [(stage.place.stop, stage.layer.weight_shape[1]) for stage in network.stages]
    return WeightDecay(alpha, tuple((end - biases, end) for end, biases in ends))
