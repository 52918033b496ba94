"""What the accounting of Chen & Lee (2020) claims for the line search on networks, beside what is proved.

    python -m benchmarks.paper_price

Two of its steps are false: the price of a Gaussian search does not grow with the number of steps that may be tried
(Theorem 3), and gradient and search of one batch are amplified apart, though both see the same rows. Two others are
loose: Lemma 4 has a factor of 3, and Proposition 1 converts less exactly than we do (docs/departures.md).
"""

from __future__ import annotations

import math

from .inside import LineSearchSGD, Sampling, amplification, conversions

ORDERS = amplification.ORDERS


def claimed_epsilon(solver: LineSearchSGD, mu: float, delta: float) -> float:
    """Return the epsilon that the paper claims for all steps of a solver whose gradients have precision ``mu``.

    Gradient and search are (a, a rho)-RDP with rho = mu^2/2 and epsilon^2/2, each amplified by Lemma 4. Proposition 1
    adds log(1/delta)/(a - 1).
    """
    rate, strengths = solver.sampling.rate, (mu, solver.search_share * mu)

    def step(order: int) -> float:
        return sum(amplification.poisson_general_rdp(order, rate, lambda a, s=s: a * s * s / 2) for s in strengths)  # type: ignore[misc]

    return min(solver.steps * step(a) - math.log(delta) / (a - 1) for a in ORDERS)


def proved_epsilon(solver: LineSearchSGD, mu: float, delta: float) -> float:
    """Return the epsilon that is proved for the same steps, at the best order."""
    cost = solver.sampling.cost(solver.costs(mu))
    return min(conversions.rdp_epsilon([a], [solver.steps * cost.rdp(a)], delta) for a in ORDERS)


def main() -> None:
    print("| steps | candidates | mu of a gradient | claimed epsilon | proved epsilon | ratio |")
    print("|---|---|---|---|---|---|")
    for steps in (500, 2000):
        for candidates in (1, 15, 30):
            for mu in (0.5, 1.0, 2.0):
                solver = LineSearchSGD.of_paper(Sampling(1 / 200), steps, candidates=candidates)
                claimed, proved = (f(solver, mu, 1e-8) for f in (claimed_epsilon, proved_epsilon))
                print(f"| {steps} | {candidates} | {mu:g} | {claimed:.3f} | {proved:.3f} | {proved / claimed:.3f} |")


if __name__ == "__main__":
    main()
