"""The training loop: student steps, and teacher steps at intervals.

Start with ``Tutor.step`` in ``tutor.py``, then ``step.py`` and ``forward.py``.
"""
