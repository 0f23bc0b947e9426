"""Steps of several processes whose batch normalisation is by the rows of all."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.batch_norm import batch_norm_over
from tutelage.functional.differentiable import eager
from tutelage.per_example.units import synchronises_batch_norm


@contextmanager
def common_statistics(problem: BilevelProblem, student: nn.Module) -> Iterator[None]:
    """Normalise by the rows of all processes in a block, where the student's layers do so."""
    processes, module = problem.processes, problem.student.module
    # the student may call torch.nn.functional.batch_norm itself
    every = processes.sync_batch_norm and not problem.micro_batch
    if not every and not synchronises_batch_norm(processes, module):
        yield
        return
    with eager(student), batch_norm_over(processes, module):
        yield
