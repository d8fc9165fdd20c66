import os

import pytest


@pytest.fixture
def many():
    """How many distributions a sweep holds: hundreds compiled, a handful when every loop runs in the interpreter."""
    return 3 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 300
