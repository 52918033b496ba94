"""Output perturbation as scikit-learn classifiers: logistic regression and linear support vector machine."""

from ..data import Facts, Unknown
from ..requirements import choice
from ..solvers.exponential import ExponentialSampling
from .budgets import is_exact
from .output_perturbed import OutputPerturbed
from .plan import Plan
from .probabilities import OneVsRestProbabilities


class OutputPerturbationLogisticRegression(OneVsRestProbabilities, OutputPerturbed):
    """Logistic regression by output perturbation: the exact model of a regularised problem, and noise.

    Pure epsilon-differential privacy by default. Lowy & Razaviyayn (2021) and Chaudhuri, Monteleoni & Sarwate (2011),
    with a sure certificate that the minimum is reached, with losses flattened where a row's gradient would exceed a
    clip, and with exact Gaussian noise where delta > 0. Several classes are one-vs-rest, on one budget.

    Columns should be on one public scale and rows about as long as ``data_norm``, or use ``standardize="private"``, or
    ``bounds``. By default longer rows are scaled down to norm 1, which leaves little beside the largest column: on raw
    columns such as age and income the model may be no better than the majority, and nothing says so.

    Parameters
    ----------
    mechanism : {"noise", "exponential", "localization"}
        How the minimum is made private. "noise" is output perturbation. "exponential" draws weights instead, with
        probabilities that fall exponentially with the loss (their Algorithm 9, after Bassily, Smith & Thakurta 2014):
        exactly, for two classes, ``delta=0`` and a few columns; it refuses what could take more than 100,000 proposals.
        "localization" spends half of the budget on a ball to draw from (Algorithm 11), and can do more columns. How
        long a draw takes depends on the data. ``alpha="auto"`` is then the least penalty that keeps the minimum within
        ``radius``, or, without one, where the margin of the longest row is 10; ``gradient_clip`` does not apply.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import OutputPerturbationLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OutputPerturbationLogisticRegression(epsilon=4.0, standardize="private").fit(X, y)
    >>> model.privacy_spent_.delta
    0.0
    """

    mechanism: str = choice("noise", "noise", "exponential", "localization")

    def _plan(self, facts: Facts | Unknown) -> Plan:
        plan = super()._plan(facts)
        if self.mechanism == "noise" or plan.budget is None:
            return plan
        for name, value, only in (
            ("delta", self.delta, 0),
            ("objective", self.objective, "erm"),
            ("gradient_clip", self.gradient_clip, None),
            ("radius", None if self._automatic else self.radius, None),
        ):
            if value != only:
                beside = " beside a number for alpha" if name == "radius" else ""
                raise ValueError(
                    f"mechanism={self.mechanism!r} cannot be combined with {name}={value!r}{beside}: it is built for "
                    f"{name}={only!r}. Use that, or mechanism='noise'"
                )
        localized = self.mechanism == "localization"
        solver = ExponentialSampling(localized, self._automatic, self.radius, self._encoding()[1])
        return Plan(solver, plan.objective, plan.encoding, plan.budget)


class OutputPerturbationSVC(OutputPerturbed):
    """Linear support vector machine by output perturbation: the exact model, and noise.

    Pure epsilon-differential privacy by default. Otherwise as :class:`~dpsk.OutputPerturbationLogisticRegression`,
    also in what it wants of columns: one public scale, ``standardize="private"`` or ``bounds``.

    Parameters
    ----------
    loss : {"huber_hinge", "squared_hinge", "hinge"}
        The hinge with its corner rounded, the squared hinge (its slope at the minimum is bounded, because the minimum
        cannot be far away, and by the clip), or the hinge, whose minimum is certified by a duality gap. That can take
        minutes where the others take a second, above all on standardised columns.
    """

    loss: str = choice("huber_hinge", "huber_hinge", "squared_hinge", "hinge")

    def _plan(self, facts: Facts | Unknown) -> Plan:
        if self.loss == "hinge" and is_exact(self):
            raise ValueError("epsilon=inf with loss='hinge': the exact model is for smooth losses; use 'huber_hinge'")
        if self.loss == "hinge" and self.objective != "erm":
            raise ValueError(
                f"objective={self.objective!r} with loss='hinge': it is built for smooth losses; use 'huber_hinge'"
            )
        return super()._plan(facts)

    @property
    def _loss(self) -> str:  # type: ignore[override]
        return self.loss
