"""DP-SGD and DP-Adam as a scikit-learn classifier."""

from ..data import Facts, Unknown
from ..encodings import LinearEncoding
from ..objectives import Linear
from ..privacy import GaussianDP
from ..privacy.pld import PlannedSteps
from ..requirements import choice, integer, number, require_stable_steps
from ..solvers.sgd import SGD
from .batches import budget_of_steps, planned_steps, require_equal_steps
from .plan import Plan, l2_of, with_parameters_of
from .probabilities import LOSSES, LossNamed, ProbabilitiesOfLogLoss
from .sampled_classifier import SampledClassifier


class DPSGDClassifier(ProbabilitiesOfLogLoss, SampledClassifier):
    """Linear classifier by noisy gradients of random batches: DP-SGD, or DP-Adam.

    The number of steps is fixed before the run and the noise is the least that the budget allows. Columns should be on
    one public scale, about [0, 1]. On tables that fit into memory :class:`~dpsk.DPLogisticRegression` is more accurate.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "huber_hinge"}
        Logistic loss (softmax for several classes), the hinge, or the hinge with a rounded corner (one-vs-rest).
    learning_rate : float or None
        Length of a step: relative to the mean gradient, for Adam to 1 per weight. None: 3.0 (less where ``alpha`` is
        above 1/3), and 0.05 for Adam.
    accountant : {"rdp", "pld"}
        "rdp": Renyi differential privacy at the best order for this plan. "pld": privacy loss distributions, which need
        some percent less noise; for Poisson sampling without ``standardize``, with the extra ``dpsk[pld]``.

    References
    ----------
    Abadi et al. (2016), Deep learning with differential privacy. Mironov, Talwar & Zhang (2019), Renyi differential
    privacy of the sampled Gaussian mechanism.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from dpsk import DPSGDClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPSGDClassifier(epsilon=3.0).fit(MinMaxScaler().fit_transform(X), y)
    >>> model.privacy_spent_.epsilon
    3.0
    """

    loss: str = choice("log_loss", *LOSSES)
    steps: int = integer(500)
    optimizer: str = "sgd"
    learning_rate: float | None = number(None, open_low=True)
    gradient_clip: float = 1.0
    average: float = 0.5
    accountant: str = choice("rdp", "rdp", "pld")

    _described_by = (SGD,)

    def _plan(self, facts: Facts | Unknown) -> Plan:
        if self.learning_rate is not None and self.optimizer == "sgd":
            require_stable_steps("learning_rate", self.learning_rate, self.alpha)
        encoding, planned = with_parameters_of(self, LinearEncoding, row_major=True), self._planned_steps()
        noise = None if planned is None else planned.noise_multiplier
        rate = self._learning_rate()
        solver = with_parameters_of(self, SGD, sampling=self._sampled(), learning_rate=rate, noise_multiplier=noise)
        objective = Linear(LossNamed(self.loss), l2_of(self))
        if planned is None:
            budget = self._sampled_budget(solver, GaussianDP())
        else:
            budget = budget_of_steps(planned, self.steps, self.epsilon, self.delta)
        return Plan(solver, objective, encoding, budget)

    def _learning_rate(self) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return 0.05 if self.optimizer == "adam" else 3.0 / max(1.0, 3.0 * self.alpha)

    def _planned_steps(self) -> PlannedSteps | None:
        """Return the plan of privacy loss distributions, None where these do not account."""
        if self.accountant == "rdp":
            return None
        require_equal_steps(self.sampling, self.standardize)
        return planned_steps(self._sampled().rate, self.steps, self.epsilon, self.delta)
