"""Training one student in several processes.

Sums tensors over the processes of a group, differentiably, and knows the wrappers of torch
(``DistributedDataParallel``, ``fully_shard``, ``torch.compile``). It knows nothing of teachers.
Start with ``groups.py``.
"""

from tutelage.distributed.groups import Group, Processes, SingleProcess, even_batches

__all__ = ["Group", "Processes", "SingleProcess", "even_batches"]
