from mgvm.mixture.conditional import ConditionalMixture as ConditionalMixture
from mgvm.mixture.estimator import TorusMixture as TorusMixture
