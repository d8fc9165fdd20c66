"""The mGvM as an exponential family: parameters, forms, log density and coupling graph."""
