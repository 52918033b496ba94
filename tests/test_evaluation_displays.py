"""Pictures of a private evaluation show its numbers: marks, bands, boxes, counts, and what they are worth."""

import builtins

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from sklearn.linear_model import RidgeClassifier

from dpsk import (
    DPLogisticRegression,
    PrivateCalibrationDisplay,
    PrivateConfusionMatrixDisplay,
    PrivatePrecisionRecallDisplay,
    PrivateRocCurveDisplay,
    private_evaluation,
)
from dpsk.evaluation.displays import STYLES, _hull

CURVES = [PrivateRocCurveDisplay, PrivatePrecisionRecallDisplay]
OF_PROBABILITIES = [*CURVES, PrivateCalibrationDisplay]
ALL = [*OF_PROBABILITIES, PrivateConfusionMatrixDisplay]


def rows(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, -1.0, 0.5] + rng.logistic(size=n)


@pytest.fixture(scope="module")
def model():
    X, score = rows()
    return DPLogisticRegression(epsilon=8.0, random_state=0).fit(X, np.where(score > 1.5, "ill", "fine"))


@pytest.fixture(scope="module")
def evaluation(model):
    X, score = rows(seed=1)
    return private_evaluation(model, X, np.where(score > 1.5, "ill", "fine"), epsilon=1.0, random_state=0)


@pytest.fixture(scope="module")
def of_three():
    X, score = rows()
    y = np.array(["a", "b", "c"])[np.digitize(score, [-1, 1])]
    return private_evaluation(DPLogisticRegression(epsilon=8.0, random_state=0).fit(X, y), X, y, epsilon=1.0)


@pytest.fixture(autouse=True)
def figures():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield pyplot
    pyplot.close("all")


def told(display):
    (text,) = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    return text.split("\n")


def curve_of(display):
    (line,) = [line for line in display.ax_.lines if not line.get_label().startswith("_")]
    return line.get_xydata()


def test_the_roc_curve_has_its_marks_and_says_what_they_are_worth(evaluation):
    display, curve = PrivateRocCurveDisplay.from_evaluation(evaluation, name="the model"), evaluation.roc_curve()
    np.testing.assert_array_equal(curve_of(display), np.column_stack([curve.fpr, curve.tpr]))
    expected = ["the model", f"AUC {evaluation.auc}", "3,000 rows, NOT PRIVATE (seeded), 95 % band"]
    assert told(display) == expected
    assert display.ax_.get_xlabel() == "false positive rate"
    assert display.ax_.get_ylabel() == "true positive rate (recall of class ill)"


def test_precision_over_recall_stands_beside_the_part_of_the_positive_class(evaluation):
    display, curve = PrivatePrecisionRecallDisplay.from_evaluation(evaluation), evaluation.precision_recall_curve()
    np.testing.assert_array_equal(curve_of(display), np.column_stack([curve.recall, curve.precision]))
    assert told(display)[0] == f"average precision {evaluation.average_precision}"
    assert display.ax_.get_xlabel() == "recall of class ill"
    assert display.ax_.lines[0].get_ydata() == pytest.approx([evaluation.base_rate.value] * 2)


@pytest.mark.parametrize("kind", CURVES)
def test_the_band_covers_the_box_of_every_mark_and_little_else(kind, evaluation):
    display = kind.from_evaluation(evaluation)
    curve, (band,) = display.curve, display.ax_.patches
    roc = kind is PrivateRocCurveDisplay
    x, y = (curve.fpr_band, curve.tpr_band) if roc else (curve.recall_band, curve.precision_band)
    corners = np.array([(x[k, i], y[k, j]) for k in range(len(x)) for i in (0, 1) for j in (0, 1)])
    pieces = [path for path in band.get_path().to_polygons(closed_only=True) if len(path) > 2]
    inside = np.any([[_within(point, piece) for point in corners] for piece in pieces], axis=0)
    assert inside.all()
    shown = band.get_path().get_extents()
    assert (shown.x0, shown.x1, shown.y0, shown.y1) == (x.min(), x.max(), y.min(), y.max())


def _within(point, polygon):
    """Whether a point lies to the left of all sides, or on them."""
    sides = np.diff(np.vstack([polygon, polygon[:1]]), axis=0)
    away = point - polygon
    return (sides[:, 0] * away[:, 1] - sides[:, 1] * away[:, 0] >= -1e-9).all()


def test_the_hull_of_two_boxes_is_convex_and_as_small_as_it_can_be():
    rng = np.random.default_rng(0)
    for _ in range(200):
        left, low = np.sort(rng.random(2)), rng.random(2)
        right, high = np.sort(left + rng.random(2)), low + rng.random(2)
        boxes = np.column_stack([left, right, low, high])
        corners = [(box[i], box[j]) for box in boxes for i in (0, 1) for j in (2, 3)]
        hull = _hull(*boxes)
        x, y = hull.T
        area = (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2
        assert area == pytest.approx(ConvexHull(corners).volume)
        assert all(_within(np.array(corner), hull) for corner in corners)


def test_boxes_of_a_calibration_are_bins_and_bands(evaluation):
    display, curve = PrivateCalibrationDisplay.from_evaluation(evaluation), evaluation.calibration_curve()
    found = np.array([[bar.get_x(), bar.get_width(), bar.get_y(), bar.get_height()] for bar in display.ax_.patches])
    ends = np.concatenate([[0.0], curve.edges, [1.0]])
    expected = np.column_stack([ends[:-1], np.diff(ends), curve.band[:, 0], np.diff(curve.band)[:, 0]])
    np.testing.assert_allclose(found, expected)
    (marks,) = display.ax_.collections
    np.testing.assert_array_equal(marks.get_offsets(), np.column_stack([curve.predicted, curve.observed]))
    np.testing.assert_allclose(marks.get_sizes() / marks.get_sizes().sum(), curve.counts / curve.counts.sum())
    assert told(display)[0] == f"ECE {evaluation.ece}"
    assert display.ax_.get_xlabel() == "mean probability of class ill"


def test_a_calibration_in_log_odds_shows_all_boxes(evaluation):
    display = PrivateCalibrationDisplay.from_evaluation(evaluation, log_odds=True)
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "logit"
    (least, most), (low, high) = display.ax_.get_xlim(), display.ax_.get_ylim()
    for bar in display.ax_.patches:
        assert least <= bar.get_x() < bar.get_x() + bar.get_width() <= most + 1e-12
        assert low <= bar.get_y() < bar.get_y() + bar.get_height() <= high + 1e-12
    display.figure_.canvas.draw()


def texts(display):
    return [text.get_text() for text in display.ax_.texts]


@pytest.mark.parametrize("threshold", [None, 0.1])
def test_a_confusion_matrix_shows_counts_with_their_intervals(evaluation, threshold):
    display = PrivateConfusionMatrixDisplay.from_evaluation(evaluation, threshold=threshold)
    matrix = evaluation.confusion_matrix(threshold)
    low, high = matrix.interval_on_rows[1, 0]
    assert texts(display)[2] == f"{matrix.counts[1, 0]:,.0f}\n({low:,.0f} to {high:,.0f})"
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["fine", "ill"]
    lines = [] if threshold is None else ["threshold 0.1"]
    assert display.ax_.get_title().split("\n") == [*lines, "3,000 rows, NOT PRIVATE (seeded), 95 % intervals"]


def test_a_confusion_matrix_of_several_classes_is_drawn(of_three):
    display = PrivateConfusionMatrixDisplay.from_evaluation(of_three)
    assert len(texts(display)) == 9
    assert display.ax_.get_title() == "3,000 rows, epsilon = 1, 95 % intervals"
    shade = display.ax_.images[0].get_array()
    np.testing.assert_allclose(shade.sum(axis=1), 1.0)


def test_counts_of_many_classes_fit_into_their_cells():
    X, score = rows()
    y = np.digitize(score, np.linspace(-3, 3, 9))
    seen = private_evaluation(DPLogisticRegression(epsilon=8.0, random_state=0).fit(X, y), X, y, epsilon=1.0)
    display = PrivateConfusionMatrixDisplay.from_evaluation(seen)
    display.figure_.canvas.draw()
    cell = display.ax_.get_window_extent().width / 10
    assert max(text.get_window_extent().width for text in display.ax_.texts) < cell


def test_calibration_of_several_classes_is_that_of_the_predicted_one(of_three):
    display = PrivateCalibrationDisplay.from_evaluation(of_three)
    assert display.ax_.get_ylabel() == "part that belongs to the predicted class"


@pytest.mark.parametrize("kind", OF_PROBABILITIES)
def test_curves_in_one_picture_differ_in_print(kind, evaluation, figures):
    ax = figures.figure().add_subplot()
    first, second = (kind.from_evaluation(evaluation, ax=ax, name=name) for name in ("one", "other"))
    assert first.ax_ is second.ax_ is ax
    assert first.figure_ is ax.figure
    names = [text.get_text().split("\n")[0] for text in ax.get_legend().get_texts()]
    assert names == ["one", "other"]
    assert len({style[part] for style in STYLES for part in ("color", "linestyle", "marker")}) == 3 * len(STYLES)
    colours = [tuple(patch.get_facecolor()) for patch in ax.patches]
    assert len(set(colours)) == 2


@pytest.mark.parametrize("kind", ALL)
def test_a_display_is_drawn_again_elsewhere(kind, evaluation, figures):
    display = kind.from_evaluation(evaluation)
    ax = figures.figure().add_subplot()
    assert display.plot(ax=ax).ax_ is ax
    assert len(ax.patches) or len(ax.images)


def test_persons_are_called_what_they_are(model):
    X, score = rows(seed=1)
    y, ids = np.where(score > 1.5, "ill", "fine"), np.arange(len(X)) // 3
    seen = private_evaluation(model, X, y, epsilon=1.0, groups=ids)
    assert told(PrivateRocCurveDisplay.from_evaluation(seen))[-1] == "1,000 persons, epsilon = 1, 95 % band"


@pytest.mark.parametrize("kind", CURVES)
def test_several_classes_have_no_curve(kind, of_three):
    with pytest.raises(TypeError, match=r"and this evaluation is of 3 at once: give positive="):
        kind.from_evaluation(of_three)


def test_several_classes_have_no_threshold(of_three):
    with pytest.raises(TypeError, match=r"give positive=, the label of the class"):
        PrivateConfusionMatrixDisplay.from_evaluation(of_three, threshold=0.5)


def test_a_model_without_probabilities_has_a_curve_and_no_calibration():
    X, score = rows()
    foreign = RidgeClassifier().fit(X[:2500], score[:2500] > 1.5)
    seen = private_evaluation(foreign, X[2500:], score[2500:] > 1.5, epsilon=1.0)
    PrivateRocCurveDisplay.from_evaluation(seen)
    with pytest.raises(AttributeError, match="no predict_proba"):
        PrivateCalibrationDisplay.from_evaluation(seen)


@pytest.mark.parametrize("kind", ALL)
def test_without_matplotlib_the_error_says_what_to_install(kind, evaluation, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf"{kind.__name__} draws with matplotlib: pip install 'dpsk\[plot\]'"):
        kind.from_evaluation(evaluation)
