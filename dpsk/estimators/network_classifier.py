"""Networks as classifiers: what multilayer perceptrons and convolutional networks share."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any

from ..data import Facts, Unknown
from ..encodings import Encoding, LinearEncoding
from ..networks import ACTIVATIONS, Network
from ..objectives import NetworkModel
from ..privacy import ZCDP, Budget, GaussianDP, Sampling
from ..privacy.amplification import SCHEMES
from ..requirements import choice, clip, integer, number, part, require_stable_steps
from ..solvers.line_search_sgd import LineSearchSGD
from ..solvers.sampled import SampledSolver
from ..solvers.sgd import SGD
from .batches import budget_of_steps, budget_on_batches, planned_steps, require_equal_steps, sampling_of
from .classifier import PrivateClassifier
from .network_rules import Schedule, require_known_values
from .plan import Plan, with_parameters_of
from .probabilities import LossNamed, Probabilities

SOLVERS = ("adam", "sgd", "line-search", "published-line-search")


class NetworkClassifier(Probabilities, PrivateClassifier):
    """Base of private classifiers that are networks.

    Parameters
    ----------
    activation : {"tanh", "relu", "hard-tanh", "identity"}
        What hidden layers do with their sums. "hard-tanh" is x, clipped to [-1, 1].
    solver : {"adam", "sgd", "line-search", "published-line-search"}
        "adam" is DP-Adam, "sgd" DP-SGD (Abadi et al. 2016): noisy gradients of random batches. "line-search" is DP-SGD
        whose steps a private search finds, for a part of the budget. "published-line-search" is the search of Chen &
        Lee (2020, §5.7) with their constants, at a sound price; its ``gradient_clip`` is 3 unless it is given, and it
        takes no ``average``.
    alpha : float
        Strength of the L2 penalty on the mean loss: the objective is mean(loss) + alpha/2 * ||weights||^2, without the
        biases, in the units that are fitted. scikit-learn divides its ``alpha`` by the number of rows. There is no
        penalty by default, because the noise already keeps weights from following single rows.
    sampling_rate : float or None
        The part of the rows that a batch holds, drawn secretly and anew each time; 1.0 uses all rows. None: public
        facts tell.
    sampling : {"poisson", "without-replacement"}
        "poisson" keeps each row independently, for ``adjacency="zero-out"``. "without-replacement" draws batches of a
        fixed size and protects replaced rows under either adjacency, with far more noise.
    steps : int or None
        Number of batches. None: public facts tell.
    learning_rate : float or None
        Length of a step: relative to the mean gradient for "sgd", to 1 per weight for "adam". "line-search" finds its
        own. None: public facts tell.
    gradient_clip : float or None
        Bound on the norm of one row's gradient, over all layers together. Larger ones are clipped. None: public facts
        tell.
    average : float
        The last part of the iterates whose mean is the result, in (0, 1].
    accountant : {"rdp", "pld"}
        "rdp": Renyi differential privacy at the best order for this plan. "pld": privacy loss distributions, which need
        some percent less noise; for Poisson sampling without ``standardize``, with the extra ``dpsk[pld]``.
    bounds : pair of numbers or arrays, dict, or None
        Public lower and upper bounds of the columns: ``(0, 255)`` for all, ``(lows, highs)``, not a list of pairs, or
        by name, ``{"age": (0, 120), ...}``, for every column of a DataFrame. Values beyond are clipped, and columns are
        fitted in units of their bounds. With bounds nothing is spent on finding ranges.
    standardize : {"private", None}
        "private" spends a part of the budget on means and standard deviations of the columns (and, without
        ``bounds``, on their ranges first) and fits standardised columns. None fits the columns as they are; entries
        should then be on one public scale, about [-1, 1], and count as at most 64. A fit without ``bounds`` and
        ``data_norm`` says so.
    data_norm : float or None
        A public bound on the l2 norm of a row; longer rows are scaled down to it, in ``fit`` and in predictions. It
        cannot be combined with ``bounds`` or ``standardize``, which look at columns.
    initial_seed : int
        The seed of the weights that the fit starts with. They are public, so it has nothing to do with
        ``random_state``.

    Attributes
    ----------
    coefs_ : list of ndarray of shape (fan_in, n_outputs)
        The weights, layer by layer. Those of a first layer that is dense are for columns in the units of X, or for the
        features of ``encoder_``. A convolution has a row for each place of its window and channel of its input, and is
        for inputs as they are fitted. Scores computed from these arrays in plain floats differ a little from those of
        the model, which rounds on the grids of ``network_``.
    intercepts_ : list of ndarray of shape (n_outputs,)
        The biases, layer by layer.
    network_ : TrainedNetwork
        The map of rows to signals, the architecture and the weights, from which predictions follow: public numbers.
    n_layers_ : int
        The number of layers, with those of the inputs and of the scores.
    n_iter_ : int
        How many steps the fit took.
    solver_ : SGD or LineSearchSGD
        The algorithm with all of its numbers, also those that public facts chose.
    ranges_ : ndarray of shape (2, n_features), or None
        Lower and upper ends of the columns, public or released with noise. Values beyond count as the end of the range,
        in ``fit`` and in predictions. None where neither ``bounds`` nor ``standardize`` is used. A fit to a raw table
        has an ``encoder_`` instead.
    data_norm_ : float or None
        The norm that longer rows are brought down to, in ``fit`` and in predictions; None where there is none.
    """

    activation: str = choice("tanh", *ACTIVATIONS)
    solver: str = choice("adam", *SOLVERS)
    alpha: float = number(0.0)
    sampling_rate: float | None = part(None)
    sampling: str = choice("poisson", *SCHEMES)
    steps: int | None = integer(None)
    learning_rate: float | None = number(None, open_low=True)
    gradient_clip: float | None = clip(None)
    average: float = part(0.25)
    accountant: str = choice("rdp", "rdp", "pld")
    bounds: Any = None
    standardize: str | None = "private"
    data_norm: float | None = None
    initial_seed: int = integer(0, 0)

    @property
    def _searches(self) -> bool:
        """Whether a search finds the steps."""
        return self.solver.endswith("line-search")

    @abstractmethod
    def _network_for(self) -> Callable[[int, int], Network]:
        """Return the network for so many inputs and outputs; raise ValueError for parameters that make none."""

    def _encoding(self) -> Encoding:
        """Return how columns become the inputs of the first layer."""
        return with_parameters_of(self, LinearEncoding, row_major=True)

    def _schedule(self, facts: Facts | Unknown) -> Schedule:
        """Return what rules choose for parameters that are None."""
        return Schedule.of(self, facts)

    def _of_all_rows(self, facts: Facts | Unknown) -> Any:
        """Return the currency of a fit on all rows at a time."""
        del facts
        return ZCDP() if self._searches else GaussianDP()

    def _plan(self, facts: Facts | Unknown) -> Plan:
        epsilon: Any = self.epsilon
        if isinstance(epsilon, Real) and epsilon == math.inf:
            raise ValueError("epsilon=inf: a network has no exact model. To compare, use a large number, such as 1000")
        Budget.of(self.epsilon, self.delta, currency=GaussianDP())  # or its error
        self._require_together()
        encoding, network_for = self._encoding(), self._network_for()
        model = NetworkModel(LossNamed("log_loss"), network_for, float(self.alpha), int(self.initial_seed))
        chosen = self._schedule(facts)
        sampling = sampling_of(chosen.sampling_rate, self.sampling, self.adjacency)
        if sampling.rate < 1:
            require_known_values(facts, sampling.rate)
        if self.accountant == "pld":
            return self._of_equal_steps(model, encoding, chosen, sampling)
        solver = self._solver(chosen, sampling)
        budget = budget_on_batches(solver, self.epsilon, self.delta, self._of_all_rows(facts))
        return Plan(solver, model, encoding, budget)

    def _of_equal_steps(self, model: NetworkModel, encoding: Encoding, chosen: Schedule, sampling: Sampling) -> Plan:
        planned = planned_steps(sampling.rate, chosen.steps, self.epsilon, self.delta)
        solver = self._solver(chosen, sampling, planned.noise_multiplier)
        return Plan(solver, model, encoding, budget_of_steps(planned, chosen.steps, self.epsilon, self.delta))

    def _solver(self, chosen: Schedule, sampling: Sampling, noise: float | None = None) -> SampledSolver:
        steps, clipped = chosen.steps, chosen.gradient_clip
        if self.solver == "line-search":
            return LineSearchSGD(sampling, steps, clipped, average=float(self.average))
        if self.solver == "published-line-search":
            published = LineSearchSGD.of_paper(sampling, steps)
            return published if self.gradient_clip is None else replace(published, gradient_clip=clipped)
        return SGD(sampling, steps, self.solver, chosen.learning_rate, clipped, float(self.average), noise)

    def _require_together(self) -> None:
        """Raise ValueError for parameters that cannot be combined."""
        if self.sampling_rate is not None:
            sampling_of(self.sampling_rate, self.sampling, self.adjacency)
        if self._searches and self.learning_rate is not None:
            raise ValueError(
                f"learning_rate={self.learning_rate!r} has no effect with solver={self.solver!r}, which finds its "
                "steps: leave it out, or use solver='sgd' or 'adam'"
            )
        if self.solver == "published-line-search" and self.average != type(self).average:
            raise ValueError(
                f"average={self.average!r} has no effect with solver='published-line-search', whose result is the last "
                "iterate: leave it out, or use solver='line-search'"
            )
        if self.solver == "sgd" and self.learning_rate is not None:
            require_stable_steps("learning_rate", self.learning_rate, self.alpha)
        if self.accountant == "pld":
            if self._searches:
                raise ValueError(
                    f"accountant='pld' plans equal steps and solver={self.solver!r} takes others: use "
                    "accountant='rdp', or solver='adam' or 'sgd'"
                )
            require_equal_steps(self.sampling, self.standardize)
