"""Fan et al. 2021, Learning to Reweight with Deep Interactions."""
