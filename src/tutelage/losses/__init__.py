"""Losses of every example, and their weighted mean.

An objective gives one loss for each row; the reduction makes one number of losses, weights and
rows without a label. It knows nothing of students or teachers. Start with ``objectives.py``.
"""
