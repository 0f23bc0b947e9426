"""Yi et al. 2021, Reweighting Augmented Samples by Minimizing the Maximal Expected Loss."""
