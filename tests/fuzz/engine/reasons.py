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
    Reason("Implicit takes weight decay", "optimiser=adamw"),
    Reason("more than weigh examples", "signal=lookahead (alignment|ghost|one-sided)"),
    Reason("differences of gradients is uncertain", "precision="),
)
