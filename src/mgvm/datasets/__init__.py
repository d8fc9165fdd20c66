"""Data to try things on, in scikit-learn's three words.

``load_*`` come with the package, ``fetch_*`` are downloaded on first use, checked and kept, ``make_*`` are simulated.
"""

from mgvm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
