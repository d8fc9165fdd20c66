from mgvm.mixture.estimator import TorusMixture as TorusMixture
from mgvm.mixture.missing import ConditionalMixture as ConditionalMixture
