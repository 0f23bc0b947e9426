"""``Lookahead``: the hypergradient through one student step."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.submodule_outputs import last_linear
from tutelage.functional.trees import leaves, plus
from tutelage.per_example.units import names_within, synchronises_batch_norm
from tutelage.signals.facts import facts_of
from tutelage.signals.products import Automatic, DotProducts, Product
from tutelage.signals.signal import EvaluateOn, OneStep, gradient_of_updated
from tutelage.teacher import is_attached
from tutelage.types import Batch, Estimate, Params, RecordedPasses, Step, StudentState, Window

Mode = Literal["online", "restep", "virtual"]
Layers = Literal["all", "last"]
CHECK_LAST_EVERY = 64
"""``check_every`` of the last layer alone, whose estimates cost a fraction of a pass"""


@dataclass(frozen=True)
class Lookahead(OneStep):
    """The hypergradient through the student's last step: ``Unrolled(steps=1)`` made cheap.

    ``d L / d phi = M v`` with ``v`` the gradient of the held-out loss L at the new parameters,
    propagated back through the update rule to the step's gradient (``v = -eta grad`` for plain
    SGD). With ``"online"`` the step is the student's real one, and the updated teacher is used
    from the next step on; with ``"restep"`` the step is tentative, and the real one is taken
    with the updated teacher's weights, from the same forward pass. ``"virtual"`` is the same
    with a tentative step of plain SGD, as in the papers: with the student's learning rate, but
    without momentum or weight decay. ``evaluate_on="next"`` uses the loss of the next training
    step as held-out loss, since its gradient is computed anyway; with ``"plain"`` the steps in
    between, that one included, are taken without the teacher.

    With ``layers="last"`` only the effect on the parameters of the student's last
    ``nn.Linear`` counts, the last one in the order of registration. For teachers that only
    weigh, the products are read off the real step's own passes, and the held-out gradient takes
    little more than a forward pass: cheap enough for a teacher step after every student step.
    The products take a pass of their own, by forward mode, where rows depend on one another
    after that layer, as by batch normalisation, and where several processes normalise by
    common batch statistics (``Group.sync_batch_norm``, ``SyncBatchNorm``) in any layer. A
    weight that the layer shares with another, as a tied head does with an embedding, counts in
    all of its uses, at the cost of a backward pass to the first. An approximation, which leaves
    out what the weights do to all other layers.

    Source: Shu et al. 2019, Meta-Weight-Net; Ren et al. 2018, Learning to Reweight Examples;
    gradient-alignment reward, section 3 (``evaluate_on="next"``). Gradients of the last layer
    in place of all: Killamsetty et al. 2021, GLISTER.

    Note: other modes than ``"virtual"`` see the student's own optimiser, momentum included; the
    two differ in where the held-out gradient is taken. What ``evaluate_on="next"`` leaves out:
    the next loss's own dependence on the teacher. With the other modes, what the
    teacher prepared is kept as it is.

    Raises:
        ValueError: If mode, evaluate_on or layers is unknown, or the first two do not go
            together.
    """

    product: Product = field(default_factory=Automatic)
    mode: Mode = "online"
    evaluate_on: EvaluateOn = "held-out"
    layers: Layers = "all"
    steps: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("mode", self.mode, get_args(Mode)),
            ("evaluate_on", self.evaluate_on, get_args(EvaluateOn)),
            ("layers", self.layers, get_args(Layers)),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value}.")
        if self.takes_tentative_step and self.evaluate_on != "held-out":
            raise ValueError(
                f"evaluate_on='{self.evaluate_on}' needs the real step to be taken: use "
                "mode='online'."
            )

    @property
    def takes_tentative_step(self) -> bool:
        """Whether the real step is taken with the updated teacher's weights."""
        return self.mode != "online"

    def check(self, problem: BilevelProblem) -> None:
        """Refuse micro-batches where the product does, or the step is tentative."""
        if problem.micro_batch is not None and self.takes_tentative_step:
            reason = "the signal tries each step before it is taken"
            raise ValueError(f"micro_batch={problem.micro_batch} does not work here: {reason}.")
        self.product.check(problem)
        if (layer := self.recorded_layer(problem)) is not None:
            params, names = problem.student.params, _names_of(problem, layer)
            if not any(p.requires_grad for name, p in params.items() if name in names):
                raise UnsupportedStudentError(
                    f"layers='last' is about the student's layer '{layer}', of which the "
                    "optimiser moves no parameter: use layers='all'."
                )

    @property
    def check_every(self) -> int:
        """Windows from one check that costs a pass to the next."""
        return CHECK_LAST_EVERY if self.layers == "last" else super().check_every

    def recorded_layer(self, problem: BilevelProblem) -> str | None:
        """The student's module whose passes are recorded; None: all."""
        return last_linear(problem.student.module) if self.layers == "last" else None

    def records(self, problem: BilevelProblem) -> bool:
        """Whether to record the step's passes."""
        if self.layers == "all":
            return self.product.records(problem)
        # reading a recording may fail in one process alone, whose forward pass would then wait
        # for the batch statistics of the others
        synchronised = synchronises_batch_norm(problem.processes, problem.student.module)
        readable = not is_attached(problem.teacher) and not synchronised
        return isinstance(self.product, DotProducts) and readable

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient."""
        start, step = window.start, window.steps[-1]
        assert start is not None
        virtual = self.mode == "virtual"
        end = virtual_step(window) if virtual else window.end
        names: Collection[str] = step.settings.keys()
        if (layer := self.recorded_layer(problem)) is not None:
            names = _moved_of(problem, step, layer)
        evaluation = window.held_out_loss or problem.held_out_gradients(
            end, teacher_params, held_out, names
        )
        back = virtual_step_adjoint if virtual else update_adjoint
        adjoint = gradient_of_updated(problem, evaluation, step.moving(names))
        if problem.max_norm is None:
            window = replace(window, steps=(step.moving(names),))
        else:  # the norm is that of all gradients
            others = step.settings.keys() - set(names)
            adjoint |= {k: torch.zeros_like(start.params[k]) for k in others}
        v = {
            k: g
            for k, g in back(problem, window, teacher_params, adjoint).items()
            if k in names
        }
        mixed = self.product.mixed_of_step(
            problem, start, teacher_params, step, v, window.observed
        )
        total = {k: torch.zeros_like(p) for k, p in teacher_params.items()} | evaluation.teacher
        facts = facts_of(
            problem, teacher_params, start, step, held_out, several=False, product=self.product
        )
        return Estimate(plus(total, mixed), evaluation.loss, facts)


def _names_of(problem: BilevelProblem, layer: str) -> set[str]:
    return names_within(problem.student.module, [layer])


def _moved_of(problem: BilevelProblem, step: Step, layer: str) -> list[str]:
    # the parameters of one module that the step moves
    own = _names_of(problem, layer)
    if moved := [name for name in step.settings if name in own]:
        return moved
    raise UnsupportedStudentError(
        f"layers='last' is about the student's layer '{layer}', the nn.Linear registered last, "
        "which takes no part in the step: its loss reaches none of the layer's parameters. Use "
        "layers='all', or register the layer that gives the outputs last."
    )


def virtual_step(window: Window) -> StudentState:
    """The student after a step of plain SGD, ``theta - lr g``."""
    start, settings = window.start, window.steps[-1].settings
    assert start is not None
    assert window.gradient is not None
    params = {k: -_rate(settings[k]) * g for k, g in window.gradient.items()}
    return window.end._replace(params=plus(start.params, params))  # with buffers renewed


def virtual_step_adjoint(
    _: BilevelProblem, window: Window, __: Params, adjoint: Params
) -> Params:
    """The adjoint of the gradient of a plain SGD step."""
    settings = window.steps[-1].settings
    return {k: -_rate(own) * adjoint[k] for k, own in settings.items()}


def _rate(settings: Mapping[str, float | bool]) -> float:
    return -settings["lr"] if settings["maximize"] else settings["lr"]


def update_adjoint(
    problem: BilevelProblem, window: Window, teacher_params: Params, adjoint: Params
) -> Params:
    """The adjoint of the step's gradient, by differentiating the update rule."""
    start, step = window.start, window.steps[-1]
    assert start is not None
    recorded = None if window.observed is None else window.observed.recorded
    if problem.rule.linear:  # the derivative does not depend on the gradient's value
        grads = {k: torch.zeros_like(start.params[k]) for k in step.settings}
    elif recorded is not None and _shows_all(problem, step, recorded):
        grads = problem.processes.all_reduce_params({
            k: recorded.gradient[k] for k in step.settings
        })
    else:  # nothing recorded, or some parameters were frozen since
        grads, _ = problem.gradient(start, teacher_params, step)
    grads = leaves(grads)
    after = problem.rule.update(start, grads, step.settings).params
    outputs = [after[k] for k in grads]
    back = torch.autograd.grad(outputs, list(grads.values()), [adjoint[k] for k in grads])
    return dict(zip(grads, back, strict=True))


def _shows_all(problem: BilevelProblem, step: Step, recorded: RecordedPasses) -> bool:
    # rows that do not reach a parameter show as little of it as passes that were not recorded
    missing = len(step.settings.keys() - recorded.gradient.keys())
    if problem.processes.size == 1:
        return missing == 0
    count = torch.tensor(float(missing), device=problem.student.device)
    return float(problem.processes.all_reduce(count)) == 0
