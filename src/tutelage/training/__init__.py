"""The training loop: real student steps, and a teacher step now and then.

A ``Tutor`` prepares a batch, runs the student, moves it, and hands the window of steps to the
signal. It knows signals by their protocol alone. Start with ``tutor.py``, then ``forward.py``
and ``step.py``.
"""
