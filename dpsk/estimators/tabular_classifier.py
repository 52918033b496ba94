"""The estimator for raw tables: strings, numbers, dates and missing entries as they are."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..data import Facts, Unknown, require_columns
from ..encodings.tabular import TabularEncoding, currency_for
from ..objectives import Linear
from ..privacy import Budget, GaussianDP, PureDP
from ..requirements import checked
from ..solvers.gradient_descent import GradientDescent
from ..solvers.output_perturbation import OutputPerturbation
from ..solvers.shrunk import Shrunk
from .effects import Effects, effects_of
from .linear_classifier import LinearClassifier
from .plan import Plan, l2_of, with_parameters_of
from .probabilities import LossNamed, Probabilities

REACH = 0.5  # of the descent, beside that for tables of numbers: hats overlap, and steps along their sums are long
TRACED = 60  # parts of the descent, from which the noise in its result is judged


class DPTabularClassifier(Probabilities, LinearClassifier):
    """Differentially private classifier for raw tables: text, numbers, dates and missing entries as they are.

    The model is a sum of curves, one for each column of numbers, and of bars, one for each category: ``effects_`` has
    them, and :class:`~dpsk.EffectsDisplay` draws them. ``interactions`` add a further part, which these do not show.
    Where numbers lie, which categories there are and how often, is found with noise within the budget of the fit.
    Nothing has to be tuned.

    Parameters
    ----------
    epsilon, delta : float
        The privacy guarantee of the fit. Choose delta well below 1/n_samples. ``delta=0`` takes two classes, and public
        lists or hashing for all categories; the model is then the exact minimum with noise (output perturbation).
    alpha : float
        Strength of the L2 penalty on the mean loss: the objective is mean(loss) + alpha/2 * ||coef||^2, in the units
        that are fitted. At ``delta=0`` theorems of Lowy & Razaviyayn (2021) choose it.
    columns : "auto" or dict
        The kinds of columns by name: :class:`~dpsk.Number`, :class:`~dpsk.Categories`, :class:`~dpsk.Text`,
        :class:`~dpsk.Date`, or None to leave a column out. "auto", also as a value of the dict: what the type of the
        column says. Numbers are numbers, text is categories that are discovered, and the types of columns count as
        public. Public bounds and public lists of categories save budget.
    interactions : {None, "fourier"}
        "fourier" adds cosines and sines of random sums of two or three columns with curves (Rahimi & Recht 2007). They
        follow what such columns do together, which a sum of curves cannot. No part of the budget is for them alone, but
        their weights carry noise: where columns do nothing together, a fit may be slightly worse. ``effects_`` shows
        curves and bars only. Curves are then not main effects, since interactions contain functions of single columns.
        There are none where there are too few rows for the budget, fewer than two columns with curves, or more of them
        than pairs of a cosine and a sine (100 to 300). Then the fit warns, and is the one without, bit for bit.
    features_seed : int
        The seed of their frequencies, which are public: it has nothing to do with ``random_state``. Without
        effect where there are none.

    Attributes
    ----------
    encoder_ : TabularEncoder
        The released map of columns to features, a transformer of its own. ``coef_`` has one column per feature, in the
        order of ``encoder_.get_feature_names_out()``.
    effects_ : Effects
        The curves and bars of which the model is the sum, by the names of the fields: each is an
        :class:`~dpsk.estimators.Effect`. With interactions they are a part of the score; how large the other part is,
        ``effects_.interactions`` estimates. Computed from released values when it is asked for.
    descent_noise_ : DescentNoise
        What the noise in the weights follows from, for the bands of ``effects_``. Missing if a callback ended the fit.
    waves_ : Waves or None
        The public map of features to interactions. Their coefficients are the last ``waves_.n_columns`` columns of
        ``coef_``. None where there are none.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpsk import DPTabularClassifier
    >>> frame = pd.DataFrame({"age": list(range(20, 70)) * 40, "job": ["nurse", "cook", None, "clerk"] * 500})
    >>> model = DPTabularClassifier(epsilon=4.0).fit(frame, (frame.age > 50) & (frame.job != "cook"))
    >>> model.predict(frame).shape
    (2000,)
    """

    columns: Any = checked("auto", require_columns)  # type: ignore[misc]
    interactions: str | None = None
    features_seed: int = 0

    @property
    def effects_(self) -> Effects:
        """The curves and bars of which the model is the sum, interactions aside, by the names of the fields."""
        check_is_fitted(self, "encoder_")
        return effects_of(self)

    def _plan(self, facts: Facts | Unknown) -> Plan:
        encoding = with_parameters_of(self, TabularEncoding)
        objective = Linear(LossNamed("log_loss"), l2_of(self))
        pure = self.delta == 0
        # or its error, before the facts of the data are asked for
        Budget.of(self.epsilon, self.delta, currency=PureDP() if pure else GaussianDP())
        descent = GradientDescent(reach=REACH, traced=TRACED)
        solver = self._without_delta(facts) if pure else Shrunk(descent)
        currency = currency_for(facts, float(self.epsilon), float(self.delta), self.adjacency)
        return Plan(solver, objective, encoding, Budget.of(self.epsilon, self.delta, currency=currency))

    def _without_delta(self, facts: Facts | Unknown) -> OutputPerturbation:
        """Return the solver for delta = 0; raise ValueError for what it is not made for."""
        if self.alpha != type(self).alpha:
            raise ValueError(f"alpha={self.alpha!r} has no effect at delta=0, where theorems choose it: leave it out")
        if facts.n_classes > 2:
            raise ValueError(
                f"delta=0 is for two classes, but there are {facts.n_classes}: give a delta such as 1e-6, or fit "
                "OutputPerturbationLogisticRegression behind public encodings"
            )
        return OutputPerturbation(target="empirical")
