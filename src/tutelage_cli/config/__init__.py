"""Settings, which are frozen dataclasses, from YAML files and flags.

Start with ``settings_files.py``.
"""
