"""Input validation: shapes, labels and ranges, each refused by name.

Knows tensors and numbers only. Start with ``shapes.py``.
"""
