"""Audits by one run: the bound on right guesses against all mechanisms there are, and attacks on whole fits.

Fits and coins of tests have fixed seeds. A bound of an audit is too high with probability 1e-3 at most.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from dpsk import DPLogisticRegression, DPTabularClassifier
from dpsk.audits.canaries import Canaries
from dpsk.audits.claims import Claim
from dpsk.audits.guesses import Guesses, together
from dpsk.audits.joint_guesses import Certificate, Joint
from dpsk.audits.one_run import Run, one_run
from dpsk.privacy.conversions import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpsk.privacy.currencies import GaussianDP, PureDP, RenyiDP

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # seeded fits, and fits on few rows

DELTA = 1e-6

# --- the bound on right guesses


def best_of_all_mechanisms(guesses, epsilon, delta):
    """Return the largest probability of so many right guesses, by linear programming over all mechanisms.

    What is released is which coins are guessed, and how: any attacker is a part of the mechanism. The variables are the
    probabilities of each release for each setting of the coins, and how much of each exceeds what a neighbour allows.
    """
    m, grown = guesses.coins, np.exp(epsilon)
    settings = list(itertools.product((0, 1), repeat=m))
    releases = [
        (who, how)
        for who in itertools.combinations(range(m), guesses.made)
        for how in itertools.product((0, 1), repeat=guesses.made)
    ]
    pairs = [(i, settings.index((*s[:c], 1 - s[c], *s[c + 1 :]))) for i, s in enumerate(settings) for c in range(m)]
    S, R = len(settings), len(releases)
    win = [
        [sum(s[c] == g for c, g in zip(who, how, strict=True)) >= guesses.right for who, how in releases]
        for s in settings
    ]
    cost = np.concatenate([np.ravel(win) / -S, np.zeros(len(pairs) * R)])
    chosen = sp.eye(S).tocsr()
    one, other = chosen[[i for i, _ in pairs]], chosen[[j for _, j in pairs]]
    differences = sp.kron(one - grown * other, sp.eye(R))
    sums = sp.kron(sp.eye(len(pairs)), np.ones((1, R)))
    above = sp.bmat([[differences, -sp.eye(len(pairs) * R)], [sp.csr_matrix((len(pairs), S * R)), sums]])
    found = linprog(
        cost,
        A_ub=above.tocsr(),
        b_ub=np.concatenate([np.zeros(len(pairs) * R), np.full(len(pairs), delta)]),
        A_eq=sp.hstack([sp.kron(sp.eye(S), np.ones((1, R))), sp.csr_matrix((S, len(pairs) * R))]).tocsr(),
        b_eq=np.ones(S),
        bounds=(0, None),
    )
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (0.5, 0.0), (0.5, 0.05), (1.5, 0.01)])
@pytest.mark.parametrize(("made", "coins"), [(1, 1), (1, 3), (2, 2), (2, 3), (3, 3), (2, 4), (4, 4)])
def test_no_mechanism_allows_more_right_guesses_and_one_allows_as_many(made, coins, epsilon, delta):
    for right in range(made + 1):
        guesses = Guesses(right, made, coins)
        assert guesses.probability(epsilon, delta) == pytest.approx(
            best_of_all_mechanisms(guesses, epsilon, delta), abs=1e-7
        )


def best_law(guesses, promised):
    """Return the largest probability of so many right guesses under several pairs (epsilon, delta) at once.

    By symmetry a best mechanism gives the same probability to all releases with as many right guesses. The variables
    are the law of the number of right guesses, and for each pair what the releases exceed a neighbour by.
    """
    r, places = guesses.made, np.arange(guesses.made + 1)
    one, up, down = sp.diags(places / r), sp.diags(places[1:] / r, 1), sp.diags((r - places[:-1]) / r, -1)
    rest, n = sp.diags((r - places) / r), r + 1
    differences, sums = [], []
    for k, (epsilon, _) in enumerate(promised):
        excess = sp.hstack([sp.identity(2 * n) * (-1.0 if j == k else 0.0) for j in range(len(promised))])
        law = sp.vstack([one - np.exp(epsilon) * down, rest - np.exp(epsilon) * up])
        differences.append(sp.hstack([law, excess]))
        sums.append(np.concatenate([np.zeros(n), np.repeat([j == k for j in range(len(promised))], 2 * n)]))
    total = np.zeros((1, n * (1 + 2 * len(promised))))
    total[0, :n] = 1
    win = np.zeros(total.shape[1])
    win[guesses.right : n] = -1
    found = linprog(
        win,
        A_ub=sp.vstack([*differences, sp.csr_matrix(np.array(sums))]).tocsr(),
        b_ub=np.concatenate([np.zeros(2 * n * len(promised)), [delta * guesses.coins / r for _, delta in promised]]),
        A_eq=total,
        b_eq=[1.0],
        bounds=(0, None),
    )
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("guesses", [Guesses(34, 40, 40), Guesses(28, 40, 200), Guesses(20, 20, 50)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-4), (0.7, 1e-3), (1.5, 1e-6)])
def test_the_bound_is_the_best_one_for_many_coins(guesses, epsilon, delta):
    assert guesses.probability(epsilon, delta) == pytest.approx(best_law(guesses, [(epsilon, delta)]), rel=1e-5)


@pytest.mark.parametrize("mu", [0.3, 0.8])
def test_certificates_reach_the_best_bound_for_a_whole_profile(mu):
    guesses = Guesses(37, 40, 100)
    joint = Joint(guesses, error=1e-3)

    def promised(epsilons):
        return np.array([gaussian_delta(float(one), mu) for one in np.atleast_1d(epsilons)])

    assert joint.allows(promised)
    assert joint.add()
    (certificate,) = joint.certificates
    pairs = list(zip(certificate.epsilons, promised(certificate.epsilons), strict=True))
    best = best_law(guesses, pairs)
    assert best <= certificate.probability(promised) <= 1.001 * best + 1e-9
    assert certificate.probability(promised) < 0.9 * min(guesses.probability(*pair) for pair in pairs)


def test_any_weights_are_a_certificate():
    """What a solver returns is not trusted: bounds from random weights hold as well."""
    rng, guesses, pairs = np.random.default_rng(0), Guesses(9, 12, 20), [(0.0, 0.1), (1.0, 0.01)]
    best = best_law(guesses, pairs)
    for _ in range(200):
        weights = rng.exponential(size=(2, 12)) * 10 ** rng.uniform(-3, 1)
        certificate = Certificate.of(guesses, np.array([0.0, 1.0]), weights)
        assert certificate.probability(lambda _: np.array([0.1, 0.01])) >= best


def test_the_worst_mechanism_reaches_the_bound():
    """The law of right guesses from the proof, drawn: randomised response whose tail is raised."""
    epsilon, delta, guesses = 0.5, 1e-2, Guesses(24, 30, 60)
    bound = guesses.probability(epsilon, delta)
    tail = binom.sf(guesses.right - 1, guesses.made, expit(epsilon))
    assert 2 * tail < bound < 0.5  # delta matters
    w = np.arange(guesses.made + 1)
    law = binom.pmf(w, guesses.made, expit(epsilon))
    law *= np.where(w >= guesses.right, bound / tail, (1 - bound) / (1 - tail))
    of_right, of_wrong = law * w / guesses.made, law * (guesses.made - w) / guesses.made
    excess = np.maximum(of_right[1:] - np.exp(epsilon) * of_wrong[:-1], 0).sum()
    assert guesses.made / guesses.coins * excess == pytest.approx(delta, rel=1e-6)
    assert np.maximum(of_wrong[:-1] - np.exp(epsilon) * of_right[1:], 0).sum() == 0


def formula_of_the_paper(guesses, epsilon, delta):
    """Steinke, Nasr & Jagielski (2023), Corollary 5.4, as their Appendix D computes it."""
    law = binom(guesses.made, expit(epsilon))
    below = np.cumsum(law.pmf(np.arange(guesses.right - 1, -1, -1)))
    worst = (below / np.arange(1, guesses.right + 1)).max()
    return law.sf(guesses.right - 1) + 2 * guesses.coins * delta * worst


@pytest.mark.parametrize("made", [50, 100, 400])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_bound_is_below_the_formula_of_the_paper_where_an_audit_refutes(made, epsilon):
    assert Guesses(75, 100, 100).probability(np.log(3)) == pytest.approx(0.553, abs=1e-3)  # their example
    compared = 0
    for right in range(1, made + 1):
        guesses = Guesses(right, made, 2 * made)
        assert guesses.probability(epsilon) == pytest.approx(formula_of_the_paper(guesses, epsilon, 0.0), rel=1e-8)
        if guesses.probability(epsilon, 1e-5) < 0.5:
            assert guesses.probability(epsilon, 1e-5) < formula_of_the_paper(guesses, epsilon, 1e-5)
            compared += 1
    assert compared


def test_where_nearly_all_see_so_many_right_guesses_a_mechanism_exceeds_the_formula_of_the_paper():
    """At least one of three: the mechanism of 17.8 (c), with every release and every pair of neighbours written out."""
    epsilon, delta, guesses = 1.5, 0.01, Guesses(1, 3, 3)
    bound, places = guesses.probability(epsilon, delta), np.arange(4)
    law = binom.pmf(places, 3, expit(epsilon))
    law *= np.where(places >= 1, bound / law[1:].sum(), (1 - bound) / law[0])
    settings = np.array(list(itertools.product((0, 1), repeat=3)))
    agree = (settings[:, None] == settings).sum(axis=2)
    channel = law[agree] / np.array([1, 3, 3, 1])[agree]
    assert channel.sum(axis=1) == pytest.approx(1.0)
    for one, other in itertools.permutations(range(8), 2):
        if agree[one, other] == 2:
            assert np.maximum(channel[one] - np.exp(epsilon) * channel[other], 0).sum() <= delta * (1 + 1e-6)
    reached = (channel * (agree >= 1)).sum() / 8
    assert reached == pytest.approx(bound)
    assert reached > formula_of_the_paper(guesses, epsilon, delta) + 1e-3


def test_extreme_counts_are_finite():
    profile = Guesses(2000, 2000, 2000).profile(1e-3)
    assert profile(np.array([0.0, 1.0, 60.0])) == pytest.approx([1e-3, 1e-3, 0.0], rel=1e-6)
    assert Guesses(0, 10, 10).probability(0.0) == 1
    with pytest.raises(ValueError, match="no more guesses can be right"):
        Guesses(11, 10, 20)


# --- what it proves about a promise


def bounds_of(claim, guesses_of, error):
    """Return the epsilon that is proved, by the number of right guesses."""
    return {right: claim.least_epsilon(guesses_of(right).profile(error)) for right in range(guesses_of(0).made + 1)}


def test_randomised_response_is_bounded_above_its_epsilon_no_more_often_than_promised():
    epsilon, error, made = 1.0, 0.05, 200
    proved = bounds_of(Claim(epsilon, 0.0, PureDP(), epsilon), lambda right: Guesses(right, made, made), error)
    law = binom.pmf(np.arange(made + 1), made, expit(epsilon))
    too_high = sum(law[right] for right, bound in proved.items() if bound > epsilon)
    assert 0.02 < too_high <= error
    assert sum(law[right] for right, bound in proved.items() if bound > 0.5 * epsilon) > 0.9


def test_a_gaussian_release_whose_coins_leak_together_is_bounded_no_more_often_than_promised():
    """Exact: given |z| each coin is randomised response with odds e^(mu |z|), and all coins have the same |z|.

    Each coin alone sees N(mu/2, 1) or N(-mu/2, 1). Many coins do not make the release less private, and the audit may
    not count on it.
    """
    mu, error, made = 1.0, 0.01, 60
    claim = Claim(gaussian_epsilon(DELTA, mu), DELTA, GaussianDP(), mu**2)
    z, step = np.linspace(-9, 9, 3601, retstep=True)
    weights = np.exp(-((z - mu / 2) ** 2) / 2) / np.sqrt(2 * np.pi) * step
    law = weights @ binom.pmf(np.arange(made + 1), made, expit(mu * np.abs(z))[:, None])
    too_high = 0.0
    for right in range(made + 1):
        joint = Joint(Guesses(right, made, made), error)
        profile = joint.guesses.profile(error)
        claim.least_epsilon(profile, also=joint.allows)
        if joint.add() and claim.refuted_by(profile, also=joint.allows):
            too_high += law[right]
    assert error / 100 < too_high <= error


def test_a_claim_at_one_renyi_order_falls_back_on_its_epsilon():
    currency = RenyiDP(4.0)
    claim = Claim(8.0, DELTA, currency, currency.limit(8.0, DELTA))
    fit = RandomisedResponse(8.0, np.random.default_rng(0))
    assert one_run(fit, *TABLE, claim, n_canaries=500, rng=np.random.default_rng(1)).epsilon > 1


def test_several_sets_of_guesses_need_as_much_as_the_one_that_needs_most():
    some, others = Guesses(60, 100, 100).profile(1e-3), Guesses(30, 30, 100).profile(1e-3)
    at = np.linspace(0, 3, 7)
    assert (together([some, others])(at) == np.maximum(some(at), others(at))).all()


# --- canaries and their scores


class RandomisedResponse:
    """A mechanism that shows every label with noise: the model is the table of what it showed."""

    def __init__(self, epsilon, rng):
        self.epsilon, self.rng = epsilon, rng

    def __call__(self, data):
        told = np.where(self.rng.random(len(data.y)) < expit(self.epsilon), data.y, 1 - data.y)
        return Told(told)


class Told:
    def __init__(self, told):
        self.told = told

    def predict_proba(self, rows):
        assert len(rows) == len(self.told)
        return np.column_stack([1 - self.told, self.told])


TABLE = np.random.default_rng(0).uniform(-1, 1, (100, 512)), np.arange(100) % 2


def test_randomised_response_is_caught_and_is_not_when_it_is_honest():
    claim = Claim(1.0, 0.0, PureDP(), 1.0)
    for epsilon, caught in ((1.0, False), (3.0, True)):
        fit = RandomisedResponse(epsilon, np.random.default_rng(0))
        options = {"n_canaries": 1000, "rng": np.random.default_rng(1)}
        found = one_run(fit, *TABLE, claim, adjacency="replace", **options)
        assert found.refuted is caught
        assert 0.6 * epsilon < found.epsilon <= epsilon
        # one unit leaves and another comes: two steps
        for adjacency in ("zero-out", "add-remove"):
            half = one_run(fit, *TABLE, claim, adjacency=adjacency, **options)
            assert 0.6 * epsilon < 2 * half.epsilon <= epsilon


def test_several_runs_tell_more_and_are_counted():
    claim, fits = Claim(1.0, 0.0, PureDP(), 1.0), []

    def fit(data):
        fits.append(data)
        return RandomisedResponse(1.0, np.random.default_rng(len(fits)))(data)

    found = one_run(fit, *TABLE, claim, adjacency="replace", n_canaries=100, runs=20, rng=np.random.default_rng(1))
    assert found.fits == len(fits) == 21  # one for the time
    assert 0.7 < found.epsilon <= 1.0
    assert "guesses about 2000 coins" in found.seen
    assert found.premise
    assert len({tuple(data.y) for data in fits}) == 21
    few = one_run(fit, *TABLE, claim, n_canaries=100, runs=20, seconds=0.0, rng=np.random.default_rng(1))
    assert few.fits == 2


def test_guesses_are_heads_for_the_highest_scores_and_tails_for_the_lowest():
    run = Run(np.array([True, False, True, False, True]), np.array([3.0, 0.0, 2.0, 1.0, -1.0]))
    assert [run.right(made) for made in range(6)] == [0, 1, 1, 2, 3, 3]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, pd.DataFrame])
def test_coins_decide_labels_and_nothing_else(make):
    X = np.random.default_rng(0).normal(size=(30, 8)) * 5 + 3
    canaries = Canaries.like(make(X), np.repeat(["a", "b"], 15), None, 8, np.random.default_rng(1))
    coins = np.random.default_rng(2).random(8) < 0.5
    data = canaries.data(coins)
    assert type(data.X) is type(make(X))
    assert list(data.y) == ["b" if coin else "a" for coin in coins] + ["a", "b"]
    assert data.arguments == {}
    other = canaries.data(~coins)
    values = data.X.toarray() if sp.issparse(data.X) else np.asarray(data.X)
    assert (values == (other.X.toarray() if sp.issparse(other.X) else np.asarray(other.X))).all()
    centre, half = (X.max(axis=0) + X.min(axis=0)) / 2, (X.max(axis=0) - X.min(axis=0)) / 2
    assert values[8:] == pytest.approx(np.tile(centre, (2, 1)))
    signs = ((values - centre) / half)[:8]
    assert np.abs(np.abs(signs) - 1).max() < 1e-9
    assert np.abs(signs @ signs.T - 8 * np.eye(8)).max() < 1e-9  # eight canaries in eight columns are orthogonal


def test_the_set_of_labels_does_not_depend_on_coins():
    canaries = Canaries.like(np.eye(30), np.arange(30) % 3, None, 5, np.random.default_rng(0))
    for coins in (np.zeros(5, bool), np.ones(5, bool)):
        assert set(canaries.data(coins).y) == {0, 1}


def test_canaries_of_frames_keep_types_and_categories():
    frame = pd.DataFrame({"n": range(10), "x": np.linspace(0, 1, 10), "job": ["cook", "nurse"] * 5})
    canaries = Canaries.like(frame, [0, 1] * 5, None, 20, np.random.default_rng(0))
    rows = canaries.data(np.ones(20, bool)).X
    assert len(rows) == 22
    assert (rows.dtypes == frame.dtypes).all()
    assert set(rows["job"]) == {"cook", "nurse"}
    assert rows["n"].between(0, 9).all()


def test_persons_are_canaries_with_all_their_rows():
    groups = np.repeat(np.arange(10), 3)
    canaries = Canaries.like(np.eye(30), np.arange(30) % 2, groups, 6, np.random.default_rng(0))
    coins = np.array([True, False] * 3)
    data = canaries.data(coins)
    assert np.shape(data.X) == (24, 30)
    assert list(data.arguments["groups"]) == list(np.repeat(np.arange(8), 3))
    assert list(data.y) == list(np.repeat([1, 0] * 4, 3))[:18] + [0] * 3 + [1] * 3
    assert len(np.unique(data.X, axis=0)) == 7


def test_what_cannot_be_audited_is_refused():
    claim, fit = Claim(1.0, 0.0, PureDP(), 1.0), RandomisedResponse(1.0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="adjacency='swap'"):
        one_run(fit, *TABLE, claim, adjacency="swap")
    with pytest.raises(ValueError, match="runs=0"):
        one_run(fit, *TABLE, claim, runs=0)
    with pytest.raises(ValueError, match="n_canaries=5"):
        one_run(fit, *TABLE, claim, n_canaries=5)
    with pytest.raises(ValueError, match="one class only"):
        one_run(fit, TABLE[0], np.zeros(100), claim)
    with pytest.raises(ValueError, match="no column of numbers"):
        one_run(fit, pd.DataFrame({"job": ["cook", "nurse"] * 50}), TABLE[1], claim)
    with pytest.raises(TypeError, match="no predict"):
        one_run(lambda data: object(), *TABLE, claim)


# --- whole fits


def sold_at(epsilon, *, groups=None):
    """Return what a fit on 500 rows, or 500 persons, promises."""
    X, y = np.tile(TABLE[0], (5, 1)), np.tile(TABLE[1], 5)
    return Claim.of(DPLogisticRegression(epsilon, DELTA).fit(X, y, groups=groups).privacy_spent_)


def fits_at(epsilon, **parameters):
    seeds = itertools.count()

    def fit(data):
        model = DPLogisticRegression(epsilon, DELTA, random_state=next(seeds), **parameters)
        return model.fit(data.X, data.y, **data.arguments)

    return fit


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_an_honest_fit_stays_below_its_claim(epsilon):
    found = one_run(fits_at(epsilon), *TABLE, sold_at(epsilon), n_canaries=500, rng=np.random.default_rng(0))
    assert not found.refuted
    assert found.epsilon < epsilon / 2
    assert found.fits == 1
    if epsilon == 8:
        assert found.epsilon > 1
        assert 4 < found.estimate < 8.5


def test_a_fifth_of_the_noise_is_caught_in_one_run():
    less_noise = gaussian_epsilon(DELTA, 5 * gaussian_mu(1.0, DELTA))
    found = one_run(fits_at(less_noise), *TABLE, sold_at(1.0), n_canaries=500, rng=np.random.default_rng(0))
    assert found.refuted
    assert found.epsilon > 1


def test_rows_sold_for_persons_are_caught_in_one_run():
    groups, persons = np.repeat(np.arange(10), 10), np.arange(500)
    claim = sold_at(1.0, groups=persons)
    of_rows, of_persons = fits_at(1.0), fits_at(1.0)

    def forgetful(data):
        return of_rows(type(data)(data.X, data.y))

    options = {"groups": groups, "n_canaries": 500}
    assert one_run(forgetful, *TABLE, claim, rng=np.random.default_rng(0), **options).refuted
    honest = one_run(of_persons, *TABLE, claim, rng=np.random.default_rng(0), **options)
    assert not honest.refuted
    assert honest.epsilon < 1


class OnlyLabels:
    """A classifier that says nothing but labels."""

    def __init__(self, model):
        self.model, self.classes_ = model, model.classes_

    def predict(self, rows):
        return self.model.predict(rows)


@pytest.mark.parametrize("labels", [("a", "b"), ("a", "b", "c")])
@pytest.mark.parametrize("only_labels", [False, True])
@pytest.mark.parametrize("kind", [LogisticRegression, DecisionTreeClassifier])
def test_classifiers_without_privacy_are_caught(kind, only_labels, labels):
    def fit(data):
        model = kind(random_state=0).fit(data.X, data.y)
        return OnlyLabels(model) if only_labels else model

    y = np.resize(labels, 100)
    found = one_run(fit, TABLE[0], y, Claim(1.0, 0.0), n_canaries=200, rng=np.random.default_rng(0))
    assert found.refuted
    assert found.epsilon > 1.2  # all but one of 200 guesses are right, and a coin is two steps


def test_raw_tables_can_be_audited():
    frame = pd.DataFrame(TABLE[0][:, :50], columns=[f"c{i}" for i in range(50)])

    def fit(data):
        return DPTabularClassifier(8.0, DELTA, random_state=0).fit(data.X, data.y)

    claim = Claim.of(DPTabularClassifier(8.0, DELTA).fit(frame, TABLE[1]).privacy_spent_)
    found = one_run(fit, frame, TABLE[1], claim, n_canaries=100, rng=np.random.default_rng(0))
    assert found.epsilon < 8
    assert not found.refuted
