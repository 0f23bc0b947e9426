"""Teach neural networks how to be trained."""
