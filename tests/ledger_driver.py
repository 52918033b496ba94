"""Real processes on one ledger file: children that are killed at random moments, and a crowd of them at once.

    python ledger_driver.py kill DIRECTORY RUNS    one child after the other, each killed while it fits and fits
    python ledger_driver.py crowd PATH CHILDREN FITS    children that all fit at once

Children are forked from one warm process, so that 200 of them take seconds. They write each draw to a log at the moment
it is made; a test compares the log with the ledger.
"""

import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from dpsk import BudgetExhausted, DPAGDLogisticRegression, PrivacyLedger
from dpsk.data import PrivateData
from dpsk.privacy import Budget, GaussianCost

RHO = 0.001


def log(path, text):
    with open(path, "ab", buffering=0) as file:  # one write to the end of the file: kept if the process dies next
        file.write(f"{text}\n".encode())


def light_fits(ledger, drawn):
    """Fits that do nothing but charge: one that uses a part of its budget, one that draws nothing, and so on."""
    budget = Budget.from_rho(RHO, 1e-6)
    for turn in range(1, 1_000_000):
        with ledger.fit(budget, label="light", adjacency="zero-out", private=True) as filtered:
            for _ in range(turn % 4):
                filtered.charge(GaussianCost(0.02), "draw")
                log(drawn, repr(0.02 * 0.02 / 2))


def real_fits(ledger, drawn):
    """Whole fits of an estimator, which log every price right before the noise is drawn."""
    pay = PrivateData._pay

    def logged(self, cost, label):
        turn = pay(self, cost, label)
        log(drawn, repr(cost.rho))
        return turn

    PrivateData._pay = logged
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    while True:
        DPAGDLogisticRegression(rho=RHO, splits=5, ledger=ledger).fit(X, X[:, 0] > 0)


def child(work):
    """Run ``work`` in a forked process, and return its id."""
    number = os.fork()
    if number:
        return number
    try:
        work()
    except BudgetExhausted:
        os._exit(3)
    except BaseException as error:
        print(f"child failed: {error!r}", file=sys.stderr, flush=True)
        os._exit(4)
    os._exit(0)


def seconds_of_a_fit(directory):
    """How long the disk takes for one fit that does nothing else."""
    ledger = PrivacyLedger(directory / "trial.db", epsilon=50.0, delta=1e-6, currency="rho")
    start = time.perf_counter()
    for _ in range(5):
        with ledger.fit(Budget.from_rho(RHO, 1e-6), label="trial", adjacency="zero-out", private=True):
            pass
    return (time.perf_counter() - start) / 5


def kill(directory, runs):
    directory, chance = Path(directory), random.Random(0)
    longest = 0.04 + 4 * seconds_of_a_fit(directory)
    for run in range(runs):
        path, drawn = directory / f"{run % 4}.db", directory / f"{run % 4}.log"
        drawn.touch()
        ledger = PrivacyLedger(path, epsilon=50.0, delta=1e-6, currency="rho")
        fits = real_fits if run % 2 else light_fits
        number = child(lambda fits=fits, ledger=ledger, drawn=drawn: fits(ledger, drawn))
        time.sleep(chance.uniform(0, longest))
        os.kill(number, signal.SIGKILL)
        _, status = os.waitpid(number, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"the child of run {run} ended by itself: {status}")
        print(ledger.remaining()["rho"], flush=True)  # the ledger can be read after every kill


def crowd(path, children, fits):
    ledger = PrivacyLedger(path)
    budget = Budget.of(0.1, 1e-6)

    def work():
        taken = 0
        for _ in range(fits):
            try:
                with ledger.fit(budget, label=f"{os.getpid()}", adjacency="zero-out", private=True) as filtered:
                    filtered.charge(GaussianCost(1e-3), "draw")
                taken += 1
            except BudgetExhausted:
                pass
        print(f"{taken} ", end="", flush=True)

    start = time.perf_counter()
    numbers = [child(work) for _ in range(children)]
    failed = sum(os.waitpid(number, 0)[1] != 0 for number in numbers)
    print(f"seconds {time.perf_counter() - start:.2f} failed {failed}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "kill":
        kill(sys.argv[2], int(sys.argv[3]))
    else:
        crowd(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
