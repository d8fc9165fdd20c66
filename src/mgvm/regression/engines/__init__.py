"""Ways to the posterior of a circular Gaussian process: dense, neighbours, chain, and those of the paper."""
