"""Raghu et al. 2021, Teaching with Commentaries."""
