"""Run folders and worker processes.

A run's folder is complete at every moment and belongs to one run. Start with ``run_folder.py``.
"""
