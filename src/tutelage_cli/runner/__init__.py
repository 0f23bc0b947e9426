"""Run folders, worker processes, and the signals that end a run.

A run's folder is complete at every moment and belongs to one run. Start with ``run_folder.py``.
"""
