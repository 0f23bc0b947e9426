"""Training in plain torch, step by step: the oracle. No code of the engine, records aside."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from tests.fuzz.engine.made import DOUBLE, Parts
from tests.fuzz.engine.notes import Asked, Note, Phi
from tests.fuzz.engine.objectives import JUDGES
from tests.fuzz.engine.own_teachers import Remembering
from tests.fuzz.engine.reduction import cast_to, cut, placed, reduced, renew, rows_of, seen_of
from tutelage.losses.objectives import Normalise
from tutelage.randomness import mixed_seed
from tutelage.types import Batch, Observation, PreparedBatch, Progress, as_prepared


class Loop:
    """One student's training."""

    def __init__(self, parts: Parts, types: tuple[torch.dtype, torch.dtype] = (DOUBLE, DOUBLE)):
        self.parts, self.s = parts, parts.situation
        self.whole = self.s.mode == "whole run"
        self.made = parts.make(types)
        self.attached = getattr(
            self.made.teacher, "attached", hasattr(self.made.teacher, "row_losses")
        )
        self.losses: list[float] = []
        self.mode = self.made.student.training
        self.seed = mixed_seed(self.s.seed, 0) if self.whole else self.s.seed

    def take(self, number: int, asked: Asked) -> Note:
        """One step, with its event before it."""
        self.parts.event(number, self.made.student, self.made.optimizer)
        note = self.gradient(number, asked)
        self.losses.append(note.loss)
        self._after(asked, note)
        self._remember(self._batch(number), note.seen)
        return note

    def gradient(self, number: int, asked: Asked) -> Note:
        """Leave the gradient of a step in the student's parameters."""
        note = self._before(asked)
        self.made.optimizer.zero_grad()
        with self.precision():
            loss, note.seen, note.weights = self._loss(self._batch(number), number, asked)
        note.loss = float(loss.detach())
        note.renewed = self.renewed()
        self.made.student.train(self.mode)
        if loss.requires_grad:
            loss.backward()
        return note

    def renewed(self) -> dict[str, Tensor]:
        """A copy of the student's buffers."""
        return {k: b.clone() for k, b in self.made.student.named_buffers()}

    def hold(self, buffers: dict[str, Tensor] | None) -> None:
        """Let a student that cuts off what it renews see that as it was."""
        if buffers is not None and self.parts.of_student.detaches:
            self.made.student.eval()
            renew(self.made.student, buffers)

    def judge(self, phi: Phi, steps: int, buffers: dict[str, Tensor] | None = None) -> float:
        """The held-out loss after so many steps; buffers as they were found, if given."""
        self.hold(buffers)
        with torch.no_grad():
            found = float(self.held_out(phi, steps))
        self.made.student.train(self.mode)
        return found

    def held_out(self, phi: Phi, steps: int) -> Tensor:
        """The same, with the student's graph."""
        rows = self.parts.source.judging().fresh(self.made.types[0])
        end = (0, 1) if self.whole else (steps, 1)
        seed = mixed_seed(self.s.seed, *end)
        self.set(phi)
        batch = Batch(*rows, seed=seed)
        with self.precision():
            torch.default_generator.manual_seed(seed)
            acts = getattr(self.made.teacher, "at_test", False)
            with torch.no_grad():
                prepared = self._prepared(batch) if acts else as_prepared(batch)
            torch.default_generator.manual_seed(seed + 1)
            found = self._judged(self.made.student(prepared.inputs), prepared.targets)
        counted = self._counted(batch.targets)
        return torch.where(counted.bool(), found, 0.0).sum() / counted.sum()

    def judge_next(self, number: int, asked: Asked) -> float:
        """The loss of the next step, before it is taken."""
        self.parts.event(number, self.made.student, self.made.optimizer)
        self._before(asked)
        found = float(self._loss(self._batch(number), number, asked)[0].detach())
        self.made.student.train(self.mode)
        return found

    def _batch(self, number: int) -> Batch:
        rows = self.parts.source.rows(number).fresh(self.made.types[0])
        return Batch(*rows, seed=mixed_seed(self.seed, number))

    def seen(self, batch: Batch) -> Observation:
        """What the student reveals of a batch."""
        return self._seen(as_prepared(batch), batch.seed, Progress())

    def descend(self, batch: Batch, weights: Tensor) -> None:
        """A step under weights that are known."""
        prepared = as_prepared(batch)
        seen, marks = self.seen(batch), self._counted(batch.targets)
        asked = Asked({})
        losses = torch.where(marks.bool(), seen.losses, 0.0)
        loss = reduced(losses, weights.double() * marks, prepared, marks, self._rule(asked))
        loss.backward()
        self.made.optimizer.step()

    def precision(self):
        """The autocast of the situation."""
        on = self.s.precision == "autocast" and self.made.types[0] != DOUBLE
        return torch.autocast("cpu", torch.bfloat16) if on else nullcontext()

    def _loss(
        self, batch: Batch, number: int, asked: Asked
    ) -> tuple[Tensor, Observation, Tensor]:
        torch.default_generator.manual_seed(batch.seed)
        with torch.no_grad():
            prepared = as_prepared(batch) if asked.untaught else self._prepared(batch)
        note = asked.note
        aside = (
            None if note is None or self.attached else self._shown(prepared, batch.seed, note)
        )
        if asked.frozen and note is not None:  # until the backward pass is done
            self._load(note.params)
        progress = self._progress(number) if note is None else note.seen.progress
        seen = self._seen(prepared, batch.seed, progress)
        marks = self._counted(prepared.targets)
        counted = marks.bool().nonzero().flatten()
        shown = seen if self.attached else aside or cut(seen)
        torch.default_generator.manual_seed(batch.seed + 2)
        pair = seen_of(seen, counted), seen_of(shown, counted)
        weights, losses = self._weighed(rows_of(prepared, counted), *pair, asked)
        weights, losses = (placed(x, counted, len(marks)) for x in (weights, losses))
        shown = seen if note is None else note.seen
        return reduced(losses, weights, prepared, marks, self._rule(asked)), cut(shown), weights

    def _weighed(
        self, prepared: PreparedBatch, seen: Observation, shown: Observation, asked: Asked
    ) -> tuple[Tensor, Tensor]:
        """Weights and what is descended of the rows that count; the teacher sees no others."""
        teacher: Any = self.made.teacher
        ones = torch.ones(len(prepared.ids))
        if not len(prepared.ids):
            return ones, seen.losses
        if asked.untaught:
            return ones, seen.losses
        if asked.weighs is not None:
            self.set(asked.weighs)
        weights, own = ones, self.made.types[1]
        shown, prepared, live = (cast_to(x, own) for x in (shown, prepared, seen))
        if hasattr(teacher, "weigh"):
            with nullcontext() if self.attached else torch.no_grad():
                weights = teacher.weigh(prepared, shown)
        weights = weights.reshape(-1).to(torch.promote_types(weights.dtype, torch.float32))
        losses = (
            teacher.row_losses(prepared, live)
            if hasattr(teacher, "row_losses")
            else seen.losses
        )
        return weights, losses

    def _shown(self, prepared: PreparedBatch, seed: int, note: Note) -> Observation:
        # the student as it was, on what is prepared now: no other path leads to the weights
        if not hasattr(self.made.teacher, "prepare"):
            return note.seen
        named = self.made.student.named_parameters()
        now, held = {k: p.detach().clone() for k, p in named}, self.renewed()
        self._load(note.params)
        renew(
            self.made.student, note.renewed if self.parts.of_student.detaches else note.started
        )
        with torch.no_grad():
            found = self._seen(prepared, seed, note.seen.progress)
        self._load(now)
        renew(self.made.student, held)
        return found

    def _seen(self, prepared: PreparedBatch, seed: int, progress: Progress) -> Observation:
        size = self.s.part or len(prepared.ids)
        features: dict[str, list[Tensor]] = {}

        def keep(tap: str) -> Any:
            return lambda _module, _args, out: features.setdefault(tap, []).append(out)

        handles = [
            self.made.student.get_submodule(tap).register_forward_hook(keep(tap))
            for tap in getattr(self.made.teacher, "taps", ())
        ]
        found: list[Tensor] = []
        logits: list[Tensor] = []
        for part, at in enumerate(range(0, len(prepared.ids), size)):
            torch.default_generator.manual_seed(
                seed + 1 if part == 0 else mixed_seed(seed + 1, 0, part)
            )
            out = self.made.student(prepared.inputs[at : at + size].clone())
            found.append(self.parts.objective.plain(out, prepared.targets[at : at + size]))
            logits.append(out)
        for handle in handles:
            handle.remove()
        joined = {tap: torch.cat(seen) for tap, seen in features.items()}
        return Observation(torch.cat(found), torch.cat(logits), joined, progress)

    def _rule(self, asked: Asked) -> Normalise:
        return "mean" if asked.untaught else getattr(self.made.teacher, "normalise", "mean")

    def _before(self, asked: Asked) -> Note:
        teacher = self.made.teacher
        if asked.note is not None:
            renew(teacher, asked.note.buffers)
        self.set(asked.phi)
        buffers = {k: b.clone() for k, b in teacher.named_buffers()}
        params = {k: p.detach().clone() for k, p in self.made.student.named_parameters()}
        self.hold(None if asked.note is None else asked.note.renewed)
        nothing = torch.zeros(0)
        seen = Observation(nothing, nothing, {}, Progress())
        return Note(seen, buffers, params, self.renewed(), {}, 0.0, nothing)

    def _after(self, asked: Asked, note: Note) -> None:
        optimizer = self.made.optimizer
        if asked.frozen and asked.note is not None:
            self._load(note.params)
        held = [p for group in optimizer.param_groups for p in group["params"]]
        if self.s.clip:
            nn.utils.clip_grad_norm_(held, self.s.clip)
        if asked.virtual:
            with torch.no_grad():
                for group in optimizer.param_groups:
                    sign = 1 if group["maximize"] else -1
                    for p in group["params"]:
                        if p.grad is not None:
                            p += sign * float(group["lr"]) * p.grad
            return
        optimizer.step()

    def _load(self, params: dict[str, Tensor]) -> None:
        for name, p in self.made.student.named_parameters():
            p.data = params[name].clone()

    def _remember(self, batch: Batch, seen: Observation) -> None:
        # rows without a label are seen by no teacher
        counted = self._counted(batch.targets).bool()
        for part in self.made.teacher.modules():
            if isinstance(part, Remembering) and bool(counted.any()):
                seen = seen._replace(losses=seen.losses[counted])
                for name, value in part.remember(as_prepared(batch), seen).items():
                    part.get_buffer(name).copy_(value)

    def _prepared(self, batch: Batch) -> PreparedBatch:
        teacher: Any = self.made.teacher
        student = self.made.types[0]
        if not hasattr(teacher, "prepare"):
            return as_prepared(batch)
        return cast_to(teacher.prepare(cast_to(batch, self.made.types[1])), student)

    def _judged(self, outputs: Tensor, targets: Tensor) -> Tensor:
        plain = JUDGES.get(self.s.objective, self.parts.objective.plain)
        return plain(outputs, targets)

    def _counted(self, targets: Tensor) -> Tensor:
        counts = self.parts.objective.counts
        known = torch.ones(len(targets)) if counts is None else counts(targets)
        return known.to(torch.float64 if self.made.types[0] == DOUBLE else torch.float32)

    def _progress(self, number: int) -> Progress:
        fraction = number / self.s.steps
        mean = 0.0 if self.whole else sum(self.losses[:number]) / max(number, 1)
        return Progress(fraction, mean)

    def set(self, phi: Phi) -> None:
        with torch.no_grad():
            for name, p in self.made.teacher.named_parameters():
                if name in phi:
                    p.copy_(phi[name])
