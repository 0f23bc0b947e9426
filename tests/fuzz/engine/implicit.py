"""The implicit hypergradient by differences of plain gradients."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from tests.fuzz.engine.notes import Asked, Note, Phi
from tests.fuzz.engine.plain import Loop

SIZE = 1e-4


class AtTheEnd:
    """The student after a step, the step's batch, and what the student is judged by.

    Args:
        step: The step.
        loop: A run that has taken it.
        again: A run that has taken none, with groups and settings as they are by then.
        note: What the step saw.
        phi: The teacher.
    """

    def __init__(
        self, step: int, loop: Loop, again: Callable[[], Loop], note: Note, phi: Phi
    ) -> None:
        self.step, self.phi, self.again = step, phi, again
        named = dict(loop.made.student.named_parameters())
        self.params = {k: p.detach().clone() for k, p in named.items()}
        self.buffers = {k: b.clone() for k, b in loop.made.student.named_buffers()}
        names = {p: k for k, p in named.items()}
        groups = loop.made.optimizer.param_groups
        self.settings = {
            names[p]: group
            for group in groups
            for p in group["params"]
            if p.grad is not None and p in names
        }
        self.losses = list(loop.losses)
        self.note = note
        free = self._at(None).gradient(step, Asked(phi))  # weights look at the student now
        seen = free.seen._replace(progress=note.seen.progress)
        self.note = replace(free, seen=seen, buffers=note.buffers)
        judge = self._at(None)
        judge.judge(phi, step + 1)
        self.judged_by = judge.renewed()

    def flat(self) -> Tensor:
        """The parameters that the step moved."""
        return torch.cat([self.params[k].flatten() for k in self.settings])

    def gradient(self, theta: Tensor | None = None, phi: Phi | None = None) -> Tensor:
        """Of what is descended at the step's batch: sign and weight decay included."""
        loop = self._at(theta)
        loop.gradient(self.step, Asked(self.phi if phi is None else phi, note=self.note))
        found, parts = dict(loop.made.student.named_parameters()), []
        for k, s in self.settings.items():
            p = found[k]
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            grad = -grad if s["maximize"] else grad
            parts.append((grad + s["weight_decay"] * p.detach()).flatten())
        return torch.cat(parts)

    def judged(self, phi: Phi) -> float:
        """The held-out loss."""
        return self._at(None).judge(phi, self.step + 1, self.judged_by)

    def sought(self) -> Tensor:
        """The gradient of the held-out loss."""
        loop = self._at(None)
        loop.made.optimizer.zero_grad()
        loop.held_out(self.phi, self.step + 1).backward()
        named = dict(loop.made.student.named_parameters())
        own = [named[k] for k in self.settings]
        return torch.cat([
            (torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in own
        ])

    def _at(self, theta: Tensor | None) -> Loop:
        loop, own = self.again(), dict(self.params)
        if theta is not None:
            sizes = [own[k].numel() for k in self.settings]
            for k, part in zip(self.settings, theta.split(sizes), strict=True):
                own[k] = part.view_as(own[k])
        loop.losses = list(self.losses)
        with torch.no_grad():
            for k, p in loop.made.student.named_parameters():
                p.copy_(own[k])
            for k, b in loop.made.student.named_buffers():
                b.copy_(self.buffers[k])
            for k, b in loop.made.teacher.named_buffers():
                b.copy_(self.note.buffers[k])
        return loop


def implicit(
    at: AtTheEnd, terms: int, scale: float, directions: list[Phi]
) -> tuple[Tensor, Tensor]:
    """Direct term less ``M x`` along directions, x solving with the Hessian.

    Args:
        at: Where.
        terms: Of the Neumann series; below 0: solved, with ``scale`` as the damping.
        scale: Of the series.
        directions: Of the teacher.
    """
    theta = at.flat()
    v = at.sought()

    def product(u: Tensor) -> Tensor:
        return _central(lambda e: at.gradient(theta + e * u))

    if terms < 0:
        eye = torch.eye(len(theta), dtype=theta.dtype)
        x = torch.linalg.solve(torch.stack([product(u) for u in eye], 1) + scale * eye, v)
    else:
        x, term = v, v
        for _ in range(terms):
            term = term - scale * product(term)
            x = x + term
        x = scale * x
    found = []
    for direction in directions:

        def phi(size: float, d: Phi = direction) -> Phi:
            return {k: p.double() + size * d[k] for k, p in at.phi.items()}

        direct = _central(
            lambda e, phi=phi: torch.tensor(at.judged(phi(e)), dtype=torch.float64)
        )
        mixed = _central(lambda e, phi=phi: at.gradient(phi=phi(e)))
        found.append(float(direct - mixed @ x))
    return torch.tensor(found, dtype=torch.float64), torch.zeros(len(found))


def _central(value: Callable[[float], Tensor]) -> Tensor:
    return (value(SIZE).double() - value(-SIZE).double()) / (2 * SIZE)
