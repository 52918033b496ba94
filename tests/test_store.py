"""The durable ledger: one budget for every handle, thread and process; nothing counts for less than was drawn."""

import contextlib
import copy
import math
import os
import pickle
import random
import sqlite3
import subprocess
import sys
import threading
import warnings
from fractions import Fraction
from pathlib import Path

import pytest

from dpsk import BudgetExhausted, LedgerError, PrivacyLedger
from dpsk.privacy import ZCDP, Budget, GaussianCost, GaussianDP, ObjectiveDP, PureCost, PureDP, RenyiDP, Spend
from dpsk.privacy.durable.store import Reservation, as_ledger
from dpsk.privacy.durable.terms import CURRENCIES, Amount, decimal

DRIVER = Path(__file__).parent / "ledger_driver.py"
HALF = Budget.of(0.5, 1e-6)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.db")


@pytest.fixture
def ledger(path):
    return PrivacyLedger(path, epsilon=2.0, delta=1e-5)


def fit(ledger, budget=HALF, *, charges=(), adjacency="zero-out", private=True, label="fit"):
    """One fit, as the estimators do it, with these prices of rho or mu**2."""
    with ledger.fit(budget, label=label, adjacency=adjacency, private=private) as filtered:
        for charge in charges:
            filtered.charge(charge, "release")


ANYTHING = (GaussianCost(1e-3),)


# ------------------------------------------------------------------------------------------------ reserve, then draw


def test_the_whole_cap_is_set_aside_before_anything_is_charged(ledger):
    with ledger.fit(HALF, label="fit", adjacency="zero-out", private=True) as filtered:
        assert filtered.charged == 0
        assert filtered.budget == HALF
        assert PrivacyLedger(ledger.path).remaining() == {"epsilon": 1.5, "delta": 9e-6}
        (spend,) = ledger.history()
        assert (spend.state, spend.reserved, spend.counted) == ("open", {"epsilon": 0.5, "delta": 1e-6}, spend.reserved)
        assert spend.ended is None
        filtered.charge(GaussianCost(1e-3), "release")
    (spend,) = ledger.history()
    assert (spend.state, spend.counted) == ("closed", {"epsilon": 0.5, "delta": 1e-6})
    assert spend.started <= spend.ended


def test_what_does_not_fit_is_refused_and_changes_nothing(ledger):
    for _ in range(4):
        fit(ledger, charges=ANYTHING)
    before = ledger.history(), ledger.remaining()
    with pytest.raises(BudgetExhausted) as caught:
        fit(ledger, label="one more")
    message = str(caught.value)
    for part in ("one more asks for epsilon 0.5 and delta 1e-06", "epsilon 0 and delta 6e-06", ledger.path, "Nothing"):
        assert part in message
    assert (ledger.history(), ledger.remaining()) == before


def test_the_block_of_a_refused_fit_is_never_entered(ledger):
    entered = False
    with (
        pytest.raises(BudgetExhausted),
        ledger.fit(Budget.of(2.5, 1e-6), label="fit", adjacency="zero-out", private=True),
    ):
        entered = True
    assert not entered


def test_ten_tenths_fill_a_ledger_of_one_and_not_one_more(path):
    ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5)
    for _ in range(10):
        fit(ledger, Budget.of(0.1, 1e-6), charges=ANYTHING)
    assert ledger.remaining() == {"epsilon": 0.0, "delta": 0.0}
    with pytest.raises(BudgetExhausted):
        fit(ledger, Budget.of(1e-12, 1e-100))


def test_delta_is_a_limit_of_its_own(path):
    ledger = PrivacyLedger(path, epsilon=100.0, delta=3e-6)
    for _ in range(3):
        fit(ledger, charges=ANYTHING)
    with pytest.raises(BudgetExhausted, match=r"delta 0 of epsilon 100"):
        fit(ledger)
    fit(ledger, Budget.of(0.5, 0.0), charges=(PureCost(0.5),))


@pytest.mark.parametrize("currency", ["basic", "rho", "mu**2"])
def test_what_remains_can_be_asked_for_and_no_more(currency, path):
    ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5, currency=currency)
    fit(ledger, Budget.of(0.3, 1e-6, currency=GaussianDP()), charges=ANYTHING)
    left = ledger.remaining()
    if currency == "basic":
        rest = Budget.of(left["epsilon"], left["delta"])
    else:
        rest = Budget.of(1e-3, 0.0)
        rest = Budget(50.0, 1e-5, ZCDP() if currency == "rho" else GaussianDP(), left[currency])
    more = Budget(rest.epsilon * 1.001, rest.delta, rest.currency, math.nextafter(rest.limit, math.inf))
    with pytest.raises(BudgetExhausted):
        fit(ledger, more)
    fit(ledger, rest, charges=ANYTHING)


@pytest.mark.slow
def test_sums_are_exact(path):
    """Amounts of very different size: a sum of floats loses the small ones."""
    ledger = PrivacyLedger(path, epsilon=1e6, delta=0.5)
    amounts = [1e5, 1e-12, 0.1, 3e-9, 123.456] * 3
    for epsilon in amounts:
        fit(ledger, Budget.of(epsilon, 1e-7), charges=(GaussianCost(1e-12),))
    with sqlite3.connect(path) as db:
        (held,) = db.execute("SELECT amount FROM accounts").fetchone()
    db.close()
    assert Fraction(held) == sum(map(decimal, amounts))


# ------------------------------------------------------------------------------------------------------- settling


def test_a_fit_in_the_currency_of_the_ledger_counts_for_what_it_charged(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency="rho")
    fit(ledger, charges=[GaussianCost(0.02)] * 3)
    (spend,) = ledger.history()
    assert spend.reserved == {"rho": HALF.limit}
    assert spend.counted["rho"] == pytest.approx(3 * 2e-4)
    assert decimal(spend.counted["rho"]) >= 3 * Fraction(GaussianCost(0.02).rho), "rounded up"
    assert ledger.remaining()["rho"] == pytest.approx(ledger.terms().limit.main - 6e-4)


@pytest.mark.parametrize(
    ("kept_in", "budget"),
    [
        ("basic", Budget.of(0.5, 1e-6)),
        ("basic", Budget.of(0.5, 1e-6, currency=GaussianDP())),
        ("basic", Budget.of(0.5, 1e-6, currency=RenyiDP(40.0))),
        ("rho", Budget.of(0.5, 1e-6, currency=GaussianDP())),
        ("rho", Budget.of(0.2, 0.0)),
        ("mu**2", Budget.of(0.2, 0.0)),
    ],
)
def test_every_other_fit_keeps_its_whole_reservation(kept_in, budget, path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency=kept_in)
    fit(ledger, budget, charges=(PureCost(1e-3),))
    (spend,) = ledger.history()
    assert spend.state == "closed"
    assert spend.counted == spend.reserved
    assert min(spend.counted.values()) > 0 or budget.delta == 0


def test_a_fit_that_failed_counts_for_what_it_charged(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency="rho")
    with (
        contextlib.suppress(ZeroDivisionError),
        ledger.fit(HALF, label="fit", adjacency="zero-out", private=True) as filtered,
    ):
        filtered.charge(GaussianCost(0.02), "release")
        raise ZeroDivisionError
    (spend,) = ledger.history()
    assert (spend.state, spend.counted["rho"]) == ("closed", pytest.approx(2e-4))
    basic = PrivacyLedger(path + "2", epsilon=2.0, delta=1e-5)
    with (
        contextlib.suppress(KeyboardInterrupt),
        basic.fit(HALF, label="fit", adjacency="zero-out", private=True) as filtered,
    ):
        filtered.charge(GaussianCost(1e-9), "release")
        raise KeyboardInterrupt
    assert basic.remaining() == {"epsilon": 1.5, "delta": 9e-6}


def test_a_fit_that_drew_nothing_returns_everything(ledger):
    with contextlib.suppress(ValueError), ledger.fit(HALF, label="fit", adjacency="zero-out", private=True):
        raise ValueError("bad data")
    assert ledger.remaining() == {"epsilon": 2.0, "delta": 1e-5}
    (spend,) = ledger.history()
    assert (spend.state, spend.counted) == ("returned", {"epsilon": 0.0, "delta": 0.0})
    assert "0 so far" in ledger.statement()


def test_after_the_end_nothing_more_can_be_charged(path):
    """What was settled is final: otherwise a settled fit could go on drawing."""
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency="rho")
    with ledger.fit(HALF, label="fit", adjacency="zero-out", private=True) as filtered:
        filtered.charge(GaussianCost(0.02), "release")
    with pytest.raises(RuntimeError, match="closed"):
        filtered.charge(GaussianCost(0.02), "release")
    with (
        contextlib.suppress(ValueError),
        ledger.fit(HALF, label="fit", adjacency="zero-out", private=True) as filtered,
    ):
        raise ValueError("before anything was drawn")
    with pytest.raises(RuntimeError, match="closed"):
        filtered.charge(GaussianCost(0.02), "release")


def test_a_reservation_ends_once(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency="rho")
    reservation = ledger.reserve(HALF, label="fit", adjacency="zero-out", private=True)
    reservation.end(None)
    before = ledger.remaining()
    reservation._close(0.0, 0.0)
    reservation._close(1e-9, 0.0)
    assert ledger.remaining() == before
    assert before["rho"] == pytest.approx(float(ledger.terms().limit.main) - HALF.limit)


def test_a_forked_copy_of_a_fit_gives_nothing_back(path):
    """The child unwinds with nothing charged, while the fit goes on in the parent."""
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency="rho")
    read, write = os.pipe()
    with ledger.fit(HALF, label="fit", adjacency="zero-out", private=True) as filtered:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            number = os.fork()
        if number == 0:
            os.close(read)
            with contextlib.suppress(BaseException):
                filtered.charge(GaussianCost(0.02), "release in a copy")
                os.write(write, b"charged")
        else:
            os.close(write)
            os.waitpid(number, 0)
            assert ledger.history()[0].state == "open"
            assert os.read(read, 10) == b""
            os.close(read)
            filtered.charge(GaussianCost(0.02), "release")
    if number == 0:
        os._exit(0)
    assert ledger.history()[0].state == "closed"


def test_an_end_that_cannot_be_recorded_loses_neither_the_fit_nor_the_reservation(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency="rho", timeout=0.1)
    stack = contextlib.ExitStack()
    filtered = stack.enter_context(ledger.fit(HALF, label="fit", adjacency="zero-out", private=True))
    filtered.charge(GaussianCost(0.02), "release")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.warns(UserWarning, match="all that it set aside stays counted"):
        stack.close()
    holder.close()
    assert ledger.remaining()["rho"] == pytest.approx(float(ledger.terms().limit.main) - HALF.limit)
    assert "ended without a word: 1 fit" in ledger.statement()


# ----------------------------------------------------------------------------------------------- the outer filter


@pytest.mark.slow
@pytest.mark.parametrize("currency", ["rho", "mu**2"])
def test_all_that_was_ever_charged_stays_within_the_limit(currency, path):
    """The proof of settling, run: fits that overlap, charge as they like, and end early or late."""
    own = ZCDP() if currency == "rho" else GaussianDP()
    ledger, chance = PrivacyLedger(path, epsilon=1.0, delta=1e-5, currency=currency), random.Random(1)
    limit, charged, running, refused = ledger.terms().limit.main, Fraction(0), [], 0
    for _ in range(150):
        if running and chance.random() < 0.5:
            stack, filtered = running.pop(chance.randrange(len(running)))
            stack.close()
        else:
            stack = contextlib.ExitStack()
            try:
                budget = Budget.of(chance.choice([0.1, 0.3, 0.5]), 1e-6, currency=own)
                opened = ledger.fit(budget, label="fit", adjacency="zero-out", private=True)
                running.append((stack, stack.enter_context(opened)))
            except BudgetExhausted:
                refused += 1
        for _, filtered in running:
            price = chance.uniform(0, 1.5) * filtered.remaining
            with contextlib.suppress(BudgetExhausted, ValueError):
                cost = GaussianCost(math.sqrt(2 * price if currency == "rho" else price))
                filtered.charge(cost, "release")
                charged += Fraction(own.price(cost))
        left = Fraction(ledger.remaining()[currency])
        assert charged <= limit
        assert limit - left >= charged * (1 - Fraction(1, 10**12)), "the ledger says less than was charged"
        assert limit - left >= sum(decimal(filtered.budget.limit) for _, filtered in running)
    assert refused > 10, "the limit was never reached"
    assert len({spend.counted[currency] for spend in ledger.history() if spend.state == "closed"}) > 5
    ledger.statement()


# --------------------------------------------------------------------------------------- handles, copies and pickles


def test_every_handle_on_a_file_is_the_same_budget(ledger, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    handles = [
        PrivacyLedger(path),
        PrivacyLedger("budget.db"),
        PrivacyLedger(Path(path), epsilon=2.0, delta=1e-5, currency="basic"),
        as_ledger(path),
        pickle.loads(pickle.dumps(ledger)),
    ]
    for count, handle in enumerate(handles, 1):
        assert handle == ledger
        assert hash(handle) == hash(ledger)
        fit(handle, Budget.of(0.1, 1e-7), charges=ANYTHING)
        assert ledger.remaining()["epsilon"] == pytest.approx(2 - 0.1 * count)
    assert ledger != ledger.on("a")
    assert ledger != path


def test_copies_are_the_ledger_itself(ledger):
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy(ledger) is ledger


def test_a_pickle_carries_the_name_of_the_file_and_the_identity_only(ledger, path):
    fit(ledger, charges=ANYTHING)
    handle = ledger.on("hospital A", note="again", who="Ada")
    state = pickle.dumps(handle)
    assert len(state) < 300
    loaded = pickle.loads(state)
    known = {"_path": path, "_datasets": ("hospital A",), "_timeout": 60.0, "_identity": ledger.identity}
    assert vars(loaded) == {**known, "_note": "again", "_who": "Ada", "_strayed": False}
    os.unlink(path)
    lost = pickle.loads(state)  # a model may be loaded where its ledger is not
    assert "missing" in repr(lost)
    with pytest.raises(LedgerError, match="there is no ledger"):
        lost.remaining()


def test_parameters_that_disagree_with_the_file_are_refused(ledger, path):
    for name, value in {"epsilon": 3.0, "delta": 1e-6, "currency": "rho", "allow_nonprivate": True}.items():
        with pytest.raises(ValueError, match=f"{name}=.*was created with {name}="):
            PrivacyLedger(path, **{name: value})
    with pytest.raises(ValueError, match="timeout=-1"):
        PrivacyLedger(path, timeout=-1)
    for bad in (b"budget.db", ""):
        with pytest.raises(ValueError, match="path="):
            PrivacyLedger(bad)
    with pytest.raises(ValueError, match="delta is missing"):
        PrivacyLedger(path + "2", epsilon=1.0)
    assert not os.path.exists(path + "2")


def test_what_an_estimator_may_be_given(ledger, path):
    assert as_ledger(None) is None
    assert as_ledger(ledger) is ledger
    assert as_ledger(Path(path)) == ledger
    for bad in (1.0, True, {}, b"x"):
        with pytest.raises(ValueError, match=r"ledger=|path="):
            as_ledger(bad)


def test_the_repr_tells_what_is_left(ledger, path):
    fit(ledger, charges=ANYTHING)
    text = repr(ledger)
    for part in (path, "epsilon=2", "delta=1e-05", "'basic'", "epsilon 1.5 and delta 9e-06 left after 1 fit"):
        assert part in text
    assert "hospital" in repr(ledger.on("hospital A"))


# -------------------------------------------------------------------------------------------------- what is refused


def test_another_adjacency_is_refused(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, adjacency="replace")
    with pytest.raises(ValueError, match=r"adjacency='zero-out'.*protects under 'replace'"):
        fit(ledger)
    fit(ledger, adjacency="replace", charges=ANYTHING)
    assert len(ledger.history()) == 1
    assert "replaced by any other" in ledger.statement()


def test_fits_that_are_not_private_are_refused(ledger):
    for budget, private in ((HALF, False), (None, True)):
        with pytest.raises(ValueError, match=r"would not be private.*allow_nonprivate=True"):
            fit(ledger, budget, private=private)
    assert ledger.history() == []


def test_fits_that_are_not_private_are_recorded_as_such_and_count_for_nothing(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, allow_nonprivate=True)
    fit(ledger, charges=ANYTHING)
    assert "NOT PRIVATE" not in ledger.statement()
    fit(ledger, Budget.of(50.0, 1e-6), private=False, charges=ANYTHING)
    fit(ledger, None, private=False)
    fit(ledger, None, private=True)
    assert ledger.remaining() == {"epsilon": 1.5, "delta": 9e-6}
    assert [(spend.private, spend.epsilon) for spend in ledger.history()] == [
        (True, 0.5),
        (False, 50.0),
        (False, math.inf),
        (False, math.inf),
    ]
    assert {spend.counted["epsilon"] for spend in ledger.history()} == {0.5, 0.0}
    assert ledger.statement().startswith("NOT PRIVATE: 3 fits recorded here")


def test_a_fit_without_an_amount_is_refused(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency="rho")
    with pytest.raises(ValueError, match=r"renyi\(40\) has no rho"):
        fit(ledger, Budget.of(0.5, 1e-6, currency=RenyiDP(40.0)))
    assert ledger.history() == []


# -------------------------------------------------------------------------------------------------------- data sets


def test_named_data_sets_add_up_unless_declared_disjoint(ledger):
    fit(ledger.on("hospital A"), charges=ANYTHING)
    fit(ledger.on("hospital B"), charges=ANYTHING)
    assert ledger.remaining() == ledger.on("hospital A").remaining() == {"epsilon": 1.0, "delta": 8e-6}
    assert [spend.datasets for spend in ledger.history()] == [("hospital A",), ("hospital B",)]
    assert len(ledger.on("hospital A").history()) == 1


def test_disjoint_data_sets_have_the_whole_budget_each(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, disjoint=["A", "B", "C"])
    a, b = ledger.on("A"), ledger.on("B")
    for _ in range(4):
        fit(a, charges=ANYTHING)
    with pytest.raises(BudgetExhausted, match=r"left in PrivacyLedger\(.*\)\.on\('A'\)"):
        fit(a)
    for _ in range(3):
        fit(b, charges=ANYTHING)
    assert a.remaining()["epsilon"] == 0.0
    assert b.remaining()["epsilon"] == 0.5
    assert ledger.remaining()["epsilon"] == 0.0, "a fit on all of the data is one on A"
    fit(ledger.on("B", "C"), charges=ANYTHING)
    assert b.remaining()["epsilon"] == 0.0
    assert ledger.on("C").remaining()["epsilon"] == 1.5
    assert "no row is in two of the data sets 'A', 'B', 'C'" in ledger.statement()


def test_a_fit_on_all_data_or_on_several_counts_in_every_account(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, disjoint=["A", "B"])
    fit(ledger, charges=ANYTHING)
    fit(ledger.on("A", "B"), charges=ANYTHING)
    fit(ledger.on("A", "A"), charges=ANYTHING)
    assert ledger.on("A").remaining()["epsilon"] == 0.5
    assert ledger.on("B").remaining()["epsilon"] == 1.0
    with contextlib.suppress(ValueError), ledger.fit(HALF, label="x", adjacency="zero-out", private=True):
        raise ValueError("bad data")
    assert ledger.on("B").remaining()["epsilon"] == 1.0
    ledger.statement()


def test_a_refused_fit_on_several_data_sets_changes_none(path):
    ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5, disjoint=["A", "B"])
    fit(ledger.on("B"), Budget.of(0.9, 1e-6), charges=ANYTHING)
    with pytest.raises(BudgetExhausted):
        fit(ledger.on("A", "B"))
    assert ledger.on("A").remaining()["epsilon"] == 1.0


def test_a_name_that_was_not_declared_is_refused(path):
    """A slip of the pen must not open a fresh budget."""
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, disjoint=["hospital A", "hospital B"])
    with pytest.raises(ValueError, match=r"dataset='hospital a' is not one of .*'hospital A', 'hospital B'"):
        ledger.on("hospital a")
    sneaked = pickle.loads(pickle.dumps(ledger))._bind(path, ("hospital C",), 1.0)
    with pytest.raises(ValueError, match="not one of the disjoint"):
        fit(sneaked)
    with pytest.raises(ValueError, match="must be a name"):
        ledger.on("")


# --------------------------------------------------------------------------------------------------- what it says


def test_what_is_left_is_exact(ledger):
    fit(ledger, Budget.of(0.1, 1e-7), charges=ANYTHING)
    assert ledger.left() == Amount(Fraction(19, 10), Fraction(99, 10**7))


def test_the_statement_promises_the_cap_and_not_what_was_counted(path):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency="rho")
    fit(ledger, charges=ANYTHING)
    statement = ledger.statement()
    for part in ("(2, 1e-05)-differential privacy", "1 so far", "one row", "Left: rho"):
        assert part in statement


def test_records_that_do_not_add_up_are_noticed(ledger, path):
    fit(ledger, charges=ANYTHING)
    ledger.statement()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE accounts SET amount = '1/4'")
    db.close()
    with pytest.raises(LedgerError, match="its sums are not those of its records"):
        ledger.statement()


def test_history_is_plain_data(ledger):
    fit(ledger, Budget.of(0.5, 0.0), charges=(PureCost(0.1),), label="score")
    (spend,) = ledger.history()
    assert isinstance(spend, Spend)
    assert (spend.number, spend.label, spend.datasets, spend.private) == (1, "score", (), True)
    assert (spend.epsilon, spend.delta) == (0.5, 0.0)
    assert pickle.loads(pickle.dumps(spend)) == spend
    assert Budget.of(0.5, 0.0).currency == PureDP()


# ----------------------------------------------------------------------------------------- threads and processes


def test_threads_share_one_budget(path):
    ledger, taken = PrivacyLedger(path, epsilon=3.0, delta=1e-3), []

    def work():
        for _ in range(10):
            with contextlib.suppress(BudgetExhausted):
                fit(ledger, Budget.of(0.1, 1e-6), charges=ANYTHING)
                taken.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 30
    assert ledger.remaining()["epsilon"] == 0.0


def drive(*arguments):
    command = [sys.executable, "-W", "ignore", str(DRIVER), *map(str, arguments)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    return result.stdout


@pytest.mark.slow
def test_eight_processes_at_once_spend_exactly_the_budget(path):
    """400 fits of 0.1 want 40, and 30 is there."""
    ledger = PrivacyLedger(path, epsilon=30.0, delta=1e-3)
    printed = drive("crowd", path, 8, 50)
    counts = [int(word) for word in printed.split("seconds")[0].split()]
    assert len(counts) == 8
    assert sum(counts) == 300
    assert printed.endswith("failed 0\n")
    assert ledger.remaining() == {"epsilon": 0.0, "delta": 7e-4}
    history = ledger.history()
    assert [spend.number for spend in history] == list(range(1, 301))
    assert {spend.state for spend in history} == {"closed"}
    ledger.statement()


@pytest.mark.thorough
@pytest.mark.slow
def test_a_process_that_is_killed_leaves_everything_that_it_drew_counted(tmp_path):
    """200 kills at random moments: of fits that only charge, and of whole fits of an estimator."""
    printed = drive("kill", tmp_path, 200)
    assert len(printed.split()) == 200
    open_fits = 0
    for number in range(4):
        ledger = PrivacyLedger(tmp_path / f"{number}.db")
        with sqlite3.connect(ledger.path) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            (held,) = db.execute("SELECT amount FROM accounts").fetchone()
        db.close()
        drawn = sum((Fraction(float(line)) for line in (tmp_path / f"{number}.log").read_text().split()), Fraction(0))
        assert drawn > 0
        assert Fraction(held) >= drawn * (1 - Fraction(1, 10**12))
        assert Fraction(held) <= ledger.terms().limit.main
        ledger.statement()  # its sums are those of its records
        open_fits += sum(spend.state == "open" for spend in ledger.history())
    assert open_fits >= 30, "enough kills have to fall into a fit"


def test_a_reservation_holds_no_connection_and_no_amount(ledger):
    reservation = ledger.reserve(HALF, label="fit", adjacency="zero-out", private=True)
    assert isinstance(reservation, Reservation)
    assert set(vars(reservation)) == {"_store", "_token", "_budget", "_private", "_terms", "_process"}


def test_the_ledger_guide_names_what_exists():
    guide = (Path(__file__).parents[1] / "docs" / "ledger.md").read_text()
    for name in ("history()", "search_cost", "private_score", "allow_nonprivate", "disjoint", "interval_on_rows"):
        assert name in guide
    for currency in CURRENCIES:
        assert f'`"{currency}"`' in guide


def fits_of(ledger):
    return [(spend.state, spend.counted.get("epsilon")) for spend in ledger.history()]


def test_a_fit_does_not_settle_for_another_one_in_a_backup_that_took_the_place_of_its_file(tmp_path):
    """Numbers of fits start again in such a file; the name that a fit was set aside under is nobody else's."""
    path = tmp_path / "budget.db"
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5)
    budget = Budget.of(1.0, 1e-6)
    ledger.backup(tmp_path / "backup.db")
    with pytest.raises(ValueError, match="a backup goes into a new file"):
        ledger.backup(tmp_path / "backup.db")
    first = ledger.fit(budget, label="first", adjacency="zero-out", private=True)
    first.__enter__()
    os.replace(tmp_path / "backup.db", path)
    with ledger.fit(budget, label="second", adjacency="zero-out", private=True) as filtered:
        with pytest.warns(UserWarning, match="another file than the one in which this fit was set aside"):
            first.__exit__(None, None, None)  # it drew nothing
        assert fits_of(ledger) == [("open", 1.0)]
        filtered.charge(GaussianCost(1e-3), "something")
    assert fits_of(ledger) == [("closed", 1.0)]


def test_a_plan_whose_currency_a_ledger_cannot_add_up_is_refused_without_a_trace(tmp_path):
    objective = ObjectiveDP.plan(1.0, 1e-6, 0.1, 1, replaced=False)
    other, descent = (Budget.of(1.0, 1e-6, currency=currency) for currency in (objective, GaussianDP()))
    what = {"label": "fit", "adjacency": "zero-out", "private": True}
    for currency, allowed in (("basic", True), ("mu**2", False), ("rho", False)):
        ledger = PrivacyLedger(tmp_path / f"{currency[:2]}.db", epsilon=2.0, delta=1e-5, currency=currency)
        if not allowed:
            for refused in (ledger.require_room, lambda *a, ledger=ledger, **k: ledger.fit(*a, **k).__enter__()):
                with pytest.raises(ValueError, match="has no"):
                    refused(other, **what)
            assert ledger.history() == []
        for budget in (other, descent) if allowed else (descent,):
            ledger.require_room(budget, **what)
            assert fits_of(ledger) == [("closed", 1.0)] * (budget is descent and allowed)
            with ledger.fit(budget, **what) as filtered:
                assert filtered.budget == budget
                filtered.charge(GaussianCost(1e-3), "something")


def test_sums_that_were_tampered_with_stop_everything(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=1e-5)
    with ledger.fit(Budget.of(1.0, 1e-6), label="fit", adjacency="zero-out", private=True) as filtered:
        filtered.charge(GaussianCost(1e-3), "something")
    with contextlib.closing(sqlite3.connect(ledger.path)) as db:
        db.execute("UPDATE accounts SET amount = '0'")
        db.commit()
    with pytest.raises(LedgerError, match="its sums are not those of its records"):
        ledger.reserve(Budget.of(1.0, 1e-6), label="fit", adjacency="zero-out", private=True)
    for handle in (ledger, ledger.on("a")):
        with pytest.raises(LedgerError, match="its sums are not those of its records"):
            handle.statement()


def test_a_second_name_of_the_file_is_refused(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=1e-5)
    os.link(ledger.path, tmp_path / "other.db")
    for path in (ledger.path, tmp_path / "other.db"):
        with pytest.raises(LedgerError, match="has a second name"):
            PrivacyLedger(path)


def test_what_is_not_private_voids_every_statement_unless_data_sets_are_disjoint(tmp_path):
    for disjoint in (None, ["a", "b"]):
        path = tmp_path / f"{disjoint is None}.db"
        ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, disjoint=disjoint, allow_nonprivate=True)
        ledger.on("b").reserve(None, label="fit", adjacency="zero-out", private=False)
        assert ("NOT PRIVATE" in ledger.on("a").statement()) == (disjoint is None)
        assert "NOT PRIVATE" in ledger.on("b").statement()
