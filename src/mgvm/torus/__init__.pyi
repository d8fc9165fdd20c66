from mgvm.torus.mgvm import MGvM as MGvM
from mgvm.torus.wrapped_normal import MultivariateWrappedNormal as MultivariateWrappedNormal
