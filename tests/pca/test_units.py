"""The unit of latent angles, and names of columns."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from mgvm import CircularPCA, angles


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    phase = rng.uniform(-np.pi, np.pi, 150)
    waves = np.column_stack([np.cos(phase), np.sin(phase), np.cos(phase - 1.0)])
    return pd.DataFrame(waves + 0.1 * rng.normal(size=(150, 3)), columns=["x", "y", "z"])


def test_latent_angles_in_degrees(table):
    plain = CircularPCA(random_state=0).fit(table)
    model = CircularPCA(random_state=0, unit="degrees").fit(table)
    turned = model.transform(table)
    assert turned.min() >= 0.0
    assert turned.max() > 300.0
    assert_allclose(angles.difference(angles.from_degrees(turned), plain.transform(table)), 0.0, atol=1e-9)
    assert_allclose(model.inverse_transform(turned), plain.inverse_transform(plain.transform(table)), atol=1e-9)
    rows, latent = model.sample(5, random_state=1)
    others, radians = plain.sample(5, random_state=1)
    assert_allclose(rows, others)
    assert_allclose(angles.difference(angles.from_degrees(latent), radians), 0.0, atol=1e-9)


def test_dask_arrays_stay_dask_arrays(table):
    dask = pytest.importorskip("dask.array")
    model = CircularPCA(random_state=0, unit="hours").fit(table)
    lazy = model.transform(dask.from_array(table.to_numpy(), chunks=(50, 3)))
    assert_allclose(lazy.compute(), model.transform(table), atol=1e-9)


def test_names_and_bad_input(table):
    model = CircularPCA(random_state=0).set_output(transform="pandas").fit(table)
    assert list(model.feature_names_in_) == ["x", "y", "z"]
    assert list(model.transform(table)) == ["circularpca0"]
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        model.transform(table[["y", "x", "z"]])
    with pytest.raises(ValueError, match="text in column 'leg'; leave it out"):
        model.fit(table.assign(leg="left"))
    with pytest.raises(ValueError, match="unit must be one of"):
        CircularPCA(unit="gon").fit(table)
