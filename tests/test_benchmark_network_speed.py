"""The floor of networks' passes counts the products that backpropagation needs. Nothing is timed here."""

import numpy as np
import pytest

from benchmarks import network_peers, table
from benchmarks.experiments import network_speed
from benchmarks.table import Rows


def operations(name, work, n, monkeypatch):
    """Return how many multiplications the bare products of n rows make."""
    made = []
    product = network_speed.Products._product

    def counting(self, a, b, name):
        made.append(a.size * b.shape[-1])
        product(self, a, b, name)

    monkeypatch.setattr(network_speed.Products, "_product", counting)
    network = network_speed.network_of(name)
    X, _ = network_speed.rows_of(network, n, network_speed.DENSE)
    next(network_speed.floors(network, X, work, network_speed.DENSE))()
    return sum(made)


def test_the_floor_makes_every_product_of_backpropagation_once(monkeypatch):
    n = 37  # the last block is not full
    dense = operations("784-256-256-10", network_speed.GRADIENT, n, monkeypatch)
    assert dense == n * (2 * 784 * 256 + 3 * 256 * 256 + 3 * 256 * 10)
    monkeypatch.undo()
    images = operations(network_speed.CNN, network_speed.GRADIENT, n, monkeypatch)
    assert images == n * (2 * 576 * 25 * 6 + 3 * 64 * 150 * 16 + 3 * (256 * 256 + 256 * 128 + 128 * 10))


def test_the_floor_of_gains_goes_backward_once(monkeypatch):
    points = network_speed.STEPS + 1
    made = operations(network_speed.CNN, network_speed.GAINS, 5, monkeypatch)
    dense = 256 * 256 + 256 * 128 + 128 * 10
    assert made == 5 * ((2 + 1) * 576 * 25 * 6 + (points + 2) * 64 * 150 * 16 + (points + 1) * dense)


def test_the_windows_of_the_floor_are_those_of_images():
    bare = network_speed.Products(network_speed.network_of(network_speed.CNN), 3)
    rng = np.random.default_rng(0)
    for i, shape in ((0, (28, 28, 1)), (1, (12, 12, 6))):
        images = rng.random((3, *shape))
        found = bare._windows(i, images)
        across = shape[1] - 4
        for place in (0, across + 1, across * across - 1):
            y, x = divmod(place, across)
            assert np.array_equal(found[:, place], images[:, y : y + 5, x : x + 5].reshape(3, -1))


def test_the_report_says_where_the_ratio_is_largest(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    measured = [("784-1000-10", "500", "1.50"), ("108-100-1", "500", "3.90")]
    rows = [
        {"network": name, "rows": n, "storage": "dense", "work": "gradient", "pass, us per row": "3",
         "floor, us per row": "1", "ratio": ratio, "rounds": "3"}
        for name, n, ratio in measured
    ]  # fmt: skip
    monkeypatch.setattr(table.Table, "rows", lambda self: Rows(rows if self.name == "network_speed" else []))
    network_speed.report()
    text = (tmp_path / "network_speed.md").read_text()
    assert "| gradient | 3.90 | 108-100-1 | 500 | dense |" in text
    assert "Opacus was not installed" in text


def test_peers_have_the_same_network():
    torch = pytest.importorskip("torch")
    for name in (network_speed.CNN, "784-256-256-10"):
        network = network_speed.network_of(name)
        model = network_peers.model(torch.nn, network)
        assert sum(part.numel() for part in model.parameters()) == network.n_weights
        X = torch.zeros((2, 1, 28, 28) if name == network_speed.CNN else (2, 784))
        assert model(X).shape == (2, 10)
