"""DPLineSearchClassifier and DPSGDClassifier: what random batches add to the contract of every estimator."""

import numpy as np
import pytest
import scipy.sparse as sp
from contract import SHORT, each_sampled

import dpsk.solvers.sampled as sampled_module
from dpsk import DPLineSearchClassifier, DPSGDClassifier
from dpsk.data import Unknown
from dpsk.data.private import Batch
from dpsk.estimators.plan import budget_of_plan, plan_of
from dpsk.privacy import ZCDP, GaussianDP, RenyiDP

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")


@pytest.mark.slow
@each_sampled
def test_the_order_follows_from_public_facts_and_is_fixed_before_the_fit(Estimator, cancer):
    X, y = cancer
    model = Estimator(epsilon=1.5)
    currency = model.fit(X, y).privacy_spent_.currency
    assert isinstance(currency, RenyiDP)
    assert model.fit(-X[:300], 1 - y[:300]).privacy_spent_.currency == currency
    assert budget_of_plan(model, Unknown()).currency == currency
    assert (
        budget_of_plan(Estimator(epsilon=0.1), Unknown()).currency.order > currency.order
    )  # less budget, a larger order


@pytest.mark.slow
@each_sampled
def test_the_guarantee_is_the_limit_at_that_order(Estimator, cancer):
    report = Estimator(epsilon=1.5, delta=1e-5).fit(*cancer).privacy_spent_
    assert report.epsilon_at(1e-5) == pytest.approx(1.5)
    assert report.epsilon_at(1e-5) <= 1.5
    assert report.delta_at(1.5) <= 1e-5
    assert 0.99 * report.limit < report.charged <= report.limit
    statement = report.statement()
    assert f"(1.5, 1e-05)-differential privacy (Rényi divergence of order {report.currency.order:g} at" in statement
    assert "zCDP" not in statement
    assert "Nothing is stated for a person who contributed several rows" in statement
    with pytest.raises(ValueError, match="no statement for groups"):
        report.epsilon_for_group(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("Estimator", "currency"), [(DPLineSearchClassifier, ZCDP()), (DPSGDClassifier, GaussianDP())], ids=["BLGD", "SGD"]
)
def test_batches_of_all_rows_need_no_order(Estimator, currency, cancer):
    report = Estimator(epsilon=2.0, sampling_rate=1.0).fit(*cancer).privacy_spent_
    assert report.currency == currency
    assert report.rho is not None
    model = Estimator(epsilon=2.0, sampling_rate=1.0, adjacency="replace").fit(*cancer)
    assert model.privacy_spent_.adjacency == "replace"


def test_the_plan_is_made_once_for_equal_parameters(cancer):
    sampled_module._planned_currency.cache_clear()
    for seed in range(3):
        DPSGDClassifier(steps=7, random_state=seed).fit(*cancer)
    assert sampled_module._planned_currency.cache_info().misses == 1


@pytest.mark.slow
@each_sampled
@pytest.mark.parametrize("sampling", ["poisson", "without-replacement"])
def test_nothing_in_a_model_depends_on_how_many_rows_a_batch_held(Estimator, sampling, cancer, monkeypatch):
    """Models of seeds whose batches have other sizes agree in everything public; the sizes do differ for Poisson."""
    sizes = []
    measure = Batch.measure

    def spy(self, query):
        sizes.append(self._rows.n_rows)
        return measure(self, query)

    monkeypatch.setattr(Batch, "measure", spy)
    reports = []
    options = {"fallback": True, "candidates": 4} if Estimator is DPLineSearchClassifier else {}
    options |= SHORT[Estimator]
    for seed in range(3):
        model = Estimator(epsilon=3.0, sampling=sampling, random_state=seed, **options).fit(*cancer)
        reports.append((model.evaluations_, model.privacy_spent_))
    assert (len(set(sizes)) > 1) == (sampling == "poisson")
    for evaluations, report in reports[1:]:
        assert evaluations == reports[0][0]
        assert report == reports[0][1]


@pytest.mark.slow
def test_evaluations_are_counted_in_passes(cancer):
    model = DPSGDClassifier(steps=30, sampling_rate=0.2).fit(*cancer)
    assert model.evaluations_ == pytest.approx({"gradient": 6.0})
    model = DPLineSearchClassifier(splits=10, sampling_rate=0.5, fallback=True, candidates=4).fit(*cancer)
    assert model.evaluations_ == pytest.approx({"gradient": 5.0, "gains": 25.0})  # 4 candidates and where they start
    model = DPLineSearchClassifier(splits=10, sampling_rate=0.5, search="exponential", fallback=True).fit(*cancer)
    assert model.evaluations_ == pytest.approx({"gradient": 5.0, "losses": 80.0})  # 15 candidates and staying


@pytest.mark.slow
@each_sampled
def test_batches_must_hold_a_row(Estimator, cancer):
    with pytest.raises(ValueError, match=r"sampling_rate=0\.001 of 569 rows leaves batches empty: set it to .* 1\.0"):
        Estimator(sampling_rate=1e-3, standardize="private").fit(*cancer)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "huber_hinge"])
@each_sampled
def test_every_loss_for_two_classes_and_for_several(Estimator, loss, cancer, iris):
    assert Estimator(epsilon=20.0, loss=loss, random_state=0).fit(*cancer).score(*cancer) > 0.85
    model = Estimator(epsilon=20.0, loss=loss, random_state=0).fit(*iris)
    assert model.score(*iris) > 0.6
    assert hasattr(model, "predict_proba") == (loss == "log_loss")


OPTIONS = {
    "exponential": {"search": "exponential"},
    "gaussian": {"noise": "gaussian"},
    "clipped": {"gains": "clipped"},
    "always": {"increase": "always"},
    "never": {"increase": "never"},
    "merge": {"increase": "merge"},
    "decay": {"clip_decay": 0.05},
    "fallback": {"fallback": True},
    "all rows": {"sampling_rate": 1.0},
    "half": {"sampling_rate": 0.5},
    "without replacement": {"sampling": "without-replacement"},
    "replaced rows": {"sampling": "without-replacement", "adjacency": "replace"},
    "standardised": {"standardize": "private", "bounds": (0, 1)},
    "no intercept": {"fit_intercept": False},
}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_the_line_search_learns(name, cancer):
    model = DPLineSearchClassifier(epsilon=20.0, random_state=0, **OPTIONS[name]).fit(*cancer)
    assert model.score(*cancer) > 0.85
    report = model.privacy_spent_
    assert 0 < report.charged <= report.limit


@pytest.mark.slow
def test_the_paper_s_first_price_is_in_its_own_words(cancer):
    X, y = np.tile(cancer[0], (10, 1)), np.tile(cancer[1], 10)
    model = DPLineSearchClassifier(
        epsilon=4.0, first_price="paper", splits=50, search_share=1.0, gradient_clip=3.0, random_state=0
    )
    assert model.fit(X, y).score(X, y) > 0.85


@pytest.mark.slow
def test_adam_and_sgd_learn(cancer):
    for options in ({}, {"optimizer": "adam", "learning_rate": 0.05}, {"sampling_rate": 1.0}, {"average": 1e-9}):
        model = DPSGDClassifier(epsilon=10.0, random_state=0, **options).fit(*cancer)
        assert model.score(*cancer) > 0.85, options


@pytest.mark.slow
@each_sampled
def test_a_huge_column_does_not_stop_the_others_with_standardize(Estimator, cancer):
    X = cancer[0].copy()
    X[:, 0] *= 1e9
    model = Estimator(epsilon=20.0, standardize="private", random_state=0).fit(X, cancer[1])
    assert model.score(X, cancer[1]) > 0.8


@pytest.mark.slow
@each_sampled
def test_standardised_sparse_rows_in_many_chunks(Estimator):
    """Chunks of 8,192 centred sparse rows are joined to batches; dense rows, which are not, give the same bits."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((90_000, 12)) < 0.1, rng.random((90_000, 12)), 0.0)
    y = X[:, 0] + 0.2 * rng.random(90_000) > 0.2
    options = {"standardize": "private", "bounds": (0, 1), "random_state": 0, "epsilon": 2.0}
    options |= {"splits": 5} if Estimator is DPLineSearchClassifier else {"steps": 5}
    sparse, dense = (Estimator(**options).fit(store, y) for store in (sp.csr_matrix(X), X))
    np.testing.assert_array_equal(sparse.coef_, dense.coef_)


@pytest.mark.slow
def test_a_run_that_spends_itself_in_searches_warns(cancer):
    with pytest.warns(UserWarning, match=r"of 200 planned updates were made: .*standardize='private'"):
        DPLineSearchClassifier(candidates=1, step_max=1e4, random_state=0).fit(*cancer)


@pytest.mark.slow
@each_sampled
def test_too_few_rows_for_an_epsilon_are_noticed(Estimator, cancer):
    with pytest.warns(UserWarning, match="expect little more than chance"):
        Estimator(epsilon=0.01).fit(*cancer)


@pytest.mark.slow
def test_the_learning_rate_follows_the_optimizer(cancer):
    def rate(**options):
        return plan_of(DPSGDClassifier(**options), Unknown()).solver.learning_rate

    assert rate() == 3.0
    assert rate(optimizer="adam") == 0.05
    assert rate(alpha=2.0) == 0.5
    assert rate(learning_rate=0.7) == 0.7
    DPSGDClassifier(alpha=10.0, epsilon=20.0).fit(*cancer)


def test_steps_that_are_taken_anyway_may_not_grow_without_end(cancer):
    with pytest.raises(ValueError, match=r"the shortest step=3\.0 with alpha=10\.0"):
        DPLineSearchClassifier(alpha=10.0, candidates=1, fallback=True).fit(*cancer)


@pytest.mark.slow
def test_several_classes_whose_gradients_are_mostly_clipped():
    """The search has to look at the objective of clipped gradients; on the plain one hardly a step passes."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 8))
    y = rng.choice(5, size=4000, p=[0.5, 0.3, 0.1, 0.07, 0.03])
    X = centres[y] + 0.7 * rng.normal(size=(4000, 8))
    model = DPLineSearchClassifier(epsilon=5.0, gradient_clip=0.3, random_state=0).fit(X, y)
    updates = sum(r.count for r in model.privacy_spent_.releases if r.label == "gradient and search")
    assert updates > 100
    assert model.score(X, y) > 0.7
