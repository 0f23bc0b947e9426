"""Atomic writes of files and folders.

Writes files whole or not at all, keeps checkpoints that are read without running code, and
names the tensors of a state that do not fit a module. Start with ``atomic_files.py``.
"""
