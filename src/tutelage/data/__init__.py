"""What a training loop of one's own needs of its data: ids that stay with examples, and orders.

Start with ``loaders.py``.
"""
