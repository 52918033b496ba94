"""PrivacySpent: plain frozen data whose guarantee is the cap, and a statement that never says more than it."""

import json
import math
import pickle
import re
from dataclasses import FrozenInstanceError, fields

import pytest

from dpsk.privacy import (
    ZCDP,
    Budget,
    GaussianCost,
    GaussianDP,
    Ledger,
    PrivacySpent,
    PureCost,
    PureDP,
    Release,
    RenyiDP,
)
from dpsk.privacy.conversions import gaussian_delta, pure_delta, zcdp_delta, zcdp_epsilon
from dpsk.privacy.neighbours import Adjacency

CURRENCIES = [ZCDP(), GaussianDP(), RenyiDP(40.0), PureDP()]
every_currency = pytest.mark.parametrize("currency", CURRENCIES, ids=lambda currency: currency.name)


def near(value, rel):
    return pytest.approx(float(value), rel=rel, abs=0)


def spent(epsilon=1.0, delta=1e-6, *, currency=None, cost=None, times=3, adjacency="zero-out", private=True):
    """The report of a small run that used a part of its budget."""
    ledger = Ledger(Budget.of(epsilon, delta, currency=currency))
    ledger.charge(PureCost(0.01) if cost is None else cost, "step", times)
    return PrivacySpent.of(ledger, adjacency=adjacency, private=private)


# --------------------------------------------------------------------------------------------- plain data


def test_the_guarantee_is_the_cap_although_less_was_charged():
    few, many = spent(times=1), spent(times=100)
    assert few.charged < many.charged < many.limit
    for name in ("epsilon", "delta", "rho", "limit"):
        assert getattr(few, name) == getattr(many, name)
    assert (few.epsilon, few.delta) == (1.0, 1e-6)
    assert few.rho == few.limit == Budget.of(1.0, 1e-6).limit
    assert few.epsilon_at(1e-9) == many.epsilon_at(1e-9)
    assert few.statement() == many.statement()


@every_currency
def test_the_report_repeats_the_ledger(currency):
    report = spent(currency=currency)
    assert report.currency == currency
    assert report.releases == (Release("step", 3, currency.price(PureCost(0.01))),)
    assert report.charged == near(3 * currency.price(PureCost(0.01)), rel=1e-15)
    assert report.rho == currency.rho(report.limit)


def test_a_report_taken_earlier_does_not_follow_the_ledger():
    ledger = Ledger(Budget.of(1.0, 0.0))
    ledger.charge(PureCost(0.25), "first")
    before = PrivacySpent.of(ledger, adjacency="zero-out", private=True)
    ledger.charge(PureCost(0.25), "second")
    assert before.charged == 0.25
    assert before.releases == (Release("first", 1, 0.25),)


def test_the_report_is_frozen():
    report = spent()
    for field in fields(report):
        with pytest.raises(FrozenInstanceError):
            setattr(report, field.name, 0)
    hash(report)


@every_currency
def test_the_report_is_the_same_after_pickling(currency):
    report = spent(currency=currency)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(report, protocol))
        assert again == report
        assert again.statement() == report.statement()
        assert again.epsilon_at(1e-8) == report.epsilon_at(1e-8)


@every_currency
def test_the_dictionary_survives_strict_json(currency):
    report = spent(currency=currency)
    plain = report.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert set(plain) == {field.name for field in fields(report)} | {"discovery"}
    assert plain["currency"] == currency.name
    assert plain["epsilon"] == 1.0
    assert plain["private"] is True
    assert plain["releases"] == [{"label": "step", "count": 3, "cost": currency.price(PureCost(0.01))}]


def test_an_infinite_epsilon_becomes_none_in_json():
    report = PrivacySpent(math.inf, 1e-6, 1e300, ZCDP(), 1e300, 0.0, "zero-out", True)
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["epsilon"] is None


def test_repr_is_one_line_with_the_guarantee_and_the_share_used():
    ledger = Ledger(Budget.of(0.5, 0.0))
    ledger.charge(PureCost(0.125), "a", 2)
    ledger.charge(PureCost(0.0625), "b")
    assert repr(PrivacySpent.of(ledger, adjacency="replace", private=False)) == (
        "PrivacySpent(epsilon=0.5, delta=0, adjacency='replace', private=False; 3 releases used 62.5% of 0.5 epsilon)"
    )


# ------------------------------------------------------------------------------------- other pairs, groups


@every_currency
def test_epsilon_at_and_delta_at_agree_with_the_guarantee(currency):
    report = spent(currency=currency)
    assert report.epsilon_at(report.delta) <= report.epsilon * (1 + 1e-9)
    assert report.delta_at(report.epsilon) <= report.delta * (1 + 1e-9)
    if currency != PureDP():
        assert report.epsilon_at(report.delta) == near(report.epsilon, rel=1e-9)
        assert report.delta_at(report.epsilon) == near(report.delta, rel=1e-9)


@every_currency
def test_epsilon_at_and_delta_at_fall_and_are_inverse(currency):
    report = spent(currency=currency)
    deltas = [1e-12, 1e-9, 1e-6, 1e-3, 0.1]
    epsilons = [report.epsilon_at(delta) for delta in deltas]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[0] > epsilons[-1]
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        assert report.delta_at(epsilon) <= delta * (1 + 1e-9) + 1e-15
        assert epsilon == 0 or report.delta_at(0.999 * epsilon) > delta


def test_epsilon_at_is_the_theorem_of_the_currency():
    """Against the conversions, which are tested against high precision."""
    rho, gauss, pure = spent(), spent(currency=GaussianDP()), spent(2.0, 0.0)
    assert rho.epsilon_at(1e-9) == zcdp_epsilon(1e-9, rho.limit) > rho.epsilon
    assert rho.delta_at(2.0) == zcdp_delta(2.0, rho.limit)
    assert gauss.delta_at(2.0) == gaussian_delta(2.0, math.sqrt(gauss.limit))
    assert pure.delta_at(1.0) == pure_delta(1.0, 2.0)


def test_at_delta_zero_only_pure_dp_keeps_an_epsilon():
    assert spent(2.0, 0.0).epsilon_at(0.0) == 2.0
    assert spent().epsilon_at(0) == math.inf


@pytest.mark.parametrize("bad", [-1e-9, 1.0, math.nan])
def test_epsilon_at_refuses_a_delta_outside_the_unit_interval(bad):
    for report in (spent(), spent(2.0, 0.0)):
        with pytest.raises(ValueError, match=rf"delta={bad!r} must lie in \[0, 1\)"):
            report.epsilon_at(bad)


@every_currency
@pytest.mark.parametrize("bad", [-1e-9, math.nan])
def test_delta_at_refuses_a_bad_epsilon(currency, bad):
    with pytest.raises(ValueError, match=rf"epsilon={bad!r} must be a number >= 0"):
        spent(currency=currency).delta_at(bad)


def test_groups_of_rows_are_protected_by_the_multiplied_limit():
    """k rows: k^2 rho, k mu, k epsilon, at the same delta."""
    assert spent().epsilon_for_group(3) == zcdp_epsilon(1e-6, 9 * spent().limit)
    gauss = spent(currency=GaussianDP())
    assert gaussian_delta(gauss.epsilon_for_group(3), 3 * math.sqrt(gauss.limit)) == near(1e-6, rel=1e-9)
    assert spent(0.5, 0.0).epsilon_for_group(10) == 5.0
    for report in (spent(), gauss, spent(0.5, 0.0)):
        assert report.epsilon_for_group(1) == report.epsilon
        sizes = [report.epsilon_for_group(size) for size in range(1, 12)]
        assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "2", math.nan])
def test_a_group_has_a_positive_integer_size(bad):
    with pytest.raises(ValueError, match=r"size=.* must be a positive integer"):
        spent().epsilon_for_group(bad)


def test_a_fixed_order_refuses_to_speak_about_groups():
    with pytest.raises(ValueError, match="gives no statement for groups"):
        spent(currency=RenyiDP(40.0)).epsilon_for_group(2)


# ---------------------------------------------------------------------------------------------- statement


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_the_statement_says_what_is_protected_and_what_is_not(adjacency):
    text = spent(adjacency=adjacency).statement()
    for part in (
        "(1, 1e-06)-differential privacy (0.02436-zCDP)",
        "The unit of protection is one row",
        Adjacency(adjacency).words("row"),
        "the number of rows and of columns, the set of class labels, that all values are finite",
        "every parameter of the estimator",
        "nor about timing",
        "preprocessing steps",
    ):
        assert part in text
    (other,) = set(Adjacency) - {adjacency}
    assert other.words("row") not in text
    assert "NOT PRIVATE" not in text


def test_the_two_neighbour_relations_are_described():
    assert set(Adjacency) == {"zero-out", "replace"}
    assert "leaves every sum" in Adjacency("zero-out").words("row")
    assert "replaced" in Adjacency("replace").words("row")


def test_the_statement_gives_the_epsilon_of_small_groups():
    report = spent(0.5, 0.0)
    assert "epsilon is 1 for 2 rows and 5 for 10" in report.statement()
    two, ten = re.search(r"epsilon is ([\d.]+) for 2 rows and ([\d.]+) for 10", spent().statement()).groups()
    assert float(two) == near(spent().epsilon_for_group(2), rel=1e-2)
    assert float(ten) == near(spent().epsilon_for_group(10), rel=1e-2)


def test_without_a_group_guarantee_the_statement_claims_none():
    text = spent(currency=RenyiDP(40.0)).statement()
    assert "(1, 1e-06)-differential privacy (Rényi divergence of order 40 at most 0.7657)." in text
    assert "Nothing is stated for a person who contributed several rows" in text
    assert "for 2 rows" not in text
    assert "zCDP" not in text


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_a_known_seed_is_declared_not_private_before_anything_else(adjacency):
    report = spent(adjacency=adjacency, private=False)
    assert report.statement().startswith("NOT PRIVATE")
    assert "random_state" in report.statement()
    assert "was trained with" not in report.statement()
    assert report.to_dict()["private"] is False
    assert "private=False" in repr(report)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 1e-6), (1.00004, 1e-6), (1.23444, 1e-6), (1.0, 1.004e-6), (1.0, 1.2344e-6)]
)
def test_the_statement_never_promises_more_than_the_guarantee(epsilon, delta):
    """Printed digits are rounded: up, or the paragraph claims a smaller epsilon or delta than was proved."""
    text = spent(epsilon, delta).statement()
    printed = re.search(r"\(([\d.e+-]+), ([\d.e+-]+)\)-differential privacy \(([\d.e+-]+)-zCDP\)", text)
    assert float(printed[1]) >= epsilon
    assert float(printed[2]) >= delta
    assert float(printed[3]) >= spent(epsilon, delta).rho


def test_the_groups_in_the_statement_never_promise_too_much():
    for epsilon in (1.0, 1.1, 1.2, 1.3):
        report = spent(epsilon)
        two, ten = re.search(r"epsilon is ([\d.]+) for 2 rows and ([\d.]+) for 10", report.statement()).groups()
        assert float(two) >= report.epsilon_for_group(2)
        assert float(ten) >= report.epsilon_for_group(10)


def test_an_unknown_adjacency_is_refused_when_the_report_is_made():
    """Not first when the statement is asked for, with a bare KeyError."""
    with pytest.raises(ValueError, match=r"adjacency='add-remove'.*zero-out"):
        spent(adjacency="add-remove").statement()


def test_a_gaussian_run_states_its_gaussian_numbers():
    report = spent(1.0, 1e-6, currency=GaussianDP(), cost=GaussianCost(0.01))
    assert report.rho == report.limit / 2
    assert report.charged == near(3e-4, rel=1e-14)
    assert "(1, 1e-06)-differential privacy (0.02" in report.statement()
