import os

import pytest

from mgvm._numerics.gvm import dispatch


@pytest.fixture
def many():
    """How many distributions a sweep holds: hundreds compiled, a handful when every loop runs in the interpreter."""
    return 3 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 300


@pytest.fixture(params=["compiled", "numpy"])
def execution(request, monkeypatch):
    """Whatever the size of a batch of GvM, compiled code or NumPy answers."""
    monkeypatch.setattr(dispatch, "SMALL", 0 if request.param == "compiled" else 1 << 40)
    return request.param
