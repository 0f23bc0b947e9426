"""``tutelage report``: several runs compared.

Start with ``runs.py``.
"""
