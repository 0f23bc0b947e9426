"""Refusals of the engine that are right, with the situations in which they are."""

from tests.fuzz.outcomes import Reason

REASONS = (
    Reason("No differentiable rule for", "optimiser=rmsprop|optimiser=nadam"),
    Reason("Reversible undoes torch.optim.SGD", "signal=reversible"),
    Reason("would amplify rounding", "signal=reversible"),
    Reason("is off by about", "signal=reversible"),
    Reason("The spectral norm of", "student=spectral norm"),
    Reason("micro_batch=", "part="),
    Reason("writes to its buffers in each step", "mode=whole run"),
    Reason("whole runs that a signal takes are not remembered", "teacher=remembering"),
    Reason("Implicit takes weight decay", "optimiser=adamw"),
    Reason(
        "more than weigh examples",
        "signal=lookahead alignment|signal=lookahead ghost|signal=lookahead one-sided",
    ),
    Reason("differences of gradients is uncertain", "precision="),
    Reason("Conjugate gradients met curvature", "data=large inputs"),
    Reason("undone in fixed point", "student=rescaling|student=counting"),
    Reason("has no finite weight", "data=large inputs|data=infinite input|data=overflowing"),
    Reason("The next step's loss has no gradient", "event=frozen|event=in turns"),
)
