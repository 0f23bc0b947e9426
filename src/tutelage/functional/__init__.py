"""A student as pure functions of its parameters, buffers and optimiser state.

Runs a module on other parameters than its own, again on the same random numbers and with the
same activation checkpoints, and has the update rules of ``torch.optim`` as functions. It knows
nothing of teachers or signals. Start with ``student.py``, then ``optim.py``.
"""
