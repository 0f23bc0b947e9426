"""Input validation of shapes, labels and ranges.

Knows tensors and numbers only. Start with ``shapes.py``.
"""
