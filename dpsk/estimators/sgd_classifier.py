"""DP-SGD and DP-Adam as a scikit-learn classifier."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..losses import Loss
from ..privacy import Budget, GaussianDP
from ..privacy.pld import PlannedSteps, require_dp_accounting
from ..solvers.sgd import SGD
from .classifier import Facts
from .linear import LOSSES, ProbabilitiesOfLogLoss, loss_named
from .parameters import PARAMETERS, require_choice, require_clip, require_number, require_part, require_stable_steps
from .sampled import SampledClassifier

__all__ = ["DPSGDClassifier"]


class DPSGDClassifier(ProbabilitiesOfLogLoss, SampledClassifier):
    __doc__ = f"""Linear classifier by noisy gradients of random batches: DP-SGD, or DP-Adam.

    The number of steps is fixed before the run and the noise is the least that the budget allows. Columns should be on
    one public scale, about [0, 1]. On tables that fit into memory :class:`~dpsk.DPLogisticRegression` is more accurate.

    Parameters
    ----------
    {PARAMETERS["budget"]}
    {PARAMETERS["losses"]}
    alpha : float, default=1e-4
        Strength of the L2 penalty on the mean loss: alpha/2 * ||coef||^2.
    {PARAMETERS["sampling"]}
    steps : int, default=500
        Number of batches.
    optimizer : {{"sgd", "adam"}}, default="sgd"
        Plain steps, or Adam's with its usual constants.
    learning_rate : float or None, default=None
        Length of a step: relative to the mean gradient, for Adam to 1 per weight. None: 3.0 (less where ``alpha`` is
        above 1/3), and 0.05 for Adam.
    gradient_clip : float, default=1.0
        Bound on one row's gradient norm. Larger ones are clipped.
    average : float, default=0.5
        The last part of the iterates whose mean is the model, in (0, 1].
    accountant : {{"rdp", "pld"}}, default="rdp"
        "rdp": Renyi differential privacy at the best order for this plan. "pld": privacy loss distributions, which need
        some percent less noise; for Poisson sampling without ``standardize``, with the extra ``dpsk[pld]``.
    {PARAMETERS["columns"] % "None"}
    {PARAMETERS["data"]}
    {PARAMETERS["running"]}

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

    _of_all_rows = GaussianDP()

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str = "log_loss",
        alpha: float = 1e-4,
        sampling_rate: float = 0.1,
        sampling: str = "poisson",
        steps: int = 500,
        optimizer: str = "sgd",
        learning_rate: float | None = None,
        gradient_clip: float = 1.0,
        average: float = 0.5,
        accountant: str = "rdp",
        bounds: Any = None,
        standardize: str | None = None,
        fit_intercept: bool = True,
        data_norm: float | None = None,
        classes: Any = None,
        adjacency: str = "zero-out",
        ledger: Any = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.alpha = alpha
        self.sampling_rate = sampling_rate
        self.sampling = sampling
        self.steps = steps
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.gradient_clip = gradient_clip
        self.average = average
        self.accountant = accountant
        self.bounds = bounds
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.data_norm = data_norm
        self.classes = classes
        self.adjacency = adjacency
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("loss", self.loss, LOSSES)
        require_number("steps", self.steps, 1, kind=Integral)
        require_choice("optimizer", self.optimizer, ("sgd", "adam"))
        require_clip("gradient_clip", self.gradient_clip)
        require_part("average", self.average)
        if self.learning_rate is not None:
            require_number("learning_rate", self.learning_rate, 0, open_low=True)
            if self.optimizer == "sgd":
                require_stable_steps("learning_rate", self.learning_rate, self.alpha)
        require_choice("accountant", self.accountant, ("rdp", "pld"))
        if self.accountant == "pld":
            require_dp_accounting()
            if self.sampling != "poisson" or self.standardize is not None:
                raise ValueError(
                    "accountant='pld' plans equal steps on Poisson batches and nothing else: use sampling='poisson' "
                    "and standardize=None, or accountant='rdp'"
                )

    def _learning_rate(self) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return 0.05 if self.optimizer == "adam" else 3.0 / max(1.0, 3.0 * self.alpha)

    def _loss(self, n_classes: int) -> Loss:
        return loss_named(self.loss, n_classes)

    def _budget(self, facts: Facts | None = None) -> Budget:
        if self.accountant == "rdp":
            return super()._budget(facts)
        whole = Budget.of(self.epsilon, self.delta, currency=self._of_all_rows)  # or its error
        return Budget(whole.epsilon, whole.delta, self._plan(), float(self.steps))

    def _plan(self) -> PlannedSteps:
        return PlannedSteps.plan(float(self.sampling_rate), int(self.steps), float(self.epsilon), float(self.delta))

    def _solver(self) -> SGD:
        return SGD(
            sampling=self._sampling(),
            steps=self.steps,
            optimizer=self.optimizer,
            learning_rate=self._learning_rate(),
            gradient_clip=self.gradient_clip,
            average=self.average,
            noise_multiplier=self._plan().noise_multiplier if self.accountant == "pld" else None,
        )
