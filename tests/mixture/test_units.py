"""The unit of a mixture's columns: degrees in, degrees out, and a unit for each column."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from portable import von_mises_draws

from mgvm import TorusMixture, angles

UNITS = ["compass", "hours"]


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(0)
    first = von_mises_draws(rng, 0.5, 4.0, 120)
    return np.asarray(angles.wrap(np.column_stack([first, first + 0.3 * rng.normal(size=120)])))


@pytest.fixture(scope="module")
def both(x):
    plain = TorusMixture(2, component="von_mises", random_state=0).fit(x)
    table = pd.DataFrame(angles.from_radians(x, UNITS), columns=["wind", "hour"])
    return plain, TorusMixture(2, component="von_mises", random_state=0, unit=UNITS).fit(table), table


def test_the_same_mixture(both, x):
    plain, other, table = both
    # Conversion rounds to 1e-15 of a turn, and EM stops at 1e-5 nats either way: the paths are the same.
    assert_allclose(other.score_samples(table), plain.score_samples(x), atol=1e-8)
    assert_allclose(other.predict_proba(table), plain.predict_proba(x), atol=1e-8)


def test_draws_and_gaps_come_back_in_the_units(both, x):
    plain, other, table = both
    draws, _ = other.sample(50, random_state=1)
    assert_allclose(
        angles.difference(angles.to_radians(draws, UNITS), plain.sample(50, random_state=1)[0]), 0.0, atol=1e-6
    )
    assert draws.min() >= 0.0
    assert draws[:, 1].max() < 24.0
    gaps = table.where(np.arange(120)[:, None] % 7 != [0, 3])
    filled = other.impute(gaps)
    assert_allclose(filled[~gaps.isna().to_numpy()], table.to_numpy()[~gaps.isna().to_numpy()], rtol=1e-12)
    expected = plain.impute(np.where(gaps.isna(), np.nan, x))
    assert_allclose(angles.difference(angles.to_radians(filled, UNITS), expected), 0.0, atol=1e-6)


def test_conditionals_take_the_unit_of_their_column(both):
    plain, other, _ = both
    at = other.conditional({"hour": 6.0})
    assert at.mean_direction() == pytest.approx(plain.conditional({1: np.pi / 2}).mean_direction(), abs=1e-6)
    north = other.conditional({"wind": 0.0})
    assert north.mean_direction() == pytest.approx(plain.conditional({0: np.pi / 2}).mean_direction(), abs=1e-6)


def test_bad_input(both, x):
    _, other, table = both
    with pytest.raises(ValueError, match="unit must be one of 'radians', 'degrees', 'compass', 'hours', got 'gon'"):
        TorusMixture(unit="gon").fit(x)
    with pytest.raises(ValueError, match="one name for all columns or one for each, got 3 names"):
        TorusMixture(unit=["hours"] * 3).fit(x)
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        other.score_samples(table[["hour", "wind"]])
    with pytest.raises(ValueError, match="text in column 'station'; leave it out"):
        TorusMixture().fit(table.assign(station="Kiel"))
