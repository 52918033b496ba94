"""Which fits scikit-learn's ensembles, pipelines, calibrations and selections of columns make: read off their code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, StratifiedShuffleSplit, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

from ..pipelines import PrivatePipeline
from .fit_sums import All, Fits, Times
from .fits_of import Known, Notes, fits_of, folds_of, holds_private, inner, members, reads, seeded

SCORES = (
    "The scores of {0}, and every choice by them, are not included: they are un-noised facts about the held-out rows "
    "that nothing pays for. dpsk.private_score releases an accuracy that is paid for."
)

# ----------------------------------------------------------------------------------------- classes and outputs


@reads(OneVsRestClassifier)
def _one_vs_rest(estimator: Any, known: Known, notes: Notes) -> Fits:
    fit = fits_of(inner(estimator), known.binary(), notes)
    if (known.outputs or 1) > 1:  # a column that is constant gets no fit
        notes.exact = False
        return Times(fit, int(known.outputs or 1))
    least, most = known.need("classes", "OneVsRestClassifier", "the number of classes")
    notes.exact &= least == most
    return Times(fit, most if most > 2 else most - 1)


@reads(OneVsOneClassifier)
def _one_vs_one(estimator: Any, known: Known, notes: Notes) -> Fits:
    least, most = known.need("classes", "OneVsOneClassifier", "the number of classes")
    notes.exact &= least == most
    if most > 2:
        notes.leak(
            "Fits of OneVsOneClassifier see the rows of two classes. So the class of each row, and the number of rows "
            "of each class, count as public."
        )
    pairs = most * (most - 1) // 2
    return Times(fits_of(inner(estimator), known.few_rows().binary(), notes), pairs, (pairs - most + 1) * known.apart)


@reads(OutputCodeClassifier)
def _output_code(estimator: Any, known: Known, notes: Notes) -> Fits:
    _, most = known.need("classes", "OutputCodeClassifier", "the number of classes")
    notes.exact = False  # a random code may give all classes the same bit, and such a bit gets no fit
    return Times(fits_of(inner(estimator), known.binary(), notes), int(most * estimator.code_size))


@reads(MultiOutputClassifier)
def _multi_output(estimator: Any, known: Known, notes: Notes) -> Fits:
    outputs = known.need("outputs", "MultiOutputClassifier", "the number of columns of y")
    return Times(fits_of(inner(estimator), known.one_output(), notes), outputs)


@reads(ClassifierChain)
def _chain(estimator: Any, known: Known, notes: Notes) -> Fits:
    outputs = known.need("outputs", "ClassifierChain", "the number of columns of y")
    link = known.one_output()
    if known.columns is not None:
        link = link.with_columns(known.columns[0], known.columns[1] + outputs - 1)
    chain = Times(fits_of(inner(estimator), link, notes), outputs)
    if estimator.cv is None:
        return chain
    folds = folds_of(estimator.cv, link, notes, classifier=is_classifier(inner(estimator)))
    return All((chain, Times(folds.of(fits_of(inner(estimator), folds.known, notes)), outputs - 1)))


# --------------------------------------------------------------------------------------------------- ensembles


@reads(VotingClassifier)
def _voting(estimator: Any, known: Known, notes: Notes) -> Fits:
    return All([fits_of(member, known, notes) for member in members(estimator.estimators)])


@reads(StackingClassifier)
def _stacking(estimator: Any, known: Known, notes: Notes) -> Fits:
    final = LogisticRegression() if estimator.final_estimator is None else estimator.final_estimator
    several = list(members(estimator.estimators))
    made = known
    if known.columns is not None and known.classes is not None:
        scores = max(1, known.classes[1]) * len(several) * (known.outputs or 1)
        made = known.with_columns(1, scores + known.columns[1] * bool(estimator.passthrough))
    last: Fits = All()
    if holds_private(final):
        last = fits_of(final, made, notes)
    else:
        notes.leak(
            f"The final estimator of StackingClassifier, {type(final).__name__}, is not private: its weights are "
            "un-noised facts about the rows. Give it a final_estimator of dpsk."
        )
    if isinstance(estimator.cv, str):  # "prefit"
        return last
    folds = folds_of(estimator.cv, known, notes, classifier=True)
    whole = [fits_of(member, known, notes) for member in several]
    return All((*whole, folds.of(All([fits_of(member, folds.known, notes) for member in several])), last))


@reads(BaggingClassifier)
def _bagging(estimator: Any, known: Known, notes: Notes) -> Fits:
    part = replace(known.few_rows().chosen_columns(), apart=False)
    fit = fits_of(seeded(inner(estimator)), part, notes)
    if any(True for _ in fit.leaves()):
        notes.no_bound(
            "BaggingClassifier gives every member a random_state, so no noise of theirs is secret: nothing is private."
        )
    if estimator.bootstrap:
        notes.leak(
            "BaggingClassifier draws rows with replacement: a row may be in a training set several times, and then "
            "counts like a group of rows."
        )
    notes.exact &= not estimator.warm_start
    return Times(fit, estimator.n_estimators)


@reads(AdaBoostClassifier)
def _boosting(estimator: Any, known: Known, notes: Notes) -> Fits:
    fit = fits_of(seeded(inner(estimator)), replace(known, apart=False), notes)
    if any(True for _ in fit.leaves()):
        notes.no_bound(
            "AdaBoostClassifier gives every member a random_state, so no noise of theirs is secret: nothing is private."
        )
        notes.no_bound(
            "The weights that AdaBoostClassifier gives to a row depend on un-noised mistakes on all the others, which "
            "voids the guarantee of a fit with sample_weight."
        )
    notes.exact = False  # it stops early where a member makes no mistake, or too many
    return Times(fit, estimator.n_estimators)


@reads(SelfTrainingClassifier)
def _self_training(estimator: Any, known: Known, notes: Notes) -> Fits:
    rounds = estimator.max_iter
    if rounds is None:  # each round but the last labels a row
        rounds = known.need("rows", "SelfTrainingClassifier with max_iter=None", "the number of rows")[1] - 1
    fit = fits_of(inner(estimator), replace(known.few_rows(), apart=False), notes)
    if any(True for _ in fit.leaves()):
        notes.no_bound(
            "SelfTrainingClassifier decides by the un-noised prediction for a row whether and when the row is fitted: "
            "the numbers of rows in its training sets, and of its fits, are not paid for."
        )
    notes.exact = False  # it stops when no row is left, or none is sure enough
    return Times(fit, rounds + 1)


# ------------------------------------------------------------------------------- pipelines and fitted estimators


@reads(Pipeline, PrivatePipeline)
def _pipeline(estimator: Any, known: Known, notes: Notes) -> Fits:
    *front, (_, last) = estimator.steps
    for name, step in front:
        if step not in (None, "passthrough") and not hasattr(step, "transform"):
            raise ValueError(
                f"step {name!r} of the pipeline, {type(step).__name__}, has no transform: what one fit of it costs is "
                "not known"
            )
    parts, after = [], known
    for step in members(front):
        parts.append(fits_of(step, after, notes))
        after = known.chosen_columns()
    if estimator.memory is not None:
        notes.exact &= not any(True for part in parts for _ in part.leaves())  # a step that is found is not fitted
        notes.leak(
            "The cache of a Pipeline (memory=) keeps transformed rows on disk without noise; how long a fit takes, and "
            "which private steps it does not fit again, tell what was fitted before."
        )
    # steps in front may leave few columns, whatever a fit on the whole table would see
    parts += [fits_of(last, known.chosen_columns(), notes) for last in members([("last", last)])]
    return All(parts)


@reads(FeatureUnion)
def _union(estimator: Any, known: Known, notes: Notes) -> Fits:
    return All([fits_of(member, known, notes) for member in members(estimator.transformer_list)])


@reads(ColumnTransformer)
def _column_transformer(estimator: Any, known: Known, notes: Notes) -> Fits:
    notes.exact = False  # a transformer whose columns are none is not fitted
    parts = [*estimator.transformers, ("remainder", estimator.remainder)]
    return All([fits_of(member, known.chosen_columns(), notes) for member in members(parts)])


@reads(FrozenEstimator)
def _frozen(estimator: Any, known: Known, notes: Notes) -> Fits:
    return All()


# ------------------------------------------------------------------------------- probabilities and thresholds


@reads(CalibratedClassifierCV)
def _calibrated(estimator: Any, known: Known, notes: Notes) -> Fits:
    model, together = inner(estimator), estimator.ensemble
    notes.leak(
        "The calibration of CalibratedClassifierCV is not included: it is fitted to labels and scores of rows without "
        "noise. dpsk.PrivateCalibration takes its place."
    )
    if isinstance(estimator.cv, str):  # "prefit", of earlier versions
        return All()
    folds = folds_of(estimator.cv, known, notes, classifier=True)
    parts = [folds.of(fits_of(model, folds.known, notes))]
    if together is False or (together == "auto" and isinstance(model, FrozenEstimator)):
        parts.append(fits_of(model, known, notes))
    return All(parts)


@reads(TunedThresholdClassifierCV)
def _tuned(estimator: Any, known: Known, notes: Notes) -> Fits:
    model, cv = inner(estimator), estimator.cv
    notes.leak(
        "The threshold of TunedThresholdClassifierCV, and its scores, are not included: they are un-noised facts about "
        "held-out rows. dpsk.PrivateThreshold takes its place."
    )
    if isinstance(cv, str):  # "prefit"
        return All()
    if isinstance(cv, float) and 0 < cv < 1:
        cv = StratifiedShuffleSplit(n_splits=1, test_size=cv)
    folds = folds_of(cv, known, notes, classifier=True)
    # one more is fitted that is kept: on all rows, or (refit=False) on the one training set again
    return All((folds.of(fits_of(model, folds.known, notes)), fits_of(model, known.few_rows(), notes)))


@reads(FixedThresholdClassifier)
def _fixed(estimator: Any, known: Known, notes: Notes) -> Fits:
    return fits_of(inner(estimator), known, notes)


# ------------------------------------------------------------------------------------------ selection of columns


def _longest(columns: tuple[int, int], notes: Notes, count: Callable[[int], int]) -> int:
    """Return the largest number of fits that data with so many columns may need."""
    notes.exact &= columns[0] == columns[1]
    return max(count(n) for n in range(columns[0], columns[1] + 1))


def _kept(asked: Any, columns: int) -> int:
    """Return how many columns RFE keeps."""
    if asked is None:
        return columns // 2
    return int(asked) if isinstance(asked, Integral) else int(columns * asked)


def _eliminations(columns: int, keep: int, step: Any) -> int:
    """Return how many fits RFE makes: one before each elimination, and one at the end."""
    at_once = int(max(1, step * columns)) if 0.0 < step < 1.0 else int(step)
    return -(-max(0, columns - keep) // at_once) + 1


@reads(RFE)
def _rfe(estimator: Any, known: Known, notes: Notes) -> Fits:
    def count(n: int) -> int:
        return _eliminations(n, _kept(estimator.n_features_to_select, n), estimator.step)

    times = _longest(known.need("columns", "RFE", "the number of columns"), notes, count)
    return Times(fits_of(inner(estimator), known.chosen_columns(), notes), times)


@reads(RFECV)
def _rfecv(estimator: Any, known: Known, notes: Notes) -> Fits:
    def count(n: int) -> int:
        return _eliminations(n, min(estimator.min_features_to_select, n), estimator.step)

    model = inner(estimator)
    times = _longest(known.need("columns", "RFECV", "the number of columns"), notes, count)
    notes.leak(SCORES.format("RFECV"))
    notes.exact &= times == 1  # scores decide where the last elimination ends
    folds = folds_of(estimator.cv, known, notes, classifier=is_classifier(model))
    on_folds = folds.of(Times(fits_of(model, folds.known.chosen_columns(), notes), times))
    return All((on_folds, Times(fits_of(model, known.chosen_columns(), notes), times + 1)))


@reads(SelectFromModel)
def _from_model(estimator: Any, known: Known, notes: Notes) -> Fits:
    if callable(estimator.max_features):
        notes.leak("max_features of SelectFromModel is a function of X: what it returns is not paid for.")
    return All() if estimator.prefit else fits_of(inner(estimator), known, notes)


@reads(SequentialFeatureSelector)
def _sequential(estimator: Any, known: Known, notes: Notes) -> Fits:
    asked, auto = estimator.n_features_to_select, isinstance(estimator.n_features_to_select, str)

    def count(n: int) -> int:
        if auto:
            kept = n // 2 if estimator.tol is None else n - 1
        else:
            kept = int(asked) if isinstance(asked, Integral) else int(n * asked)
        rounds = kept if auto or estimator.direction == "forward" else n - kept
        return sum(n - done for done in range(rounds))

    model = inner(estimator)
    times = _longest(known.need("columns", "SequentialFeatureSelector", "the number of columns"), notes, count)
    notes.leak(SCORES.format("SequentialFeatureSelector"))
    notes.exact &= not (auto and estimator.tol is not None)  # it stops where scores do not improve
    folds = folds_of(estimator.cv, known, notes, classifier=is_classifier(model))
    return Times(folds.of(fits_of(model, folds.known.chosen_columns(), notes)), times)
