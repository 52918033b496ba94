"""Private search for hyper-parameters: the best of a secret number of runs, on one budget."""

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from ..data import Door
from ..data.labels import known_classes
from ..data.persons import Persons
from ..estimators.classifier import PrivateClassifier, accounted
from ..estimators.constructor import InOwnWords, in_own_words, refuse_unsupported
from ..estimators.exported import Exported
from ..estimators.grouping import require_two
from ..estimators.opening import open_table
from ..estimators.plan import doubts, plan_of
from ..estimators.validation import checked_labels, validated
from ..mechanisms import Bits, bits_for
from ..mechanisms.repetitions import repetitions
from ..mechanisms.samplers import Integers, permutation
from ..pipelines import check_pipeline
from ..pipelines.in_front import lot
from ..privacy import Budget
from ..privacy.durable.store import set_aside, without_path
from ..privacy.repetition import BestOf, Law, TruncatedNegativeBinomial
from ..privacy.report import warn_not_private
from ..privacy.units import ROW, several, unit_of
from ..requirements import require_part
from .private_step import private_step
from .runs import Outcome, Run, Space, budget_with, fit_in_front, require_free, smallest
from .voters import FindPersons, Voters


class NothingSelected(RuntimeError):
    """A private search has no result: there was no run, or the best run had no model. Its budget is spent."""


def _best_has(method: str) -> Any:
    def check(self: Any) -> bool:
        getattr(getattr(self, "best_estimator_", self.estimator), method)
        return True

    return available_if(check)


@dataclass(eq=False, repr=False)
class PrivateSearchCV(InOwnWords, Exported, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Randomized search over hyper-parameters, all of it within one (epsilon, delta).

    A secret random number of times, parameters are drawn, a model with them is fitted on a part of the rows, and its
    accuracy on the others is measured with noise. Only the best comes out. That costs far less than to pay for every
    fit: at epsilon = 1 in all and 20 runs on average each has 0.58 at the same delta, where 20 that are all paid have
    0.20. :meth:`run_budget` returns the budget of a run.

    Try the default of :class:`~dpsk.DPLogisticRegression` first: with the whole epsilon and all rows it is usually as
    good as anything that a search finds (docs/tuning.md, with numbers).

    Parameters
    ----------
    estimator : classifier of dpsk, or a pipeline that ends in one
        Its ``epsilon``, ``delta`` and ``verbose`` are not used, since the search sets them. Steps in front of it have
        to treat each row by itself; a row that they refuse becomes a row of zeros, and nobody hears of it. With a
        ``group_column``, or with ``groups`` in ``fit``, the search protects persons: a run is fitted on all rows of
        some of them, and each of the others has one vote on its score.
    param_distributions : dict, or list of dicts
        Names of parameters with lists, drawn from uniformly, or distributions with ``rvs``, such as those of
        ``scipy.stats``. Draws are independent, with replacement. Of several dicts one is drawn first.
    epsilon, delta : float, default=1.0 and 1e-6
        The privacy guarantee of the whole search, scores and chosen parameters included. Choose delta well below
        1/n_samples.
    n_iter_distribution : TruncatedNegativeBinomial, Poisson or None, default=None
        How often to try, a law of :mod:`dpsk.model_selection`. None: ``TruncatedNegativeBinomial(eta=1, gamma=0.05)``,
        20 runs on average. A fixed number is not possible: the price is this low because the number is secret.
    validation_fraction : float, default=0.2
        The part of the rows, or of the persons, chosen by lot, that scores are measured on. The best model has not seen
        them: fitting it again on all rows would cost its whole price once more.
    n_jobs : int or None, default=None
        How many runs at a time, as in scikit-learn.
    ledger : PrivacyLedger, path or None, default=None
        One budget for everything that is done with the same data (:class:`~dpsk.PrivacyLedger`), or the path of its
        file. The whole search is one entry there, set aside before the data are touched. The ledger has to be kept in
        (epsilon, delta), ``currency="basic"``.
    random_state : int or None, default=None
        None: secure randomness from the operating system. An int makes the search reproducible and NOT private.

    Attributes
    ----------
    best_estimator_ : estimator
        The best model. Its ``privacy_spent_`` is that of the search; its parameters ``epsilon`` and ``delta`` say what
        its own fit was given.
    best_params_ : dict
        The parameters that were drawn for it.
    best_score_ : float
        Its noisy accuracy on the rows held out. As the best of several it is too good on average: for a score to report
        pay for one on other rows (:func:`~dpsk.private_score`).
    privacy_spent_ : PrivacySpent
        The guarantee of everything that the fit released, fixed before it.
    classes_, n_features_in_, feature_names_in_ :
        Those of the best model.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 11.4)
    (epsilon, delta)-differential privacy for each row of X and y, or for each person with all rows, and for every
    outcome of ``fit``: the attributes above, or :class:`~dpsk.model_selection.NothingSelected`. Not covered is the time
    that ``fit`` takes, which tells about the number of runs. Steps of a pipeline that print, log or write files would
    count the runs too; ``verbose``, callbacks and ``memory`` are switched off.

    References
    ----------
    Liu & Talwar (2019), Private selection from private candidates. Papernot & Steinke (2022), Hyperparameter tuning
    with Renyi differential privacy. Koskela, Redberg & Wang (2024), Privacy profiles for private selection.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import DPGradientDescentClassifier, PrivateSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> space = {"alpha": loguniform(1e-4, 1e-1), "loss": ["log_loss", "huber_hinge"]}
    >>> search = PrivateSearchCV(DPGradientDescentClassifier(), space, epsilon=4.0).fit(X, y)
    >>> sorted(search.best_params_)
    ['alpha', 'loss']
    >>> search.privacy_spent_.epsilon
    4.0
    """

    estimator: Any
    param_distributions: Any
    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    n_iter_distribution: Law | None = None
    validation_fraction: float = 0.2
    n_jobs: int | None = None
    ledger: Any = None
    random_state: int | None = None

    def run_budget(self) -> Budget:
        """Return the budget of the fit in one run of the estimator as it was given: public, before any data."""
        run, *_ = self._planned()
        _, last = run.model({})
        run.calibrated(last, smallest(run.unit))
        return budget_with(last, smallest(run.unit), last.epsilon, last.delta)

    def budget_of_fit(self) -> Budget:
        """Return the budget of the whole search: public, before any data."""
        return self._planned()[1]

    def _law(self) -> Law:
        law = TruncatedNegativeBinomial() if self.n_iter_distribution is None else self.n_iter_distribution
        if not isinstance(law, Law):
            raise ValueError(
                f"n_iter_distribution={law!r} must be None, a TruncatedNegativeBinomial or a Poisson distribution of "
                "dpsk.model_selection: if their number were not random and secret, every run would have to be paid"
            )
        return law

    def _planned(self, *, grouped: bool = False) -> tuple[Run, Budget, Space]:
        """Return the runs, the budget of the search and the space; raise ValueError for a bad parameter."""
        law = self._law()
        last: PrivateClassifier = clone(private_step(self.estimator))
        unit = unit_of(last.group_column, grouped=grouped)
        require_part("validation_fraction", self.validation_fraction, whole=False)
        jobs: Any = self.n_jobs
        if jobs is not None and (not isinstance(jobs, Integral) or jobs == 0):
            raise ValueError(f"n_jobs={jobs!r} must be None or an integer other than 0; -1 is all processors")
        space = Space.of(self.param_distributions, self.estimator)
        require_free(last, last.adjacency)
        budget = BestOf.budget(law, self.epsilon, self.delta, partial(budget_with, last, smallest(unit)))
        search: Any = budget.currency
        start = law.start(search.bounds, budget.epsilon, budget.delta)
        run = Run(self.estimator, search, start, last.adjacency, bits_for(self.random_state).private, unit, lot())
        for parameters in [{}, *space.probes()]:
            run.check(parameters)
        return run, budget, space

    def fit(self, X: Any, y: Any = None, groups: Any = None, **unsupported: Any) -> Self:
        """Search, and keep the best model.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_samples, n_features)
            Training data, as the estimator takes them.
        y : array-like of shape (n_samples,)
            Class labels. Their set is treated as public; give the estimator ``classes`` to fix it beforehand.
        groups : array-like of shape (n_samples,), or None
            Whose row it is: equal entries are one person, and so are all missing ones. An estimator with a
            ``group_column`` needs none.
        **unsupported
            Anything else, ``sample_weight`` included, is refused with a reason unless it is None.

        Returns
        -------
        self
            The fitted search.

        Raises
        ------
        NothingSelected
            Where no run was made, as ``Poisson`` allows, or the best run has no model. This outcome is private, and
            paid for like any other: ``privacy_spent_`` says so.
        """
        if unsupported.pop("sample_weight", None) is not None:
            raise TypeError(
                "sample_weight cannot be given to a search, whose scores count all rows, or all persons, alike. Search "
                "without weights, give the estimator a class_weight, or fit the estimator alone with sample_weight"
            )
        refuse_unsupported(unsupported)
        run, budget, space = self._planned(grouped=groups is not None)
        bits = bits_for(self.random_state)
        promise: Any = {"label": type(self).__name__, "adjacency": run.adjacency, "private": bits.private}
        promise["unit"] = run.unit
        warn_not_private(noisy=True, seeded=not bits.private, stacklevel=2)
        with accounted(self) as account, set_aside(self.ledger, budget, **promise, asked=self) as ledger:
            account.door = door = Door(ledger, bits, run.adjacency)
            X, persons_of = Voters(private_step(self.estimator).group_column, groups).apart(X)
            X, y, classes, persons = self._validated(run, budget, space, X, y, persons_of)
            shares = self._shares(len(y), persons, run.unit, bits)
            ledger.charge(run.search.cost, "best of a secret number of runs")
            best = self._best(run, space, bits, X, y, classes, shares, persons)
            if best is None:
                raise NothingSelected(
                    "the search came to nothing: no run was made, or none had a model; which of the two is not told. "
                    "It was paid for (privacy_spent_), and another search would add to it"
                )
            columns = private_step(best.model).privacy_spent_.columns
            counts: Any = {"n_rows": len(y), "n_units": None if persons is None else persons.n}
            self.privacy_spent_ = replace(door.report(), columns=columns, **counts)
        # what the run promised for itself is no guarantee for a model that was chosen from several
        private_step(best.model).privacy_spent_ = self.privacy_spent_
        self.best_estimator_, self.best_params_, self.best_score_ = best.model, best.parameters, best.accuracy
        return self

    def _best(self, run: Run, space: Space, bits: Bits, *data: Any) -> Outcome | None:
        """Return the best outcome. Only this method knows how many there were."""

        def seed() -> int | None:
            return None if bits.private else int.from_bytes(bits.take(8), "little")

        tasks = [(space.draw(bits), (seed(), seed())) for _ in range(repetitions(run.search.law, bits))]
        best: Outcome | None = None
        with warnings.catch_warnings(record=True):
            # a run silences itself, but filters belong to all threads: one may take back what another has set
            warnings.simplefilter("ignore")
            outcomes = Parallel(n_jobs=self.n_jobs, return_as="generator", verbose=0)(
                delayed(run)(parameters, seeds, *data) for parameters, seeds in tasks
            )
            for outcome in outcomes:  # the first of equals: as good as a lot, since runs are alike
                if outcome is not None and (best is None or outcome.score > best.score):
                    best = outcome
        return best

    def _validated(
        self, run: Run, budget: Budget, space: Space, X: Any, y: Any, persons_of: FindPersons
    ) -> tuple[Any, Any, Any, Persons | None]:
        """Return rows, labels, classes and persons, checked as a fit would check them; steps are tried on all rows.

        Errors and warnings are shown here, once. Those of runs would reveal the number of runs.
        """
        if y is None:
            raise ValueError(f"This {type(self).__name__} requires y to be passed, but the target y is None")
        model, last = run.model({})
        if last.columns is not None and not hasattr(X, "shape"):
            raise ValueError(
                f"X is a {type(X).__name__}, whose columns have no types: give a search of {type(last).__name__} a "
                "DataFrame or an array"
            )
        X, y = (given if given is None or hasattr(given, "shape") else np.asarray(given) for given in (X, y))
        shown = X
        if model is not last and X is not None:
            check_consistent_length(X, y)
            shown = fit_in_front(model, X, y, run.seed)
        if last.columns is None:
            checked, y = validated(last, shown, y)
        else:
            checked, y = X, checked_labels(y)
            open_table(last, shown, y, last)  # or its error
        classes = known_classes(np.unique(y), last.classes)
        persons = persons_of(len(y))
        if persons is not None:
            require_two(persons, run.unit)
        run.calibrated(last, smallest(run.unit))
        facts = run.facts(last, shown, len(classes), persons)
        fitted = facts.n_rows - self._n_held(facts.n_rows, run.unit)
        run.require(space, replace(facts, n_rows=fitted), classes)
        told = doubts(plan_of(last, facts), facts, adjacency=run.adjacency, delta=budget.delta)
        for doubt in (*_doubts_about_steps(run, space), *told):
            warnings.warn(doubt, UserWarning, stacklevel=3)
        return checked if model is last and not hasattr(X, "iloc") else X, y, classes, persons

    def _shares(self, n_rows: int, persons: Persons | None, unit: str, bits: Bits) -> tuple[Integers, Integers]:
        """Return which rows are for fits and which for scores: whole units, drawn without regard to their rows."""
        n = n_rows if persons is None else persons.n
        held, order = self._n_held(n, unit), permutation(n, bits)
        to_fit, to_score = np.sort(order[held:]), np.sort(order[:held])
        return (to_fit, to_score) if persons is None else (persons.rows_of(to_fit), persons.rows_of(to_score))

    def _n_held(self, n: int, unit: str) -> int:
        """Return how many of n units are held out; raise ValueError if too few are left."""
        held = max(1, round(self.validation_fraction * n))
        if n - held < 2:
            units = several(unit)
            what = f"n_samples={n} leaves" if unit == ROW else f"X has rows of {n} {units}, which leaves"
            raise ValueError(f"{what} fewer than 2 {units} to fit: a search needs at least 3 {units}")
        return held

    # ------------------------------------------------------------------------------------------- the best model

    @property
    def classes_(self) -> Any:
        """The class labels."""
        return self._fitted().classes_

    @property
    def n_features_in_(self) -> Any:
        """The number of columns seen in ``fit``."""
        return self._fitted().n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        """The names of the columns seen in ``fit``, if they had any."""
        return self._fitted().feature_names_in_

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without an absolute path."""
        return without_path(super().__getstate__())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")  # a report alone is what a search leaves that came to nothing

    def _fitted(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def predict(self, X: Any) -> Any:
        """Return the labels that the best model predicts."""
        return self._fitted().predict(X)

    @_best_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the best model."""
        return self._fitted().predict_proba(X)

    @_best_has("predict_log_proba")  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the probabilities of the best model."""
        return self._fitted().predict_log_proba(X)

    @_best_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the scores of the best model."""
        return self._fitted().decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.non_deterministic = self.random_state is None
        tags.classifier_tags.poor_score = True
        return tags


def _doubts_about_steps(run: Run, space: Space) -> Iterator[str]:
    """Yield what steps in front of the classifier are known to show of rows, which the search does not pay for."""
    models = [run.model(parameters)[0] for parameters in [{}, *space.probes()]]
    for one in dict.fromkeys(one for model in models for one in check_pipeline(model).refused):
        mixes = one.verdict == "mixes rows" and one.kind == "FunctionTransformer"  # others do so by their errors only
        if one.verdict == "learns" or mixes:
            yield (
                f"the step {one.name} ({one.kind}) {one.why}: the guarantee of the search does not cover that. "
                f"Instead: {one.instead}. dpsk.make_pipeline refuses such steps"
            )


PrivateSearchCV.__init__ = in_own_words(PrivateSearchCV.__init__)  # type: ignore[method-assign]
