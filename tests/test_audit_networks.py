"""Audits of whole fits of networks: below the promise and close to it; faults in layers are caught.

Bounds hold with an error probability of 1e-6 per audit. Noise is drawn anew in each run, as in every audit.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import planted
from dpsk import DPConvolutionalClassifier, DPMLPClassifier, audit
from dpsk.audits.claims import Claim
from dpsk.audits.neighbouring import Data, Pair
from dpsk.audits.released import released
from dpsk.audits.transcripts import read_transcripts
from dpsk.testing import check_company

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # few rows: a fit says that it is hopeless
ERROR, N = 1e-6, 24
PLAIN = {
    "solver": "sgd", "steps": 4, "average": 1e-9, "alpha": 0.0, "learning_rate": 1e-3, "gradient_clip": 0.1,
    "standardize": None, "hidden_layer_sizes": (6,), "activation": "relu",
}  # fmt: skip


def audited(make, one, other, *, size=1, arguments=({}, {})):
    """Return what transcripts tell about a row that is replaced, and what the fit promises."""
    X, y = np.ones((N, len(one[0]))), (np.arange(N) % 8 == 0).astype(int)  # other rows are alike: they move together
    datas = []
    for (entries, label), more in zip((one, other), arguments, strict=True):
        X[3], y[3] = entries, label
        datas.append(Data(X.copy(), y.copy(), more))

    def fit(data):
        return make().fit(data.X, data.y, **data.arguments)

    claim = Claim.of(fit(datas[0]).privacy_spent_)
    two = Pair("a lone row", *datas, size)
    *_, found = read_transcripts(fit, [two], claim, error=ERROR, seconds=1.0, streams=2)
    return found, claim


def plain(**parameters):
    return DPMLPClassifier(**{"epsilon": 1.0, "delta": 1e-6, "adjacency": "replace"} | PLAIN | parameters)


def images():
    shape = {"image_shape": (4, 4), "channels": (2,), "kernel_size": 2, "pool_size": 2}
    return DPConvolutionalClassifier(1.0, 1e-6, adjacency="replace", **shape, **PLAIN)


FITS = {
    "sgd": (plain, 2),
    "adam": (lambda: plain(solver="adam"), 2),
    "three layers, tanh": (lambda: plain(hidden_layer_sizes=(6, 5), activation="tanh"), 2),
    "convolution": (images, 16),
}


@pytest.mark.parametrize("name", FITS)
def test_transcripts_of_networks_come_close_to_the_promise_and_not_above_it(name):
    make, d = FITS[name]
    found, claim = audited(make, ([0.4] * d, 1), ([0.4] * d, 0))
    assert found.leaks == ()
    assert not found.refuted
    assert 0.9 * claim.epsilon < found.epsilon <= claim.epsilon


@pytest.mark.slow
def test_transcripts_of_a_search_and_of_batches_stay_below_the_promise():
    search = {name: value for name, value in PLAIN.items() if name != "learning_rate"} | {"solver": "line-search"}
    found, claim = audited(
        lambda: DPMLPClassifier(1.0, 1e-6, adjacency="replace", **search), ([0.4] * 2, 1), ([0.4] * 2, 0)
    )
    assert not found.refuted
    assert 0.3 * claim.epsilon < found.epsilon <= claim.epsilon
    weights = np.ones(N), np.where(np.arange(N) == 3, 0.0, 1.0)
    batches = {"steps": 60, "sampling_rate": 0.1, "learning_rate": 1e-6}
    found, claim = audited(
        lambda: DPMLPClassifier(1.0, 1e-6, weight_bound=1.0, **PLAIN | batches),
        ([0.4] * 2, 1), ([0.4] * 2, 1), arguments=[{"sample_weight": some} for some in weights],
    )  # fmt: skip
    assert not found.refuted
    assert 0.7 * claim.epsilon < found.epsilon <= claim.epsilon


FAULTS = {
    "a bias that is not clipped": (planted.unclipped_bias, ([0.0, 0.0], 1), ([0.0, 0.0], 0)),
    "batch norm": (planted.batch_norm, ([60.0, 60.0], 1), ([-60.0, -60.0], 1)),
    "activations rounded by the batch": (planted.rounded_by_batch, ([60.0, 60.0], 1), ([1.0, 1.0], 1)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_in_layers_are_caught(name):
    fault, *rows = FAULTS[name]
    with fault():
        found, _ = audited(plain, *rows)
    assert found.refuted
    assert any("times its l2 sensitivity" in leak for leak in found.leaks)
    honest, claim = audited(plain, *rows)
    assert not honest.refuted
    assert honest.epsilon <= claim.epsilon


@pytest.mark.parametrize("fault", [planted.batch_norm, planted.rounded_by_batch])
def test_predictions_that_depend_on_other_rows_are_noticed(fault):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 2)), np.arange(N) % 2
    model = plain(random_state=0).fit(X, y)
    check_company(model.decision_function, X)
    with fault(), pytest.raises(AssertionError, match="another row has another result"):
        check_company(model.decision_function, X)


@pytest.mark.slow
def test_the_model_of_a_network_is_attacked():
    """The promise is refuted with probability 1e-3 at most, as the confidence of an audit says."""
    honest = audit(plain(epsilon=2.0), attacks=["model"], seconds=8)
    assert not honest.refuted
    assert honest.epsilon <= 2.0
    with planted.one_seed():
        assert audit(plain(epsilon=2.0), attacks=["model"], seconds=8).refuted


@pytest.mark.slow
def test_one_run_of_a_network_is_audited():
    found = audit(DPMLPClassifier(8.0, 1e-6, hidden_layer_sizes=(4,), steps=20), attacks=["one run"], seconds=5)
    assert not found.refuted
    assert found.notes == ()


def test_all_of_a_large_layer_is_seen():
    """Of an array that is too large entries are taken from all of it: the first rows of images have dark corners."""
    weights = np.zeros((784, 100))
    seen = released(SimpleNamespace(coefs_=[weights, np.zeros((100, 10))])).numbers["result.coefs_[0]"]
    weights[400:] = 1.0
    other = released(SimpleNamespace(coefs_=[weights, np.zeros((100, 10))])).numbers["result.coefs_[0]"]
    assert len(seen) == len(other) == 256
    assert 100 < np.count_nonzero(seen != other) < 156
