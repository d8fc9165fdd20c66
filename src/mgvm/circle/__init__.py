"""Laws on the circle."""

from mgvm.circle.gvm import GvM
from mgvm.circle.law import CircleLaw, Modes
from mgvm.circle.projected_normal import ProjectedNormal
from mgvm.circle.von_mises import VonMises
from mgvm.circle.wrapped_normal import WrappedNormal

__all__ = ["CircleLaw", "GvM", "Modes", "ProjectedNormal", "VonMises", "WrappedNormal"]
