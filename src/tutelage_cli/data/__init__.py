"""Readers of data sets: folders, tables, Parquet, the Hub.

A source becomes labelled images or texts in memory, with classes that all parts agree on and
ids that stay with examples. It knows nothing of training. Start with ``sources.py``.
"""
