"""Budget and ledger: the recorded sum stays within the limit whatever is asked for, and refusals change nothing."""

import copy
import math
import os
import pickle
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsk.privacy import (
    ZCDP,
    BoundedRangeCost,
    Budget,
    BudgetExhausted,
    GaussianCost,
    GaussianDP,
    Ledger,
    PureCost,
    PureDP,
    Release,
    RenyiDP,
)
from dpsk.privacy.conversions import paper_rho, zcdp_delta, zcdp_epsilon, zcdp_rho

check = settings(derandomize=True, deadline=None, max_examples=200)
limits = st.floats(1e-6, 1e6)
prices = st.floats(1e-9, 1e6)


@dataclass(frozen=True)
class Priced:
    """A cost that names any price, even an impossible one."""

    epsilon: object


def pure_ledger(limit=1.0):
    """A ledger in which the price of PureCost(x) is exactly x."""
    return Ledger(Budget.of(limit, 0.0))


def state(ledger):
    return ledger.charged, ledger.remaining, ledger.releases, repr(ledger)


def recorded(ledger):
    """The exact sum of what the ledger says it recorded."""
    return sum((release.count * Fraction(release.cost) for release in ledger.releases), Fraction(0))


# ------------------------------------------------------------------------------------------------- the filter


@pytest.mark.slow
@given(limits, st.lists(st.tuples(prices, st.integers(1, 1000)), max_size=40))
@check
def test_the_recorded_sum_never_exceeds_the_limit(limit, requests):
    """In exact arithmetic; and what is refused would not have fitted."""
    ledger, total = pure_ledger(limit), Fraction(0)
    for price, times in requests:
        asked = times * Fraction(price)
        fits = total + asked <= Fraction(limit)
        try:
            ledger.charge(PureCost(price), "release", times)
        except BudgetExhausted:
            assert not fits
        else:
            assert fits
            total += asked
        assert recorded(ledger) == total <= Fraction(limit)
        assert total <= Fraction(ledger.charged) <= Fraction(limit)
        assert Fraction(ledger.remaining) <= Fraction(limit) - total


@given(limits, st.lists(prices, max_size=10), st.floats(1.001, 1e6))
@check
def test_a_refused_charge_changes_nothing(limit, history, excess):
    ledger = pure_ledger(limit)
    for price in history:
        if Fraction(price) <= Fraction(ledger.remaining):
            ledger.charge(PureCost(price), "earlier")
    before = state(ledger)
    with pytest.raises(BudgetExhausted):
        ledger.charge(PureCost(limit * excess), "too dear")
    assert state(ledger) == before


@pytest.mark.parametrize(
    ("currency", "cost"),
    [
        (ZCDP(), GaussianCost(0.01)),
        (GaussianDP(), PureCost(0.01)),
        (RenyiDP(40.0), BoundedRangeCost(0.01)),
        (PureDP(), BoundedRangeCost(0.01)),
    ],
)
def test_every_currency_is_charged_its_own_price(currency, cost):
    ledger = Ledger(Budget.of(1.0, 1e-6, currency=currency))
    ledger.charge(cost, "step", 3)
    assert ledger.releases == (Release("step", 3, currency.price(cost)),)
    assert recorded(ledger) == 3 * Fraction(currency.price(cost))
    most = int((Fraction(ledger.budget.limit) - recorded(ledger)) / Fraction(currency.price(cost)))
    ledger.charge(cost, "step", most)
    with pytest.raises(BudgetExhausted):
        ledger.charge(cost, "step")


def test_no_rounding_lets_a_price_through():
    """Ten times 0.1 is more than 1 exactly, though the floating-point sum is less; below it is the other way round."""
    ledger = pure_ledger(1.0)
    ledger.charge(PureCost(0.1), "tenth", 9)
    with pytest.raises(BudgetExhausted):
        ledger.charge(PureCost(0.1), "tenth")
    assert sum([0.1] * 10) < 1.0

    ledger = pure_ledger(1.0)
    ledger.charge(PureCost(1.0), "all")
    with pytest.raises(BudgetExhausted):
        ledger.charge(PureCost(1e-300), "next to nothing")
    assert 1.0 + 1e-300 == 1.0


@given(limits, st.lists(st.floats(0.01, 1.5), min_size=1, max_size=30))
@check
def test_an_adversary_that_adapts_its_prices_gains_nothing(limit, greed):
    """Each price depends on what is left; the sum stays within the limit, and `remaining` is never an overstatement."""
    ledger = pure_ledger(limit)
    for share in greed:
        if ledger.remaining == 0:
            break
        price = share * ledger.remaining
        if share <= 1:
            ledger.charge(PureCost(min(price, ledger.remaining)), "fits")
        else:
            with pytest.raises(BudgetExhausted):
                ledger.charge(PureCost(max(price, math.nextafter(ledger.remaining, math.inf))), "does not")
        assert recorded(ledger) <= Fraction(limit)


@given(limits)
@check
def test_who_asks_for_all_that_remains_gets_it_once(limit):
    ledger = pure_ledger(limit)
    ledger.charge(PureCost(ledger.remaining), "everything")
    assert ledger.remaining == 0
    assert ledger.charged == limit
    for price in (5e-324, 1e-9, limit):
        with pytest.raises(BudgetExhausted):
            ledger.charge(PureCost(price), "more")
    with pytest.raises(ValueError, match="must be positive"):
        ledger.charge(Priced(ledger.remaining), "nothing at all")


@given(limits, st.floats(0.01, 0.99))
@check
def test_asking_for_what_remains_again_and_again_ends(limit, first):
    """What is left after rounding down can be asked for, but never adds up to more than the limit."""
    ledger = pure_ledger(limit)
    ledger.charge(PureCost(first * limit), "first")
    for _ in range(100):
        if ledger.remaining == 0:
            break
        ledger.charge(PureCost(ledger.remaining), "rest")
    assert ledger.remaining == 0
    assert recorded(ledger) <= Fraction(limit)


# ------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("bad", [0.0, -0.0, -1.0, math.nan, math.inf, -math.inf])
def test_impossible_prices_are_refused_and_named(bad):
    ledger = pure_ledger()
    before = state(ledger)
    with pytest.raises(
        ValueError, match=rf"'odd' costs {bad!r} epsilon: a price must be positive and finite"
    ) as caught:
        ledger.charge(Priced(bad), "odd")
    assert not isinstance(caught.value, BudgetExhausted)
    assert state(ledger) == before


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "2", None, 0.5, math.nan])
def test_times_must_be_a_positive_integer(bad):
    ledger = pure_ledger()
    with pytest.raises(ValueError, match=r"times=.* must be a positive integer"):
        ledger.charge(PureCost(0.1), "release", bad)
    assert state(ledger) == state(pure_ledger())


@given(st.floats(1e-6, 1.0), st.integers(1, 10**9))
@check
def test_times_multiplies_exactly(price, times):
    """n at once costs n times the exact price, and fits if and only if that does."""
    ledger = pure_ledger(1000.0)
    if times * Fraction(price) <= 1000:
        ledger.charge(PureCost(price), "many", times)
        assert recorded(ledger) == times * Fraction(price)
    else:
        with pytest.raises(BudgetExhausted):
            ledger.charge(PureCost(price), "many", times)


def test_the_refusal_names_the_numbers_of_the_budget_and_a_remedy_and_carries_nothing_else():
    ledger = pure_ledger(1.0)
    ledger.charge(PureCost(0.75), "first")
    with pytest.raises(BudgetExhausted) as caught:
        ledger.charge(PureCost(0.25), "second", 2)
    error = caught.value
    assert str(error) == (
        "'second' asks for 0.5 epsilon, but 0.25 of 1 is left; raise epsilon or ask for fewer releases"
    )
    assert error.args == (str(error),)
    assert vars(error) == {}
    assert error.__cause__ is error.__context__ is None
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("times", [10**9, 10**400], ids=["1e9", "1e400"])
def test_a_request_far_beyond_the_budget_is_refused_like_any_other(times):
    ledger = pure_ledger()
    with pytest.raises(BudgetExhausted):
        ledger.charge(PureCost(1e300), "astronomical", times)
    assert ledger.charged == 0


# ------------------------------------------------------------------------------------------------- portions


@given(limits, st.integers(1, 400))
@check
def test_k_charges_of_a_kth_always_fit_and_use_up_the_budget(limit, parts):
    ledger = pure_ledger(limit)
    portion = ledger.portion(parts)
    assert parts * Fraction(portion) <= Fraction(limit)
    assert portion == pytest.approx(limit / parts, rel=1e-15)
    for _ in range(parts):
        ledger.charge(PureCost(portion), "part")
    with pytest.raises(BudgetExhausted):
        ledger.charge(PureCost(portion), "one too many")


@given(limits, st.floats(1, 1000))
@check
def test_a_fractional_number_of_portions_rounds_down(limit, parts):
    portion = pure_ledger(limit).portion(parts)
    assert Fraction(portion) * Fraction(parts) <= Fraction(limit)
    assert Fraction(math.nextafter(portion, math.inf)) * Fraction(parts) > Fraction(limit)


def test_a_portion_is_of_the_whole_budget_not_of_the_rest():
    ledger = pure_ledger(1.0)
    ledger.charge(PureCost(0.5), "half")
    assert ledger.portion(4) == 0.25
    assert ledger.portion(1) == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks exist on POSIX only")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_copy_cannot_be_charged():
    """It would be a second budget: parent and child could each spend all of it on the same data."""
    ledger = Ledger(Budget.of(1.0, 1e-6))
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(GaussianCost(0.01), "child")
        except RuntimeError:
            os._exit(42)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    ledger.charge(GaussianCost(0.01), "parent")


def test_a_budget_that_promises_more_than_its_limit_is_refused():
    with pytest.raises(ValueError, match="does not guarantee"):
        Budget(0.1, 1e-6, ZCDP(), 1.0)


@pytest.mark.parametrize("bad", [0, 0.99, -3, math.nan, math.inf])
def test_portions_need_a_finite_number_of_parts(bad):
    with pytest.raises(ValueError, match=r"parts=.* must be a finite number >= 1"):
        pure_ledger().portion(bad)


@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_a_numpy_integer_number_of_parts_means_the_same(integer):
    """As it comes from a parameter grid; its fixed width must not overflow inside the exact fraction."""
    assert pure_ledger(0.1).portion(integer(300)) == pure_ledger(0.1).portion(300)


# ----------------------------------------------------------------------------------------------------- record


def test_releases_are_listed_in_order_and_counted_by_label_and_price():
    ledger = pure_ledger(1.0)
    ledger.charge(PureCost(0.125), "b")
    ledger.charge(PureCost(0.0625), "a", 2)
    ledger.charge(PureCost(0.125), "b", 3)
    ledger.charge(PureCost(0.25), "b")
    assert ledger.releases == (Release("b", 4, 0.125), Release("a", 2, 0.0625), Release("b", 1, 0.25))
    assert ledger.charged == 0.875
    assert ledger.remaining == 0.125


def test_the_record_handed_out_cannot_change_the_ledger():
    ledger = pure_ledger()
    ledger.charge(PureCost(0.5), "half")
    (release,) = ledger.releases
    with pytest.raises(AttributeError):
        release.count = 0
    for name in ("charged", "remaining", "releases"):
        with pytest.raises(AttributeError):
            setattr(ledger, name, 0)


def test_charged_is_rounded_up_and_remaining_down():
    """At a sum whose nearest double lies below, and whose remainder's nearest double lies above."""
    ledger, exact = pure_ledger(1.0), 10 * Fraction(0.0125)
    ledger.charge(PureCost(0.0125), "eightieth", 10)
    assert Fraction(float(exact)) < exact
    assert Fraction(float(1 - exact)) > 1 - exact
    assert Fraction(ledger.charged) > exact > Fraction(math.nextafter(ledger.charged, 0))
    assert Fraction(ledger.remaining) < 1 - exact < Fraction(math.nextafter(ledger.remaining, 1))


def test_the_budget_of_a_ledger_cannot_be_exchanged():
    """A report reads it, so another one would state a guarantee that was never kept."""
    ledger = pure_ledger(10.0)
    with pytest.raises(AttributeError):
        ledger.budget = Budget.of(0.01, 0.0)


@pytest.fixture
def eager_threads():
    """Switch threads as often as the interpreter can, so that an unguarded update would be interrupted."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_threads_charging_at_once_never_exceed_the_limit():
    """8 threads ask 300 times each, more than 4 times what fits: exactly what fits is granted."""
    ledger, granted, start = pure_ledger(0.5), [], threading.Barrier(8)

    def work(name):
        start.wait()
        for _ in range(300):
            try:
                ledger.charge(PureCost(2.0**-10), name)
            except BudgetExhausted:
                continue
            granted.append(name)

    threads = [threading.Thread(target=work, args=(f"thread {i % 3}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 512
    assert recorded(ledger) == Fraction(1, 2)
    assert {release.label: release.count for release in ledger.releases} == Counter(granted)


@pytest.mark.usefixtures("eager_threads")
def test_the_record_can_be_read_while_other_threads_charge():
    ledger = pure_ledger()

    def work():
        for i in range(3000):
            ledger.charge(PureCost(2.0**-20), f"release {i}")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        while thread.is_alive():
            assert all(release.count == 1 for release in ledger.releases)
    finally:
        thread.join()
    assert len(ledger.releases) == 3000


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, pickle.dumps, lambda x: pickle.dumps([x], 2), lambda x: copy.deepcopy([x])]
)
def test_a_live_ledger_cannot_be_duplicated(duplicate):
    with pytest.raises(TypeError, match="a copy would be a second budget"):
        duplicate(pure_ledger())


def test_repr_shows_the_state_in_its_currency():
    ledger = Ledger(Budget.from_rho(0.5, 1e-6))
    ledger.charge(GaussianCost(0.5), "sum")
    assert repr(ledger) == "Ledger(charged=0.125, limit=0.5, currency=rho)"


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_without_a_positive_finite_limit_opens_no_ledger(bad):
    with pytest.raises(ValueError, match=r"finite"):
        Ledger(Budget(1.0, 1e-6, ZCDP(), bad))


# ----------------------------------------------------------------------------------------------------- Budget


def test_budget_of_defaults_to_zcdp_and_to_pure_dp_without_delta():
    assert Budget.of(1, 1e-6) == Budget(1.0, 1e-6, ZCDP(), zcdp_rho(1.0, 1e-6))
    assert Budget.of(2, 0) == Budget(2.0, 0.0, PureDP(), 2)


def test_budget_of_keeps_the_currency_it_is_given():
    for currency in (ZCDP(), GaussianDP(), RenyiDP(30.0), PureDP()):
        budget = Budget.of(1.0, 1e-6, currency=currency)
        assert budget.currency == currency
        assert budget.limit == currency.limit(1.0, 1e-6)


def test_the_papers_conversion_is_available_by_name_and_buys_less():
    paper, exact = Budget.of(0.1, 1e-8, conversion="paper"), Budget.of(0.1, 1e-8, conversion="exact")
    assert paper.limit == paper_rho(0.1, 1e-8) < exact.limit == zcdp_rho(0.1, 1e-8)
    assert (paper.epsilon, paper.delta) == (exact.epsilon, exact.delta) == (0.1, 1e-8)


def test_from_rho_states_the_epsilon_it_guarantees():
    budget = Budget.from_rho(0.02, 1e-6)
    assert budget == Budget(zcdp_epsilon(1e-6, 0.02), 1e-6, ZCDP(), 0.02)
    assert zcdp_delta(budget.epsilon, 0.02) <= 1e-6


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, True, "1", 10**400])
def test_budgets_refuse_an_epsilon_or_rho_that_is_not_positive_and_finite(bad):
    with pytest.raises(ValueError, match=rf"epsilon={bad!r} must be a positive finite number"):
        Budget.of(bad, 1e-6)
    with pytest.raises(ValueError, match=rf"rho={bad!r} must be a positive finite number"):
        Budget.from_rho(bad, 1e-6)


@pytest.mark.parametrize("bad", [-1e-9, 1.0, 2.0, math.nan])
def test_budgets_refuse_a_delta_outside_the_unit_interval(bad):
    with pytest.raises(ValueError, match=rf"delta={bad!r} must lie in \[0, 1\); choose it well below 1/"):
        Budget.of(1.0, bad)
    with pytest.raises(ValueError, match=rf"delta={bad!r} must lie"):
        Budget.from_rho(1.0, bad)


@pytest.mark.parametrize("currency", [ZCDP(), GaussianDP(), RenyiDP(30.0)])
def test_delta_zero_is_for_pure_dp_only(currency):
    with pytest.raises(ValueError, match=r"delta=0 must lie strictly.*delta = 0 needs output perturbation"):
        Budget.of(1.0, 0, currency=currency)
    with pytest.raises(ValueError, match=r"delta=0 must .*rho=1"):
        Budget.from_rho(1, 0)


@pytest.mark.parametrize(
    ("delta", "currency"), [(0.0, None), (1e-6, GaussianDP()), (1e-6, PureDP()), (1e-6, RenyiDP(30.0))]
)
def test_the_papers_conversion_is_for_rho_only(delta, currency):
    with pytest.raises(ValueError, match=r"conversion='paper' is defined for a budget kept in rho.*use 'exact'"):
        Budget.of(1.0, delta, currency=currency, conversion="paper")


@pytest.mark.parametrize("bad", ["Exact", "", "tight", None])
def test_unknown_conversions_are_refused(bad):
    with pytest.raises(ValueError, match=rf"conversion={bad!r} must be 'exact' or 'paper'"):
        Budget.of(1.0, 1e-6, conversion=bad)


def test_a_budget_is_frozen_and_picklable():
    budget = Budget.of(1.0, 1e-6, currency=RenyiDP(30.0))
    assert pickle.loads(pickle.dumps(budget)) == budget
    with pytest.raises(AttributeError):
        budget.limit = 100.0


def test_what_is_promised_never_changes():
    ledger = Ledger(Budget.of(1.0, 1e-6))
    for name in ("budget", "remaining", "charged", "turn", "releases"):
        with pytest.raises(AttributeError):
            setattr(ledger, name, Budget.of(1.0, 1e-6, currency=GaussianDP()))
    assert not hasattr(ledger, "replan")
    assert ledger.budget == Budget.of(1.0, 1e-6)
