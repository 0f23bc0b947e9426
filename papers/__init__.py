"""Reproduction of four papers: ``python -m papers list``, ``reproduce`` and ``claims``.

Each table or figure is a recipe, a frozen record of arms, settings and claims. It is no part of
the wheel. Start with ``catalogue.py``, then any recipe.
"""
