"""Protein angles for the density benchmarks: random training and test rows of Top500 and Top8000, both downloaded."""

from __future__ import annotations

import hashlib

import numpy as np
import timing

from mgvm.datasets import fetch_rotamers, fetch_top500

FILES = {
    "backbone": "top500.txt",
    "cys": "rota8000-cys-noss.csv",
    "his": "rota8000-his.csv",
    "lys": "rota8000-lys.csv",
}
TEST_SHARE = 5  # one chain of so many is a test chain, as `fetch_rotamers` splits structures


def download(command, names):
    """Say which files of the named data are missing, and download them."""
    timing.download(command, [FILES[name] for name in names])


def load(name):
    """All training and test rows, in radians; no chain of a protein is in both."""
    if name == "backbone":
        residues = fetch_top500()
        test = np.isin(residues.structure, [chain for chain in np.unique(residues.structure) if _is_test(chain)])
        return residues.angles[~test], residues.angles[test]
    residues = fetch_rotamers(name.upper())
    return residues.train, residues.valid


def _is_test(chain):
    return int(hashlib.md5(chain.encode(), usedforsecurity=False).hexdigest(), 16) % TEST_SHARE == 0


def rows(name, seed, n_train=None, n_test=None):
    """Rows drawn without replacement from either side of the split; all of them by default."""
    train, test = load(name)
    rng = np.random.default_rng(seed)
    if n_train is not None:
        train = train[rng.permutation(len(train))[:n_train]]
    if n_test is not None:
        test = test[rng.permutation(len(test))[:n_test]]
    return train, test
