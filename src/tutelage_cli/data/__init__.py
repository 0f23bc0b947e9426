"""Readers of data sets: folders, tables, Parquet, the Hub.

A source becomes labelled images, texts or feature vectors, with classes that all parts agree
on and ids that stay with examples; large arrays are memory-mapped (``mapped.py``). It knows
nothing of training. Start with ``sources.py``.
"""
