"""What the suite runs of the fuzz: a few seconds of it, always the same."""

TRAINING = (
    "student=tied; optimiser=adam; window=2; mode=resumed; looks=2",
    "student=batch norm; signal=lookahead; teacher=loss weigher; looks=2",
    "student=gru; signal=replayed; event=scheduled; teacher=blending",
    "student=attention; signal=reversible; teacher=loss; between=1",
    "student=dropout; signal=reversible exact; optimiser=decayed momentum",
    "objective=soft labels; signal=replayed differences; optimiser=nesterov; clip=0.3",
    "optimiser=groups; signal=implicit neumann 1; teacher=shift",
    "signal=implicit gradients; student=linear",
    "student=spectral norm; teacher=loss, attached; window=2",
    "optimiser=rmsprop",
    "teacher=copies; signal=lookahead, restep; optimiser=amsgrad",
    "signal=lookahead, next; teacher=remembering; looks=2",
    "signal=replayed first order; teacher=own losses",
    "teacher=sampler; signal=alignment reward",
    "student=batch norm; optimiser=adamw; teacher=internal state; window=5; looks=2; seed=402",
    "student=batch norm 2d; data=overflowing; looks=2; seed=320",
    "student=rescaling; signal=reversible exact; mode=whole run",
    "teacher=copies; precision=single",
)
FILES = (
    *map(str, range(30)),
    "labels=words, test fewer; parts=test",
    "door=folder; beside=hidden folder; parts=validation",
)
