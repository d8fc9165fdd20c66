"""Pictures of angles: functions that take ``ax=`` and return what they drew.

Everything radial follows one rule, so that a histogram and the density of a distribution can share axes: a density f is
drawn at the radius sqrt(2 f). The area between two directions is then the probability between them, and all of it is 1.

Matplotlib is needed (``pip install "mgvm[plot]"``) and loads on the first call.
"""

from mgvm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
