from mgvm.circle.base import CircularDistribution as CircularDistribution
from mgvm.circle.base import Modes as Modes
from mgvm.circle.grid_density import GridDensity as GridDensity
from mgvm.circle.gvm import GvM as GvM
from mgvm.circle.gvm import VonMises as VonMises
from mgvm.circle.projected_normal import ProjectedNormal as ProjectedNormal
from mgvm.circle.wrapped_normal import WrappedNormal as WrappedNormal
