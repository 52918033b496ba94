"""Effects of models of raw tables: they add up to the score, and their noise bands are what seeded fits show."""

import builtins
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from dpsk import Categories, Date, DPLogisticRegression, DPTabularClassifier, EffectsDisplay, Number, Text
from dpsk.data import Door
from dpsk.estimators import Effect
from dpsk.estimators.effects import effects_of
from dpsk.estimators.effects_display import _date_ticks
from dpsk.estimators.opening import open_table
from dpsk.estimators.plan import plan_of
from dpsk.estimators.tabular_encoder import TabularEncoder
from dpsk.mechanisms import bits_for
from dpsk.privacy.durable import set_aside
from dpsk.solvers import run
from dpsk.solvers.descent_noise import DescentNoise, Trace
from dpsk.solvers.shrunk import EDGES, curvature_of

WORDS = np.array(["late", "ill", "well", "again", "never"])


def table(n=4000, seed=0):
    """Return a frame with every kind of column, and what its labels follow from."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 15, n).round(1),
            "visits": rng.poisson(0.7, n) * 1.5,
            "size": np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(0, 1, n)),
            "job": rng.choice(["nurse", "cook", "clerk", None], n, p=[0.4, 0.3, 0.2, 0.1]),
            "grade": rng.choice(["low", "mid", "top"], n),
            "note": [" ".join(WORDS[rng.random(5) < 0.4]) for _ in range(n)],
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, n), unit="D"),
        }
    )
    score = (frame["age"] - 50) / 15 + (frame["job"] == "cook") - 0.5 * frame["size"].isna() + rng.logistic(size=n)
    return frame, score.to_numpy()


COLUMNS = {"grade": Categories(["top", "mid", "low", "none"]), "note": Text(buckets=8), "age": Number(0, 100)}


@pytest.fixture(scope="module")
def model():
    frame, score = table()
    return DPTabularClassifier(epsilon=8.0, columns=COLUMNS, random_state=0).fit(frame, score > 0)


@pytest.fixture(scope="module")
def of_three():
    frame, score = table()
    y = np.array(["a", "b", "c"])[np.digitize(score, [-0.7, 0.7])]
    return DPTabularClassifier(epsilon=8.0, columns=COLUMNS, random_state=0).fit(frame, y)


def odd_rows():
    """Return rows with missing, unseen, zero and far entries, in every column."""
    frame = table(60, seed=1)[0]
    frame.loc[0] = None
    frame.loc[1:4, "age"] = [-1e9, 1e9, 0.0, np.nan]
    frame.loc[1:4, "visits"] = [0.0, -0.0, 1e-9, np.nan]
    frame.loc[1:4, "size"] = [0.0, np.inf, np.nan, 3.0]
    frame.loc[1:4, "job"] = ["pilot", "", None, "cook"]
    frame.loc[1:4, "grade"] = ["none", "unheard", None, "top"]
    frame.loc[1:4, "note"] = ["", "zebra late", None, "late late ill"]
    frame.loc[1:4, "seen"] = [pd.Timestamp("1900-01-01"), pd.Timestamp("2200-01-01"), pd.NaT, pd.Timestamp(0)]
    return frame


def looked_up(effect, value):
    """Return the contribution of one value, as a reader of the effect would find it."""
    bars = dict(zip(effect.labels, effect.bars, strict=True))
    if len(effect.points):
        if np.isnan(value):
            return bars["missing"]
        if value == 0 and "0" in bars:
            return bars["0"]
        return np.array([np.interp(value, effect.points, column) for column in np.atleast_2d(effect.curve.T)]).squeeze()
    if effect.kind == "words":
        none = bars["no word"]
        return none + sum(bars.get(f"bucket {b}", none) - none for b in value) / np.sqrt(max(len(value), 1))
    return bars.get("missing" if value is None else value, bars["other"])


def values_of(field, schema, frame):
    """Return the values of a field, for each row, as the labels and points of an effect name them."""
    chunk = schema.read(frame)
    values = chunk.values[[known.name for known in schema.fields].index(field)]
    known = next(f for f in schema.fields if f.name == field)
    if hasattr(known, "low"):
        return values
    if hasattr(known, "buckets"):
        return [values.buckets[a:b] for a, b in zip(values.starts[:-1], values.starts[1:], strict=True)]
    codes, names = (values.codes, values.keys) if hasattr(values, "keys") else (values, known.labels)
    return [names[code] if code >= 0 else {-1: None, -2: "not in the list"}[code] for code in codes]


@pytest.mark.parametrize("which", ["model", "of_three"])
def test_the_score_is_the_constant_and_the_effects(which, request):
    model = request.getfixturevalue(which)
    rows = odd_rows()
    total = np.zeros((len(rows), *np.shape(model.effects_.constant))) + model.effects_.constant
    for name, effect in model.effects_.items():
        total += [looked_up(effect, value) for value in values_of(name, model.encoder_.features.schema, rows)]
    np.testing.assert_allclose(total, model.decision_function(rows), rtol=0, atol=1e-11)
    assert np.std(total) > 0.1


def test_effects_have_the_names_and_kinds_of_the_fields(model):
    kinds = {name: effect.kind for name, effect in model.effects_.items()}
    assert kinds == {
        "age": "number", "visits": "number", "size": "number", "job": "categories", "grade": "categories",
        "note": "words", "seen.time": "time", "seen.month": "categories", "seen.weekday": "categories",
    }  # fmt: skip
    assert "0" in model.effects_["visits"].labels
    assert model.effects_["job"].labels == ("clerk", "cook", "nurse", "other", "missing")
    assert set(model.effects_["grade"].labels) == {"top", "mid", "low", "other", "missing"}
    with pytest.raises(KeyError):
        model.effects_["salary"]


def test_shares_are_near_those_of_the_rows(model):
    shares = dict(zip(model.effects_["job"].labels, model.effects_["job"].shares, strict=True))
    assert shares["nurse"] == pytest.approx(0.4, abs=0.05)
    assert shares["missing"] == pytest.approx(0.1, abs=0.05)
    shares = dict(zip(model.effects_["grade"].labels, model.effects_["grade"].shares, strict=True))
    assert shares["top"] == pytest.approx(1 / 3, abs=0.05)


def test_contributions_are_centred_and_importance_is_their_root_mean_square(model):
    frame = table()[0]
    for name, effect in model.effects_.items():
        found = np.array([looked_up(effect, v) for v in values_of(name, model.encoder_.features.schema, frame)])
        assert abs(found.mean()) < (0.03 if effect.kind == "categories" else 0.2), name
        if name not in ("note", "visits"):  # words are taken to come independently, numbers to lie evenly in a bin
            assert np.sqrt(np.mean(found**2)) == pytest.approx(effect.importance, rel=0.15, abs=0.02), name
    ordered = model.effects_.by_importance()
    assert ordered[0].name == "age"
    assert [e.importance for e in ordered] == sorted((e.importance for e in ordered), reverse=True)
    assert repr(model.effects_).startswith("Effects(age: ")


def test_the_labels_of_a_public_list_are_those_of_its_values():
    """The order of the list is neither that of the alphabet nor that of the counts."""
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, 5000), unit="D")
    frame = pd.DataFrame({"day": day})
    model = DPTabularClassifier(epsilon=8.0, random_state=0, columns={"day": Date(parts=("weekday",))})
    effect = model.fit(frame, frame["day"].dt.day_name() == "Monday").effects_["day.weekday"]
    assert effect.labels[np.argmax(effect.bars)] == "Monday"


def test_effects_need_a_fit_and_can_be_pickled(model):
    with pytest.raises(NotFittedError):
        DPTabularClassifier().effects_  # noqa: B018
    assert not hasattr(DPTabularClassifier(), "effects_")
    again = pickle.loads(pickle.dumps(model)).effects_
    kept = pickle.loads(pickle.dumps(model.effects_))
    for name, effect in model.effects_.items():
        for other in (again, kept):
            assert isinstance(other[name], Effect)
            np.testing.assert_array_equal(other[name].bars, effect.bars)
            np.testing.assert_array_equal(other[name].curve, effect.curve)
    assert kept.constant == again.constant == model.effects_.constant


def test_a_fit_without_an_intercept_has_effects():
    frame, score = table()
    model = DPTabularClassifier(epsilon=8.0, columns=COLUMNS, fit_intercept=False, random_state=0).fit(frame, score > 0)
    ages = values_of("age", model.encoder_.features.schema, frame)
    total = sum(
        np.array([looked_up(e, v) for v in values_of(name, model.encoder_.features.schema, frame)])
        for name, e in model.effects_.items()
    )
    np.testing.assert_allclose(total + model.effects_.constant, model.decision_function(frame), atol=1e-11)
    assert len(ages) == len(frame)
    assert all(np.isfinite(e.bars_noise).all() for e in model.effects_.values())


# --- the noise in a descent ---


@pytest.mark.parametrize("average", [0.5, 0.01, 1.0])
@pytest.mark.parametrize("taper", [0.0, 0.9])
@pytest.mark.parametrize("pull", [0.0, 0.003, 0.1, 1.5])
def test_the_noise_of_a_descent_is_that_of_its_answers_to_each_gradient(average, pull, taper):
    """Against a descent on a parabola, run once for each gradient with noise in that one, as its price tells."""
    steps, step_size, momentum, deviation = 40, 0.5, 0.8, 0.3
    squares = 0.0
    for noisy in range(steps):
        w = velocity = 0.0
        tail = []
        for step in range(steps):
            gradient = pull * w + (deviation if step == noisy else 0.0)
            velocity = momentum * velocity - step_size * gradient
            w = w + velocity
            tail.append(w)
        late = int(np.ceil(average * steps))
        passed = max(0, noisy - (steps - late)) * min(8, late) // late / min(8, late)  # in stages
        squares += np.mean(tail[steps - late :]) ** 2 / (1 - taper * passed)
    noise = DescentNoise(
        steps, step_size, momentum, average, deviation, 1.0, 2.0, pull / 4, Trace.of(steps, 0, (1,)), 0.7, taper
    )
    assert noise.along(np.array([pull * 3 / 4]))[0] == pytest.approx(0.7 * np.sqrt(squares), rel=1e-12)


def test_the_trace_tells_the_curvature_that_gradients_show():
    """Of two features that move together, each seems the less curved."""
    rng = np.random.default_rng(0)
    hessian = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.9], [0.0, 0.9, 1.0]])
    trace, w = Trace.of(1000, 200, (3,)), np.zeros(3)
    for step in range(1000):
        gradient = hessian @ w + 1e-9 * rng.normal(size=3)
        trace.add(step, w, gradient)
        w = rng.normal() * np.array([1.0, 0.0, 0.0]) + rng.normal() * np.array([0.0, 1.0, -1.0])
    assert len(trace.weights) == 200
    found = trace.curvature(slice(0, 3), np.eye(3))[:, 0]
    np.testing.assert_allclose(found, [2.0, 0.1, 0.1], atol=1e-3)
    both = trace.curvature(slice(1, 3), np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2))[:, 0]
    assert both[1] == pytest.approx(0.1, abs=1e-3)


def test_the_curvature_is_counted():
    centres = (EDGES[1:] + EDGES[:-1]) / 2
    shares = np.zeros((2, len(centres)))
    at = np.searchsorted(centres, 0.9)
    shares[1, at] = 1.0
    p = 1 / (1 + np.exp(-centres[at]))
    assert curvature_of(shares, 9.0, None) == pytest.approx(p * (1 - p))
    assert curvature_of(shares, 1 - p, None) == pytest.approx(p * (1 - p) / 2)  # half of all norms are larger
    assert curvature_of(shares, 0.01, None) < 1e-9  # all are clipped
    assert curvature_of(shares[::-1], 0.5, None) < 0.2 * curvature_of(shares, 0.5, None)  # wrong ones are clipped first
    hessian = np.diag([p, (1 - p) / 2, (1 - p) / 2]) - np.outer(*[[p, (1 - p) / 2, (1 - p) / 2]] * 2)
    assert curvature_of(shares, 9.0, 3) == pytest.approx(np.trace(hessian) / 2)
    assert curvature_of(-shares, 9.0, None) == 0.0


def refitted(frame, y, epsilon, count):
    """Return effects of fits that differ in the noise of the descent alone: the encoding is the same."""
    model = DPTabularClassifier(epsilon=epsilon, random_state=0)
    opened = open_table(model, frame, y, model)
    plan = plan_of(model, opened.facts)

    def door(seed):
        with set_aside(None, plan.budget, label="test", adjacency="zero-out", private=False) as reserved:
            return Door(reserved, bits_for(seed), "zero-out")

    how = plan.encoding.learned(door(0), opened)
    rows = opened.rows(how)
    model.encoder_ = TabularEncoder(how.features)
    for seed in range(1, count + 1):
        data = door(seed).open(rows)
        objective = plan.objective.on(data.n_parameters, opened.facts.n_classes)
        result = run(plan.solver, data, objective)
        model.coef_, model.intercept_ = how.in_user_units(result.w)
        model.descent_noise_ = result.diagnostics.attributes["descent_noise"]
        yield effects_of(model), model.descent_noise_.factor


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_bands_are_as_wide_as_seeded_fits_scatter(epsilon):
    """For fields that are independent of one another, and a model that is nowhere very sure. Bands are a bit wide."""
    rng = np.random.default_rng(0)
    n = 20_000
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(size=n)),
            "c": rng.choice(list("uvwx"), n, p=[0.5, 0.3, 0.15, 0.05]),
        }
    )
    y = frame["a"] + 0.5 * (frame["c"] == "v") + 2 * rng.logistic(size=n) > 0
    found = list(refitted(frame, y, epsilon, 60))
    ratios = []
    for name in "abc":
        for part in ("curve", "bars"):
            each = np.array([getattr(effects[name], part) / factor for effects, factor in found])
            band = np.array([getattr(effects[name], f"{part}_noise") / factor for effects, factor in found])
            shown = slice(None) if part == "curve" else found[0][0][name].shares > 0
            ratios.append((band.mean(axis=0) / each.std(axis=0))[shown])
    ratios = np.concatenate(ratios)
    # standard deviations of 60 fits are off by a tenth; of about 40 ratios near the ends some are then beyond them
    assert np.mean((ratios > 0.7) & (ratios < 1.4)) > 0.75
    assert 0.9 < np.median(ratios) < 1.4


# --- pictures ---


@pytest.fixture
def figures():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield pyplot
    pyplot.close("all")


def test_every_field_is_drawn_the_most_important_first(model, figures):
    display = EffectsDisplay.from_estimator(model, n_columns=2)
    assert [ax.get_title() for ax in display.axes_] == [effect.name for effect in model.effects_.by_importance()]
    age = display.axes_[0]
    np.testing.assert_array_equal(age.lines[1].get_ydata(), model.effects_["age"].curve)
    assert age.get_ylabel() == "log-odds of True"
    (band,) = age.collections
    low = model.effects_["age"].curve - 2 * model.effects_["age"].curve_noise
    assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(low.min())
    display.figure_.canvas.draw()


def test_bars_have_the_labels_that_rows_have(model, figures):
    _, (left, right) = figures.subplots(1, 2)
    display = EffectsDisplay.from_estimator(model, ["job", "size"], ax=[left, right])
    effect = model.effects_["job"]
    labels = [text.get_text() for text in left.get_yticklabels()]
    assert set(labels) == {label for label, share in zip(effect.labels, effect.shares, strict=True) if share > 0}
    assert "missing" in [text.get_text() for text in right.texts]
    widths = [bar.get_width() for bar in left.patches]
    assert widths == [effect.bars[effect.labels.index(label)] for label in labels]
    assert display.figure_ is left.figure


def test_the_first_class_has_the_opposite_curve(model, figures):
    ax = EffectsDisplay.from_estimator(model, "age", class_=False).axes_[0]
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), -model.effects_["age"].curve)


def test_several_classes_are_drawn_one_by_one(of_three, figures):
    ax = EffectsDisplay.from_estimator(of_three, "age", class_="c").axes_[0]
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), of_three.effects_["age"].curve[:, 2])
    with pytest.raises(ValueError, match="give class_, one of a, b, c"):
        EffectsDisplay.from_estimator(of_three)
    with pytest.raises(ValueError, match="class_='d' must be one of a, b, c"):
        EffectsDisplay.from_estimator(of_three, class_="d")


def test_bad_requests_are_named(model, figures):
    with pytest.raises(ValueError, match="features='salary' must be some of 'age'"):
        EffectsDisplay.from_estimator(model, "salary")
    with pytest.raises(ValueError, match="ax has 1 axes for 2 fields"):
        EffectsDisplay.from_estimator(model, ["age", "job"], ax=figures.gca())
    X = np.random.default_rng(0).normal(size=(2000, 2))
    linear = DPLogisticRegression(epsilon=8.0, random_state=0).fit(X, X[:, 0] > 0)
    with pytest.raises(TypeError, match="has no effects_"):
        EffectsDisplay.from_estimator(linear)
    with pytest.raises(TypeError, match=r"Give the last step of a pipeline, pipeline\[-1\]"):
        EffectsDisplay.from_estimator(make_pipeline(model))
    with pytest.raises(ValueError, match="n_columns=0 must be an integer >= 1"):
        EffectsDisplay.from_estimator(model, n_columns=0)
    with pytest.raises(NotFittedError):
        EffectsDisplay.from_estimator(DPTabularClassifier())


@pytest.mark.parametrize("days", [0.002, 0.1, 2.5, 40, 960, 3000])
def test_dates_of_any_span_are_drawn_without_a_warning(figures, days):
    ax = figures.figure(figsize=(4.2, 3.0)).add_subplot()
    ax.plot([18262, 18262 + days], [0, 1])
    _date_ticks(ax)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()


def test_without_matplotlib_the_error_says_what_to_install(model, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'dpsk\[plot\]'"):
        EffectsDisplay.from_estimator(model)


def test_a_fit_without_known_noise_is_drawn_without_bands(model, figures):
    early = pickle.loads(pickle.dumps(model))
    del early.descent_noise_
    assert early.effects_["age"].curve_noise is None
    ax = EffectsDisplay.from_estimator(early, "age").axes_[0]
    assert not ax.collections
