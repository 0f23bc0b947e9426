"""Müller et al. 2021, In-Loop Meta-Learning with Gradient-Alignment Reward."""
