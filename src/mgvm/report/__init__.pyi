from mgvm.report.density import density_report as density_report
from mgvm.report.page import Page as Page
from mgvm.report.pca import pca_report as pca_report
from mgvm.report.regression import regression_report as regression_report
