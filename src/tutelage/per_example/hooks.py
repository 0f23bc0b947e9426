"""Module hooks that fill a recording."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from tutelage.per_example.batch_dimension import UNKNOWN, Places
from tutelage.per_example.coupling import RowCheck
from tutelage.per_example.inputs import ModuleInputs, capture_inputs
from tutelage.per_example.module_calls import Call, Output, open_call
from tutelage.per_example.output_tangents import ModuleSnapshot
from tutelage.per_example.recording import Recording
from tutelage.per_example.row_arithmetic import separate_views, tensors_in
from tutelage.per_example.row_gradients import CONVS
from tutelage.per_example.units import CHANNEL_NORMS, Unit

BATCH_FIRST = (
    *CONVS,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    *CHANNEL_NORMS,
)
"""modules whose first dimension counts what the second has channels of"""


class RecordingHooks:
    """Records the calls of a student's modules; ``store`` says how tensors are kept."""

    def __init__(
        self, recording: Recording, store: torch.dtype | None, places: Places, check: RowCheck
    ) -> None:
        self.recording = recording
        self.rows = recording.rows
        self.store = store
        self.check = check
        self.places: Places = places
        self.paused = False
        self.units: list[Unit] = []
        self.counts: dict[str, int] = {}

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Ignore calls inside."""
        self.paused = True
        try:
            yield
        finally:
            self.paused = False

    def start(self) -> None:
        """Restart call numbers, when the student is called."""
        self.counts = {}

    def module(self, unit: Unit, stack: ExitStack) -> None:
        """Register hooks on a module."""
        self.units.append(unit)
        if unit.linear:
            self._linear(unit, stack)
        else:
            self._general(unit, stack)

    def _linear(self, unit: Unit, stack: ExitStack) -> None:
        def after(
            _module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object], out: object
        ) -> None:
            if self._counts(out):
                call = open_call(unit, self.rows, self.store, capture_inputs(args, kwargs), out)
                self._keep(call, tensors_in(out), stack)

        # the layer's own output: hooks of the user may change it afterwards
        hook = unit.module.register_forward_hook(after, prepend=True, with_kwargs=True)
        stack.callback(hook.remove)

    def _general(self, unit: Unit, stack: ExitStack) -> None:
        opened: list[tuple[ModuleInputs, ModuleSnapshot]] = []

        def before(
            module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
        ) -> None:
            if not self.paused and torch.is_grad_enabled():
                opened.append((capture_inputs(args, kwargs), ModuleSnapshot(module)))

        def after(_module: nn.Module, _args: object, out: object) -> object:
            if self.paused or not opened:
                return None
            inputs, was = opened.pop()
            if not self._counts(out):
                return None
            if len(tensors_in(out)) > 1:
                out = separate_views(
                    out
                )  # else a gradient may reach one output through another
            self._keep(Call(unit, self.rows, inputs, None, was), tensors_in(out), stack)
            return out

        # everything that the user's hooks do is done again with the module
        for hook in (
            unit.module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
            unit.module.register_forward_hook(after),
        ):
            stack.callback(hook.remove)

    def _counts(self, out: object) -> bool:
        return not self.paused and any(t.requires_grad for t in tensors_in(out))

    def _keep(self, call: Call, outputs: list[Tensor], stack: ExitStack) -> None:
        dims = self._row_dims(call.unit, outputs)
        if any(dim is None for dim in dims):
            self.recording.unplaced.add(call.unit.name)
            return
        call.outputs = [Output(dim) for dim in dims if dim is not None]
        self.recording.calls.append(call)
        for place, tensor in enumerate(outputs):
            if tensor.requires_grad:
                take = partial(self._receive, call, len(self.recording.calls), place)
                stack.callback(tensor.register_hook(take).remove)

    def _receive(self, call: Call, number: int, place: int, delta: Tensor) -> None:
        if self.check.found is None:
            call.receive(place, delta)
        else:
            self.check.note((number, place), call.outputs[place].row_dim, delta)

    def _row_dims(self, unit: Unit, outputs: list[Tensor]) -> list[int | None]:
        number = self.counts.get(unit.name, 0)
        self.counts[unit.name] = number + 1
        known = place_of(self.places, unit.name, number)
        if len(known) != len(outputs):
            known = [UNKNOWN] * len(outputs)
        return [
            checked(unit, tensor, self.rows, place, dim)
            for place, (tensor, dim) in enumerate(zip(outputs, known, strict=True))
        ]


def place_of(places: Places, name: str, number: int) -> list[int | None]:
    """The batch dimensions of a call, or of the module's last known call."""
    while number > 0 and (name, number) not in places:
        number -= 1
    return list(places.get((name, number), ()))


def checked(unit: Unit, output: Tensor, rows: int, place: int, dim: int | None) -> int | None:
    """The batch dimension of an output, None if unknown."""
    fitting = [d for d, size in enumerate(output.shape) if size == rows]
    if dim == UNKNOWN:
        usual = usual_dim(unit.module, place)
        fits = usual in fitting
        alone = len(fitting) == 1 or (fitting and rows == 1)
        return usual if fits else fitting[0] if alone and usual is None else None
    return dim if dim in fitting else None


def usual_dim(module: nn.Module, place: int) -> int | None:
    """The batch dimension by module type."""
    if isinstance(module, nn.RNNBase):
        return 0 if place == 0 and module.batch_first else 1
    if isinstance(module, nn.MultiheadAttention):
        return 0 if place == 1 or module.batch_first else 1
    return 0 if isinstance(module, BATCH_FIRST) else None
