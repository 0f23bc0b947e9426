"""``Recorder``: recording of forward and backward passes in any training loop."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from tutelage.functional.differentiable import original
from tutelage.per_example.batch_dimension import Places, find_places
from tutelage.per_example.coupling import UNKNOWN, RowCheck
from tutelage.per_example.hooks import RecordingHooks
from tutelage.per_example.inputs import ModuleInputs, capture_inputs
from tutelage.per_example.recording import Recording
from tutelage.per_example.units import selected, units_of, uses_batch_statistics
from tutelage.types import Params


class Recorder:
    """Records a student's forward and backward passes in any training loop.

    ::

        recorder = Recorder(student)
        for x, y in batches:
            with recorder.record(len(y)) as recording:
                loss = cross_entropy(student(x), y)
                loss.backward()
            ...
            r = earlier.dots(gradient_now, torch.full([B], 1 / B))

    A recording holds the inputs of the student's modules and the gradients of their outputs;
    normalisations, and layers with few parameters relative to their inputs, hold per-example
    gradients instead. Compiled code runs eagerly within the block. The first block runs some
    rows through the student once more, to find batch dimensions. The first blocks, some later
    ones, and those with other operators or another batch size take two or three more backward
    passes, to check that no row's output depends on other rows. A loss that couples rows is
    detected if it is given to ``Recording.verify``.

    With batch normalisation in training mode the result is a row's share of the batch's
    gradient: rows sum to ``<d (sum l) / d theta, g>`` exactly, but each leaves out the
    example's effect on others through the statistics, which ``forward_dots`` includes.

    Args:
        student: The student; a compiled one is run as it was before.
        layers: Names of the modules whose parameters count; None: all. A parameter that they
            share with other modules counts in all of its uses.
        exact: Whether batch statistics make rows depend on one another, so that ``dots``
            raises UnsupportedStudentError where the pass uses some after a module that counts.
        store: Keep inputs and gradients as this type, such as ``torch.bfloat16``; None: as is.

    Raises:
        UsageError: If ``layers`` names no module, or nothing trainable is left.

    Source: Gradient-alignment reward, lemmas 2 and 3.
    """

    def __init__(
        self,
        student: nn.Module,
        *,
        layers: Collection[str] | None = None,
        exact: bool = False,
        store: torch.dtype | None = None,
    ) -> None:
        self.student = original(student)
        self.layers = layers
        self.exact = exact
        self.store = store
        self._places: Places | None = None
        selected(self.student, layers)

    @contextmanager
    def record(
        self, rows: int, params: Params | None = None, *, verified: bool = False
    ) -> Iterator[Recording]:
        """Record the passes inside.

        Args:
            rows: B, the number of examples in the batch.
            params: The parameters that the student runs on in place of its own.
            verified: Whether ``Recording.verify`` will be called inside, which checks more.

        Yields:
            The recording, complete at the end of the block.
        """
        names = selected(self.student, self.layers)
        everything = [name for name, _ in self.student.named_parameters()]
        own: Params = dict(self.student.named_parameters()) | (params or {})
        wanted = {name: own[name] for name in names}
        check = RowCheck(self.student, rows, wanted, exact=self.exact)
        recording = Recording(names, everything, rows, check)
        with ExitStack() as stack:
            # hooks set after compiling are not run by compiled code
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            for name in names:
                keep = gradient_hook(recording, name)
                stack.callback(own[name].register_hook(keep).remove)
            watch = RecordingHooks(recording, self.store, self._places or {}, check)
            for unit in units_of(self.student, names):
                watch.module(unit, stack)
            self._watch_student(watch, stack, verified=verified)
            yield recording
        recording.finish()

    def _watch_student(
        self, watch: RecordingHooks, stack: ExitStack, *, verified: bool
    ) -> None:
        def before(
            student: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
        ) -> None:
            if watch.paused:
                return  # the probe calls the student, too
            if self._places is None and watch.rows > 1 and torch.is_grad_enabled():
                self._probe(watch, student, capture_inputs(args, kwargs))
            watch.start()

        def after(_student: nn.Module, _args: object, out: object) -> None:
            if watch.paused or not torch.is_grad_enabled():
                return
            watch.check.keep_outputs(out)
            if not verified and watch.rows > 1:
                watch.check.verify_outputs(out)

        for hook in (
            self.student.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
            self.student.register_forward_hook(after),
        ):
            stack.callback(hook.remove)

    def _probe(self, watch: RecordingHooks, student: nn.Module, inputs: ModuleInputs) -> None:
        with watch.pause():
            self._places = find_places(student, watch.units, inputs, watch.rows)
        watch.places = self._places or {}
        if self._places is None and any(map(uses_batch_statistics, student.modules())):
            watch.check.reason = UNKNOWN  # the check leaves batch statistics out


def gradient_hook(recording: Recording, name: str) -> Callable[[Tensor], None]:
    """A tensor hook that accumulates a parameter's gradient."""
    gradient = recording.gradient

    def keep(found: Tensor) -> None:
        if recording.check.found is not None:
            return  # a backward pass of the check
        had = gradient.get(name)
        gradient[name] = found.detach().clone() if had is None else had + found.detach()

    return keep
