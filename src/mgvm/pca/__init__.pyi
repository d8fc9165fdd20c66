from mgvm.pca.estimator import CircularPCA as CircularPCA
from mgvm.pca.ppca import PPCA as PPCA
from mgvm.pca.skeleton import KinematicTree as KinematicTree
