"""Networks as classifiers: what they have beside the contract of all estimators (tests/contract.py)."""

import pickle
import re
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from contract import NETWORKS, Untouchable, weights_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from small_networks import SmallConvolutional, SmallPerceptron

from dpsk import Categories, Chunks, DPConvolutionalClassifier, DPMLPClassifier, Number
from dpsk.data import Facts
from dpsk.estimators import plan_of
from dpsk.estimators.network_rules import BATCH_ROWS, Schedule
from dpsk.privacy import RenyiDP, conversions

pytestmark = [
    pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning"),
    pytest.mark.filterwarnings("ignore:bounds=None and standardize=None:UserWarning"),
]

LARGE = {"epsilon": 1e6, "delta": 1e-5, "random_state": 0}
METHODS = ("decision_function", "predict", "predict_proba", "predict_log_proba")
each_network = pytest.mark.parametrize("Estimator", NETWORKS)


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def forward(X, model, activate=np.tanh):
    """Return scores by the arrays of a fitted perceptron, in plain floats."""
    for i, (W, b) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        X = X @ W + b
        X = activate(X) if i < len(model.coefs_) - 1 else X
    return X


# --------------------------------------------------------------------------------------------------- what is learned


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer. Maximum iterations")
def test_without_much_noise_a_perceptron_is_as_good_as_that_of_scikit_learn(digits):
    X, y = digits
    exact = MLPClassifier(random_state=0, max_iter=60).fit(X / 16, y)
    assert DPMLPClassifier(bounds=(0, 16), **LARGE).fit(X, y).score(X, y) >= exact.score(X, y) - 0.01


def test_a_convolution_finds_a_line_wherever_it_is():
    """Bright lines across and down at random places: the mean of every pixel is the same for both."""
    rng = np.random.default_rng(0)
    images, y = rng.uniform(0, 0.3, size=(2_000, 6, 6)), rng.integers(2, size=2_000)
    for image, down, at in zip(images, y, rng.integers(6, size=2_000), strict=True):
        (image.T if down else image)[at] += 0.7
    X = images.reshape(len(images), -1)
    model = DPConvolutionalClassifier(
        channels=(6,), kernel_size=3, hidden_layer_sizes=(16,), steps=60, bounds=(0, 1), **LARGE
    )
    assert model.fit(X[:1_500], y[:1_500]).score(X[1_500:], y[1_500:]) > 0.95


@pytest.mark.parametrize("activation", ["relu", "hard-tanh", "identity"])
@pytest.mark.parametrize("solver", ["adam", "sgd", "line-search", "published-line-search"])
def test_every_activation_and_solver(activation, solver, cancer):
    model = SmallPerceptron(activation=activation, solver=solver, **LARGE).fit(*cancer)
    assert model.score(*cancer) > 0.9
    label = "gradient and search" if "search" in solver else "batch"
    assert model.n_iter_ == 20
    assert sum(release.count for release in model.privacy_spent_.releases if release.label == label) == 20


def test_the_published_search_has_the_constants_of_the_paper():
    """Chen & Lee (2020, 5.6 and 5.7): C_grad = C_obj = 3, alpha .001, beta .8, Gaussian noise."""
    model = DPMLPClassifier(solver="published-line-search", sampling_rate=1 / 200, steps=100)
    solver = plan_of(model, Facts(60_000, 784, 10)).solver
    assert (solver.gradient_clip, solver.loss_clip, solver.sufficient, solver.shrink) == (3.0, 3.0, 1e-3, 0.8)
    assert (solver.noise, solver.gains, solver.sampling.rate, solver.steps) == ("gaussian", "clipped", 1 / 200, 100)
    # the noise in a gradient counts; the longest step only falls, to 1.2 times the longest of ten; no mean is taken
    assert (solver.denoised, solver.rises, solver.growth, solver.adapt_every) == (False, False, 1.2, 10)
    assert solver.average * solver.steps < 1
    np.testing.assert_allclose(solver.search_share**2, 0.1 / 0.9)  # rho of a search over that of a gradient
    other = plan_of(clone(model).set_params(gradient_clip=1.5), Facts(60_000, 784, 10)).solver
    assert (other.gradient_clip, other.loss_clip) == (1.5, 3.0)
    for name in ("average", "learning_rate"):
        with pytest.raises(ValueError, match=f"{name}=0.5 has no effect with solver='published-line-search'"):
            clone(model).set_params(**{name: 0.5}).fit(Untouchable(), Untouchable())


def test_what_was_chosen_is_shown(cancer):
    shown = DPMLPClassifier().fit(*cancer).solver_
    assert shown == plan_of(DPMLPClassifier(), Facts(*cancer[0].shape, 2)).solver
    assert (shown.sampling.rate, shown.steps, shown.gradient_clip) == (1.0, 300, 1.0)
    with pytest.raises(ValueError, match=r"weights of a network must stay finite.*learning_rate"):
        DPMLPClassifier(learning_rate=1e300, random_state=0).fit(*cancer)


def test_the_initial_weights_have_a_seed_of_their_own(cancer):
    def fitted(**options):
        return SmallPerceptron(steps=1, learning_rate=1e-9, bounds=(0, 1), standardize=None, **options).fit(*cancer)

    one, same, other = fitted(random_state=0), fitted(random_state=1), fitted(random_state=0, initial_seed=1)
    np.testing.assert_allclose(weights_of(one), weights_of(same), atol=1e-7)
    assert np.abs(weights_of(one) - weights_of(other)).max() > 0.1


# ------------------------------------------------------------------------------------------------ what a model holds


@pytest.mark.parametrize(
    "options",
    [{}, {"bounds": (0.1, 0.9)}, {"bounds": (0.1, 0.9), "standardize": None}, {"standardize": None}],
    ids=["standardised", "and bounds", "bounds", "as they are"],
)
@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_the_first_layer_is_in_the_units_of_the_columns(options, data, request):
    X, y = request.getfixturevalue(data)
    model = SmallPerceptron(epsilon=5.0, random_state=0, **options).fit(X, y)
    rows = X if model.ranges_ is None else np.clip(X, *model.ranges_)
    scores = model.decision_function(X)
    expected = forward(rows, model).reshape(scores.shape)
    np.testing.assert_allclose(scores, expected, atol=1e-3 * np.abs(scores).max())
    assert [W.shape for W in model.coefs_] == [(X.shape[1], 8), (8, 3 if data == "iris" else 1)]
    assert model.n_layers_ == 3


@each_network
def test_a_trained_network_is_public_numbers(Estimator, cancer):
    model = Estimator(random_state=0).fit(*cancer)
    network = pickle.loads(pickle.dumps(model.network_))
    assert repr(network) == repr(model.network_)
    assert re.fullmatch(r"TrainedNetwork\((30|5x6x1) -> .*Dense 8 -> Dense 1, tanh, \d+ weights\)", repr(network))
    np.testing.assert_array_equal(network.scores(cancer[0]).ravel(), model.decision_function(cancer[0]))
    assert set(vars(network)) == {"network", "weights", "how"}
    with pytest.raises(AttributeError):
        network.weights = None


def test_parameters_that_are_set_later_change_no_prediction(cancer):
    model = SmallPerceptron(random_state=0).fit(*cancer)
    before = model.predict_proba(cancer[0])
    model.set_params(hidden_layer_sizes=(3,), columns="auto", activation="tanh", bounds=(0, 1e-3), initial_seed=5)
    np.testing.assert_array_equal(model.predict_proba(cancer[0]), before)


# -------------------------------------------------------------------------------------------------- the same bits


@each_network
@pytest.mark.parametrize("options", [{}, {"standardize": None, "data_norm": 1.0}], ids=["standardised", "data_norm"])
def test_predictions_are_those_of_each_row_alone_on_every_storage(Estimator, options, iris, tmp_path):
    X, y = iris[0][::10] * (np.random.default_rng(0).random((150, 4)) < 0.6), iris[1][::10]
    names = [f"c{j}" for j in range(4)]
    model = Estimator(random_state=0, **options).fit(pd.DataFrame(X, columns=names), y)
    frame = pd.DataFrame(X, columns=names)
    np.save(tmp_path / "X.npy", X)
    plain = Estimator(random_state=0, **options).fit(X, y)
    storages = {
        "F": np.asfortranarray(X),
        "CSR": sp.csr_matrix(X),
        "CSC": sp.csc_matrix(X),
        "memory-mapped": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "chunks": Chunks(lambda: (X[k : k + 40] for k in range(0, 150, 40))),
        "Dask": da.from_array(X, chunks=(60, 4)),
    }
    for method in METHODS:
        whole = getattr(model, method)(frame)
        alone = np.concatenate([getattr(plain, method)(X[i : i + 1]) for i in range(0, 150, 10)])
        np.testing.assert_array_equal(alone, whole[::10], err_msg=method)
        for name, stored in storages.items():
            np.testing.assert_array_equal(np.asarray(getattr(plain, method)(stored)), whole, err_msg=name)


@each_network
def test_fits_give_the_same_bits_on_every_storage(Estimator, iris, tmp_path):
    X, y = iris
    np.save(tmp_path / "X.npy", X)
    options = {"random_state": 3, "sampling_rate": 0.2, "steps": 5}
    expected = weights_of(Estimator(**options).fit(X, y))
    others = {
        "memory-mapped": (np.load(tmp_path / "X.npy", mmap_mode="r"), y),
        "chunks": (Chunks(lambda: ((X[k : k + 400], y[k : k + 400]) for k in range(0, 1500, 400))), None),
    }
    for name, data in others.items():
        np.testing.assert_array_equal(weights_of(Estimator(**options).fit(*data)), expected, err_msg=name)
    whole = weights_of(Estimator(**{**options, "sampling_rate": 1.0}).fit(X, y))
    on_dask = Estimator(**{**options, "sampling_rate": 1.0}).fit(
        da.from_array(X, chunks=(500, 4)), da.from_array(y, chunks=500)
    )
    np.testing.assert_array_equal(weights_of(on_dask), whole)


# ----------------------------------------------------------------------------------------------------- raw tables


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(20, 70, 2_000).astype(float), "job": rng.choice(["nurse", "cook", "clerk"], 2_000)}
    )
    y = (frame.age > 45) ^ (frame.job == "cook").to_numpy()  # no sum of curves and bars
    frame.loc[::9, "age"], frame.loc[::11, "job"] = np.nan, None
    return frame, y


def many_times(frame, y):
    """Return so many rows that batches would not hold all of them."""
    times = 1 + 2 * BATCH_ROWS // len(y)
    return pd.concat([frame] * times, ignore_index=True), np.tile(y, times)


def test_raw_tables_with_text_and_missing_entries(people):
    frame, y = people
    model = DPMLPClassifier(epsilon=8.0, delta=1e-5, columns="auto", hidden_layer_sizes=(16,), random_state=0)
    assert model.fit(frame, y).score(frame, y) > 0.8
    assert len(model.coefs_[0]) == len(model.encoder_.get_feature_names_out())
    expected = forward(np.asarray(model.encoder_.transform(frame)), model).ravel()
    scores = model.decision_function(frame)
    np.testing.assert_allclose(scores, expected, atol=1e-3 * np.abs(scores).max())
    alone = np.concatenate([model.decision_function(frame.iloc[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(alone, scores[:20])
    assert not hasattr(model, "ranges_")
    assert "joint histogram" in {release.label for release in model.privacy_spent_.releases}


def test_values_that_have_to_be_found_need_batches_of_all_rows(people):
    model = DPMLPClassifier(columns="auto", steps=2, hidden_layer_sizes=(4,)).fit(*many_times(*people))
    assert {release.label: release.count for release in model.privacy_spent_.releases}["batch"] == 2
    assert model.evaluations_["gradient"] == 2.0
    with pytest.raises(ValueError, match=r"sampling_rate=0\.5 cannot be combined with columns whose values .*'job'"):
        DPMLPClassifier(columns="auto", sampling_rate=0.5).fit(*people)
    declared = {"age": Number(0, 100), "job": Categories(["nurse", "cook", "clerk"])}
    model = DPMLPClassifier(columns=declared, sampling_rate=0.5, steps=5, hidden_layer_sizes=(4,)).fit(*people)
    assert model.privacy_spent_.rho is None
    with pytest.raises(ValueError, match="standardize=None cannot be combined with columns"):
        DPMLPClassifier(columns="auto", standardize=None).fit(Untouchable(), Untouchable())
    with pytest.raises(
        ValueError, match=r"bounds=\(0, 1\) has no effect in DPMLPClassifier: columns says where the num"
    ):
        DPMLPClassifier(columns="auto", bounds=(0, 1)).fit(*people)


# ------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("sizes", [(), 0, True, "100", 8.0, None, (1.5,), (8, 0), (-3,), (8, "8"), (True,), [[8]], {8}])
@pytest.mark.parametrize("name", ["hidden_layer_sizes", "channels"])
def test_sizes_of_layers_that_are_none_are_refused_in_one_sentence(name, sizes):
    model = DPMLPClassifier() if name == "hidden_layer_sizes" else DPConvolutionalClassifier()
    words = rf"{name}={sizes!r} must be a tuple of integers >= 1, one for each layer, such as (32,)"
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        model.set_params(**{name: sizes}).fit(Untouchable(), Untouchable())


@each_network
def test_no_exact_model_is_promised(Estimator):
    with pytest.raises(ValueError, match=r"epsilon=inf: a network has no exact model.*such as 1000"):
        Estimator(epsilon=np.inf).fit(Untouchable(), Untouchable())


@pytest.mark.parametrize("name", ["validation_fraction", "n_iter_no_change", "shuffle", "momentum", "early_stopping"])
def test_what_scikit_learn_takes_besides_is_refused_with_a_reason(name):
    with pytest.raises(TypeError, match=f"DPMLPClassifier: {name} is not supported[:.] "):
        DPMLPClassifier(**{name: 1})
    with pytest.raises(ValueError, match=f"{name} is not supported[:.] "):
        DPMLPClassifier().set_params(**{name: 1})


def test_a_raw_table_without_columns_is_refused_with_the_word_that_takes_it(people):
    with pytest.raises(ValueError, match=r"no numbers: 'job' .* DPMLPClassifier\(columns='auto'\)"):
        DPMLPClassifier().fit(*people)


# -------------------------------------------------------------------------------------------------------- images


def test_images_that_are_too_small_are_refused_before_anything_is_touched_or_paid(digits, monkeypatch):
    with pytest.raises(ValueError, match=r"too small for channels=\(6, 16\): convolution 2 .* 5 pixels.* 2 x 2"):
        DPConvolutionalClassifier(image_shape=(8, 8)).fit(Untouchable(), Untouchable())
    monkeypatch.setattr("dpsk.data.private.SealedRows.release", lambda *_: pytest.fail("something was spent"))
    X, y = digits
    for options, message in {
        (): "convolution 2 has windows of 5 pixels, but what reaches it has 2 x 2",
        (("image_shape", (12, 12)), ("channels", (4,))): r"image_shape=\(12, 12\) has 144 numbers, but X has 64",
        (("kernel_size", 3), ("pool_size", 4), ("channels", (4, 4))): "convolution 2 has windows of 3 .* 1 x 1",
        (("kernel_size", 3), ("pool_size", 7), ("channels", (4,))): "pooling 1 has windows of 7 .* 6 x 6",
    }.items():
        with pytest.raises(ValueError, match=message):
            DPConvolutionalClassifier(**dict(options)).fit(X, y)
    with pytest.raises(ValueError, match=r"X has 63 columns, which are no square image.* give image_shape="):
        DPConvolutionalClassifier().fit(X[:, :63], y)
    for shape in ((3, 32, 32), (1, 28, 28)):
        with pytest.raises(ValueError, match=rf"looks like channels first.*{shape[1]}, {shape[1]}, {shape[0]}\)"):
            DPConvolutionalClassifier(image_shape=shape).fit(Untouchable(), Untouchable())
    for shape in ((8.0, 8), (8,), "88", (0, 8)):
        with pytest.raises(ValueError, match=r"image_shape=.* must be \(height, width\) or .*integers >= 1"):
            DPConvolutionalClassifier(image_shape=shape).fit(Untouchable(), Untouchable())
    with pytest.raises(ValueError, match=r"dim 3.*X\.reshape\(len\(X\), -1\)"):
        DPConvolutionalClassifier().fit(X.reshape(-1, 8, 8), y)


def test_images_of_several_channels_and_shapes(digits):
    X, y = digits
    options = {"channels": (3,), "kernel_size": 2, "hidden_layer_sizes": (), "steps": 2, "bounds": (0, 16)}
    for shape, first in (((8, 8), (4, 3)), ((4, 16), (4, 3)), ((4, 8, 2), (8, 3))):
        model = DPConvolutionalClassifier(image_shape=shape, **options).fit(X[:300], y[:300])
        assert model.coefs_[0].shape == first
        assert model.n_layers_ == 3
        assert model.ranges_.tolist() == [[0.0] * 64, [16.0] * 64]
        assert "magnitudes" not in {release.label for release in model.privacy_spent_.releases}


@pytest.mark.parametrize("Estimator", [SmallPerceptron, SmallConvolutional])
def test_a_fit_of_columns_on_no_scale_is_warned_about(Estimator, iris):
    with pytest.warns(UserWarning, match=r"entries beyond 64 count as 64.*bounds=\(0, 255\)"):
        model = Estimator(standardize=None, steps=1).fit(*iris)
    assert model.ranges_ is None
    far, at_the_end = np.full((1, 4), 1e9), np.full((1, 4), 64.0)
    np.testing.assert_array_equal(model.decision_function(far), model.decision_function(at_the_end))
    for options in ({"bounds": (0, 1)}, {"data_norm": 1.0}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Estimator(standardize=None, steps=1, **options).fit(*iris)


# ------------------------------------------------------------------------------------------------- rules and budgets


def test_what_is_left_at_none_follows_from_public_facts():
    few, some, many = (plan_of(DPMLPClassifier(), Facts(n, 30, 2)).solver for n in (1_000, 10_000, 1_000_000))
    assert [plan.sampling.rate for plan in (few, some)] == [1.0, 0.15]
    mu = conversions.gaussian_mu(1.0, 1e-6)
    assert many.sampling.rate == 30 * mu / 300
    assert few.learning_rate <= some.learning_rate < many.learning_rate == 3 * 0.2 / np.sqrt(300)
    wide = plan_of(DPMLPClassifier(), Facts(1_000, 10_000, 2)).solver
    np.testing.assert_allclose(10 * wide.learning_rate, few.learning_rate)  # the norm of rows is 100, not 10
    passes = [300 * plan_of(DPMLPClassifier(epsilon=e), Facts(10**6, 30, 2)).solver.sampling.rate for e in (0.1, 9.0)]
    np.testing.assert_allclose(passes, [3.0, 15.0])
    images = plan_of(DPConvolutionalClassifier(), Facts(1_000_000, 784, 10)).solver
    assert images.learning_rate == 0.2 / np.sqrt(300), "convolutions take short steps however many rows there are"
    plain = [plan_of(DPMLPClassifier(solver="sgd", epsilon=e), Facts(2_000, 30, 2)).solver for e in (0.5, 1.0, 1e6)]
    assert 0 < plain[0].learning_rate < plain[1].learning_rate < plain[2].learning_rate == 8.0
    fewer = plan_of(DPMLPClassifier(steps=50), Facts(1_000_000, 30, 2)).solver
    assert fewer.sampling.rate == 0.1
    given = DPMLPClassifier(sampling_rate=0.3, steps=7, learning_rate=0.25, gradient_clip=2.0)
    for facts in (Facts(1_000, 30, 2), Facts(100_000, 300, 10)):
        assert Schedule.of(given, facts) == Schedule(0.3, 7, 0.25, 2.0)
    for without in ({"adjacency": "replace"}, {"sampling": "without-replacement"}):
        for n, steps in ((1_000, 300), (3_000, 150), (100_000, 60)):
            chosen = Schedule.of(DPMLPClassifier(**without), Facts(n, 30, 2))
            assert (chosen.sampling_rate, chosen.steps) == (1.0, steps)


@each_network
def test_all_rows_are_accounted_exactly_and_batches_at_one_order(Estimator, iris):
    whole = Estimator(sampling_rate=1.0).fit(*iris).privacy_spent_
    batches = Estimator(sampling_rate=0.1).fit(*iris).privacy_spent_
    assert whole.rho == whole.limit / 2
    assert batches.rho is None
    assert isinstance(batches.currency, RenyiDP)


def test_privacy_loss_distributions_account_for_equal_steps(iris):
    pytest.importorskip("dp_accounting")
    model = SmallPerceptron(accountant="pld", sampling_rate=0.1, standardize=None, bounds=(0, 1)).fit(*iris)
    assert model.privacy_spent_.charged == model.privacy_spent_.limit == 20
    with pytest.raises(ValueError, match="class_weight and sample_weight need a count"):
        model.set_params(class_weight="balanced").fit(*iris)
