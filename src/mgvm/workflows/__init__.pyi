from mgvm.workflows.density import run_density as run_density
from mgvm.workflows.pca import run_pca as run_pca
from mgvm.workflows.regression import run_regression as run_regression
from mgvm.workflows.results import DensityResult as DensityResult
from mgvm.workflows.results import PcaResult as PcaResult
from mgvm.workflows.results import RegressResult as RegressResult
