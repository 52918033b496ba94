"""What the benchmarks use of the inside of dpsk: everything that is not in ``dpsk`` itself is imported here.

A true gradient or a number of passes is nobody's to see. They are seen here, behind the door, for public data alone.
"""

# ruff: noqa: F401

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

from dpsk.audits import Claim
from dpsk.audits.coins import Coin
from dpsk.audits.compare_models import compare_models
from dpsk.audits.neighbouring import Data, Pair, made_data
from dpsk.data import ArrayRows, Compact, Door, Facts, PrivateData, Query, RowMap, Schema
from dpsk.data.arrays import blocks_of
from dpsk.data.grid import check_clip, power_of_two_above, weights_on_grid
from dpsk.data.persons import Persons
from dpsk.encodings import LinearEncoding, standardization
from dpsk.estimators import LossNamed, NumericClassifier, Plan, l2_of, plan_of, with_parameters_of
from dpsk.estimators.default_classifiers import PRECISE
from dpsk.estimators.plan import EACH, FIELD, ONCE, WIDE, hopeful_product, strength_of
from dpsk.evaluation import BinaryEvaluation, Estimate, MulticlassEvaluation, PrivateEvaluation
from dpsk.evaluation.opinions import ABOVE_ZERO, Asked, Opinions, opinions
from dpsk.evaluation.release import Released, Releases
from dpsk.evaluation.release import release as release_levels
from dpsk.losses import HuberHinge, Logistic, Loss, MarginLoss, Sigmoid, Softmax
from dpsk.mechanisms import (
    ArgMin,
    Gaussian,
    Laplace,
    NoisyMin,
    NormGamma,
    PermuteAndFlip,
    SeededBits,
    Sensitivity,
    SymmetricGaussian,
    SystemBits,
    additive,
    bits_for,
    randomness,
    spherical,
)
from dpsk.mechanisms.additive import noise_scale
from dpsk.mechanisms.samplers import discrete_laplace
from dpsk.mechanisms.staircase import rounded_gaussian
from dpsk.minimizers import AttackedSum, RegularizedSum, TiltedSum, newton
from dpsk.minimizers.regularized import SumOverRows
from dpsk.model_selection import Poisson, TruncatedNegativeBinomial
from dpsk.model_selection.runs import Space
from dpsk.networks import Convolution, Dense, MaxPooling, Network
from dpsk.networks.activations import Ramp
from dpsk.networks.signals import SLOPE_STEP, signals_of
from dpsk.objectives import Linear, LinearObjective, NetworkObjective
from dpsk.objectives.network_objective import decay_of
from dpsk.penalties import L2, Bounded
from dpsk.privacy import (
    ZCDP,
    Budget,
    BudgetExhausted,
    GaussianCost,
    GaussianDP,
    Ledger,
    RenyiDP,
    Sampling,
    amplification,
    best_order,
    conversions,
)
from dpsk.privacy.conversions import gaussian_mu, paper_mu
from dpsk.privacy.currencies import require_single_row
from dpsk.privacy.discovery import Discovery
from dpsk.privacy.repetition import BestOf, Law
from dpsk.privacy.units import ROW
from dpsk.queries import GradientSum, HessianSum, LossesAlong
from dpsk.queries.network_gains import NetworkGains
from dpsk.queries.network_gradient import NetworkGradient
from dpsk.solvers import Diagnostics, Solver, gradient_descent, output_perturbation, precision, run, sampled
from dpsk.solvers.adaptive_gradient import AdaptiveGradient
from dpsk.solvers.line_search_sgd import LineSearchSGD
from dpsk.solvers.output_perturbation import strength
from dpsk.solvers.second_order import Constants, SecondOrder
from dpsk.solvers.sgd import SGD
from dpsk.testing import extreme_rows

CANDIDATES = AdaptiveGradient().candidates
"""How many steps DP-AGD chooses from."""


def adaptive_fit(X, y, epsilon: float, loss: Loss, n_classes: int = 2) -> dict[str, int]:
    """Fit DP-AGD without an estimator around it; return the number of releases of each kind."""
    rows = ArrayRows(X, y, RowMap(n_classes=n_classes if n_classes > 2 else None))
    data = PrivateData(rows, Ledger(Budget.of(epsilon, 1e-6)), SystemBits())
    shape = (data.n_parameters,) if n_classes == 2 else (data.n_parameters, n_classes)
    run(AdaptiveGradient(), data, LinearObjective(loss, L2(1e-3, free_intercept=True), shape))
    return counts(data.report().releases)


def counts(releases) -> dict[str, int]:
    """Return the number of releases of each kind."""
    found: dict[str, int] = {}
    for release in releases:
        found[release.label] = found.get(release.label, 0) + release.count
    return found


def _sums(loss, w, chunk) -> np.ndarray:
    """Return the sums of gradients and of losses over some rows, nothing clipped, in multiples of 2^-30."""
    scores = chunk.scores(w)
    rows = chunk.dense(slice(None)) * chunk.scale[:, None]
    values = np.append(loss.derivative(scores, chunk.y) @ rows, loss.value(scores, chunk.y).sum())
    return np.rint(values * 2.0**30).astype(np.int64)


@contextmanager
def seen_gradients() -> Iterator[list[tuple[float, float, float, float]]]:
    """Note of every gradient that is released: its true norm, its norm, that of its noise, and the loss there."""
    measure, release = PrivateData.measure, PrivateData.release
    queries: dict[int, GradientSum] = {}
    seen: list[tuple[float, float, float, float]] = []

    def watched_measure(data, query):
        sealed = measure(data, query)
        if isinstance(query, GradientSum):
            queries[id(sealed)] = query
        return sealed

    def watched_release(data, sealed, mechanism):
        released = release(data, sealed, mechanism)
        if isinstance(mechanism, Gaussian) and (query := queries.get(id(sealed))) is not None:
            n, w = data.n_rows, query.w
            *gradient, loss = data._rows.total(functools.partial(_sums, query.loss, w)) * 2.0**-30 / n
            noise = sealed.sensitivity.l2 * sealed.unit / mechanism.mu * math.sqrt(w.size) / n
            seen.append((float(np.linalg.norm(gradient)), float(np.linalg.norm(released)) / n, noise, loss))
        return released

    measured = mock.patch.object(PrivateData, "measure", watched_measure)
    released = mock.patch.object(PrivateData, "release", watched_release)
    with measured, released:
        yield seen


@contextmanager
def counted_passes() -> Iterator[dict[str, int]]:
    """Count the passes of perturbed objectives, of which a model says nothing; a Hessian counts for each class."""
    found = {"gradient": 0, "losses": 0, "product": 0, "Hessian": 0}
    of_losses, products, hessians = SumOverRows._of_losses, SumOverRows.products, SumOverRows.hessians

    def counted_losses(self, *at):
        found["gradient"] += 1
        return of_losses(self, *at)

    def counted_products(self, *at):
        multiply = products(self, *at)

        def counted(direction):
            found["product"] += 1
            return multiply(direction)

        return counted

    def counted_hessians(self, w, damping, which=None):
        found["Hessian"] += w.shape[1] if which is None else len(which)
        return hessians(self, w, damping, which)

    with (
        mock.patch.object(SumOverRows, "_of_losses", counted_losses),
        mock.patch.object(SumOverRows, "products", counted_products),
        mock.patch.object(SumOverRows, "hessians", counted_hessians),
    ):
        yield found


@contextmanager
def with_constants(modules, constants: dict[str, object]) -> Iterator[None]:
    """Let a default rule have other constants."""
    with ExitStack() as changed:
        for name, value in constants.items():
            for module in modules:
                if hasattr(module, name):
                    changed.enter_context(mock.patch.object(module, name, value))
        yield


def order_and_epsilon(costs, rate: float, times: int, delta: float) -> tuple[float, float]:
    """Return the least epsilon of so many batches that pay these costs each, and the Renyi order that promises it."""
    price = Sampling(rate).cost(costs)
    found = ((RenyiDP(order).epsilon(times * price.rdp(order), delta), order) for order in amplification.ORDERS)
    epsilon, order = min(found)
    return order, epsilon


@contextmanager
def seen_steps() -> Iterator[list[float]]:
    """Note every step that a search of DP-SGD chooses."""
    step, seen = LineSearchSGD.step, list[float]()

    def watched(*given):
        seen.append(step(*given))
        return seen[-1]

    with mock.patch.object(LineSearchSGD, "step", watched):
        yield seen
