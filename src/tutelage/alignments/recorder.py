"""Recording the passes of anybody's training loop."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

import torch
from torch import Tensor, nn

from tutelage.alignments.calls import Call, Output, open_call
from tutelage.alignments.probe import Places, find_places
from tutelage.alignments.recording import Recording, reached
from tutelage.alignments.rows import tensors_in
from tutelage.alignments.units import Unit, couples_rows, selected, units_of
from tutelage.records import Params
from tutelage.student import original


class Recorder:
    """Records a student's passes in anybody's training loop.

    ::

        recorder = Recorder(student)
        for x, y in batches:
            with recorder.record(len(y)) as recording:
                loss = cross_entropy(student(x), y)
                loss.backward()
            ...
            r = earlier.dots(gradient_now, torch.full([B], 1 / B))

    Inputs of the student's modules and gradients of their outputs are kept until the recording
    is let go; normalisations keep one small gradient per row instead.

    With batch normalisation in training mode a row's number is its share of the batch's
    gradient: the rows sum to ``<d (sum l) / d theta, g>`` exactly, but each leaves out how that
    example moves the others through the statistics. ``forward_dots`` includes it.

    Args:
        student: The student; a compiled one is run as it was before.
        layers: Names of the modules whose parameters count; None: all.
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
        store: torch.dtype | None = None,
    ) -> None:
        self.student = original(student)
        self.layers = layers
        self.store = store
        self.probing = False
        self._places: Places | None = None
        selected(self.student, layers)

    @contextmanager
    def record(self, rows: int, params: Params | None = None) -> Iterator[Recording]:
        """Record the passes made inside; hooks are gone afterwards.

        Args:
            rows: B, the number of examples in the batch.
            params: The parameters that the student runs on, where not its own.

        Yields:
            The recording, complete at the end of the block.
        """
        names = selected(self.student, self.layers)
        recording = Recording(names, rows)
        own = dict(self.student.named_parameters()) if params is None else params
        with ExitStack() as stack:
            for name in names:
                keep = keeper(recording.gradient, name)
                stack.callback(own[name].register_hook(keep).remove)
            units = units_of(self.student, names)
            if self._places is None and rows > 1 and not couples_rows(self.student):
                self._probe_at_call(units, rows, stack)
            for unit in units:
                watch(unit, rows, self, recording, stack)
            yield recording
        recording.calls = [call for call in recording.calls if reached(call)]

    def _probe_at_call(self, units: list[Unit], rows: int, stack: ExitStack) -> None:
        def before(student: nn.Module, given: tuple[object, ...]) -> None:
            if self._places is None and not self.probing:
                self.probing = True  # the probe calls the student, too
                try:
                    self._places = find_places(student, units, given, rows)
                finally:
                    self.probing = False

        stack.callback(self.student.register_forward_pre_hook(before).remove)

    def row_dims(self, unit: Unit, number: int, outputs: list[Tensor], rows: int) -> list:
        """The dimension of every output of a module that counts the rows of a batch.

        Args:
            unit: The module.
            number: Of its calls within this pass.
            outputs: What it gave.
            rows: B.

        Returns:
            Dimensions; None where none does.
        """
        known = (self._places or {}).get((unit.name, number))
        if known is not None and len(known) == len(outputs):
            return list(known)
        return [row_dim(unit, t, rows, place) for place, t in enumerate(outputs)]


def keeper(gradient: Params, name: str) -> Callable[[Tensor], None]:
    """A hook that adds up a parameter's gradient.

    Args:
        gradient: Where to.
        name: Under which name.

    Returns:
        The hook.
    """

    def keep(found: Tensor) -> None:
        had = gradient.get(name)
        gradient[name] = found.detach().clone() if had is None else had + found.detach()

    return keep


def watch(
    unit: Unit, rows: int, recorder: Recorder, recording: Recording, stack: ExitStack
) -> None:
    """Record every call of a module.

    Args:
        unit: The module, with what is wanted of it.
        rows: B.
        recorder: Knows where rows are, and how to keep tensors.
        recording: Where to.
        stack: Undoes the hooks.
    """
    states: list[Tensor | None] = []
    numbers = count()

    def before(_module: nn.Module, args: tuple[object, ...]) -> None:
        states.append(None if unit.linear else random_state(args))

    def after(
        _module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object], given: object
    ) -> None:
        outputs, state = tensors_in(given), states.pop()
        if recorder.probing or not any(t.requires_grad for t in outputs):
            return
        dims = recorder.row_dims(unit, next(numbers), outputs, rows)
        if None in dims:
            recording.unplaced.add(unit.name)
            return
        call = open_call(unit, rows, recorder.store, (args, kwargs), state)
        call.outputs = [Output(d) for d in dims]
        recording.calls.append(call)
        for place, tensor in enumerate(outputs):
            if tensor.requires_grad:
                stack.callback(tensor.register_hook(receiver(call, place)).remove)

    stack.callback(unit.module.register_forward_pre_hook(before).remove)
    stack.callback(unit.module.register_forward_hook(after, with_kwargs=True).remove)


def receiver(call: Call, place: int) -> Callable[[Tensor], None]:
    """A hook that hands an output's gradient to its call.

    Args:
        call: The call.
        place: Which of its outputs.

    Returns:
        The hook.
    """

    def receive(delta: Tensor) -> None:
        call.receive(place, delta)

    return receive


def row_dim(unit: Unit, output: Tensor, rows: int, place: int) -> int | None:
    """The dimension of a module's output that counts the batch's rows.

    Args:
        unit: The module.
        output: What it gave.
        rows: B.
        place: Which of its outputs this is.

    Returns:
        The dimension; None if none has that size.
    """
    module = unit.module
    if isinstance(module, nn.RNNBase):
        return 0 if place == 0 and module.batch_first else 1
    if isinstance(module, nn.MultiheadAttention):
        return 0 if place == 1 or module.batch_first else 1
    fitting = [d for d, size in enumerate(output.shape) if size == rows]
    return fitting[0] if fitting else None


def random_state(args: tuple[object, ...]) -> Tensor:
    """Where the generator stands that a module may draw from.

    Args:
        args: The module's arguments.

    Returns:
        The state.
    """
    first = args[0] if args else None
    if isinstance(first, Tensor) and first.is_cuda:
        return torch.cuda.get_rng_state(first.device)
    return torch.get_rng_state()
