"""Protein angles for the density benchmarks: random training and test rows out of `benchmarks/data`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from mgvm.datasets import load_protein_asp

DATA = Path(__file__).parent / "data"


def load(name):
    """All training and validation rows of `protein_<name>.csv.gz`, in radians; those of ASP ship with the package."""
    if name == "asp":
        asp = load_protein_asp()
        return asp.train, asp.valid
    table = pd.read_csv(DATA / f"protein_{name}.csv.gz")
    angles = np.deg2rad(table.filter(like="_deg").to_numpy())
    return angles[table["split"] == "train"], angles[table["split"] == "valid"]


def rows(name, seed, n_train=None, n_test=None):
    """Rows drawn without replacement from either side of the split; all of them by default."""
    train, test = load(name)
    rng = np.random.default_rng(seed)
    if n_train is not None:
        train = train[rng.permutation(len(train))[:n_train]]
    if n_test is not None:
        test = test[rng.permutation(len(test))[:n_test]]
    return train, test
