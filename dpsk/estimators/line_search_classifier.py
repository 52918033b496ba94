"""Private line search on random batches as a scikit-learn classifier."""

from ..data import Facts, Unknown
from ..encodings import LinearEncoding
from ..objectives import Linear
from ..privacy import ZCDP
from ..requirements import choice, number, require_stable_steps
from ..solvers.line_search import LineSearch
from .plan import Plan, l2_of, with_parameters_of
from .probabilities import LOSSES, LossNamed, ProbabilitiesOfLogLoss
from .sampled_classifier import SampledClassifier


class DPLineSearchClassifier(ProbabilitiesOfLogLoss, SampledClassifier):
    """Linear classifier by noisy gradients of random batches and a private line search: DP-BLSGD.

    Each update measures a gradient and looks for the first step, from long to short, that lowers the objective enough;
    the search costs the same however many steps it tries. Where it finds none, the gradient is measured again and more
    is paid from then on. ``sampling_rate=1.0`` is the version on all rows, DP-BLGD; ``clip_decay=0.05`` DP-BLSGD-AC.
    Columns should be on one public scale, about [0, 1], or be standardised privately (``standardize="private"``, which
    is more accurate). :class:`~dpsk.DPLogisticRegression` is more accurate still, and needs no choices.

    The budget is kept at one Renyi order that is chosen before the fit for ``splits`` updates (as rho where
    ``sampling_rate=1.0``), so that prices may adapt while the guarantee stays fixed.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "huber_hinge"}
        Logistic loss (softmax for several classes), the hinge, or the hinge with a rounded corner (one-vs-rest).

    References
    ----------
    Chen & Lee (2020), Stochastic adaptive line search for differentially private optimization.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from dpsk import DPLineSearchClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPLineSearchClassifier(epsilon=3.0).fit(MinMaxScaler().fit_transform(X), y)
    >>> model.privacy_spent_.epsilon
    3.0
    """

    alpha: float = number(1e-3)
    loss: str = choice("log_loss", *LOSSES)
    search: str = "armijo-svt"
    noise: str = "laplace"
    gains: str = "per-unit"
    splits: float = 200
    first_price: str = "even"
    search_share: float = 0.5
    gradient_clip: float = 1.5
    loss_clip: float = 3.0
    step_max: float = 3.0
    shrink: float = 0.8
    candidates: int = 15
    sufficient: float = 0.5
    adapt_every: int = 10
    growth: float = 1.2
    increase: str = "auto"
    increase_by: float = 0.3
    clip_decay: float = 0.0
    fallback: bool = False

    _described_by = (LineSearch,)

    def _plan(self, facts: Facts | Unknown) -> Plan:
        encoding = with_parameters_of(self, LinearEncoding, row_major=True)
        solver = with_parameters_of(self, LineSearch, sampling=self._sampled())
        if self.fallback:
            require_stable_steps("the shortest step", solver.shortest, self.alpha)
        objective = Linear(LossNamed(self.loss), l2_of(self))
        return Plan(solver, objective, encoding, self._sampled_budget(solver, ZCDP()))
