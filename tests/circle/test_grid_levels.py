"""Highest-density levels read off a grid, against sums node by node."""

import numpy as np
import pytest
from portable import periodic_grid

from mgvm import VonMises
from mgvm.circle.highest_density import grid_levels


@pytest.mark.parametrize("mass", [0.01, 0.5, 0.9, 0.999])
def test_the_level_is_that_of_the_least_dense_node_needed(mass):
    rng = np.random.default_rng(0)
    density, probability = rng.uniform(size=(2, 5, 40))
    found = grid_levels(density, [mass], probability=probability)[0]
    for row in range(5):
        share = probability[row] / probability[row].sum()
        held = np.array([share[density[row] >= level].sum() for level in density[row]])
        assert found[row] == density[row][held >= mass].max()


def test_masses_come_first_and_the_batch_behind():
    density = np.random.default_rng(1).uniform(size=(3, 4, 30))
    levels = grid_levels(density, [0.5, 0.9])
    assert levels.shape == (2, 3, 4)
    assert (levels[0] >= levels[1]).all()


def test_levels_between_nodes_are_nearer_to_those_of_the_continuous_density():
    dist = VonMises(np.linspace(0.0, 0.1, 60), 5.0)
    exact = dist[0].pdf(dist[0].interval(0.9)[0, 1])
    density = dist[:, None].pdf(periodic_grid(256))
    between, at_node = (np.abs(grid_levels(density, 0.9, interpolate=way) / exact - 1.0) for way in (True, False))
    assert between.max() < 0.02
    assert between.mean() < at_node.mean()
