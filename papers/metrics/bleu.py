"""BLEU of translations."""

from collections.abc import Sequence

from tutelage.errors import MissingExtraError, UsageError


def bleu(outputs: Sequence[str], references: Sequence[str], *, lower_case: bool) -> float:
    """Corpus BLEU of up to four words in a row, one reference a sentence, as sacreBLEU has it.

    Without smoothing beyond sacreBLEU's own (exponential): where all outputs together have no
    four words in a row it is 0, even if every word is right.

    Source: Papineni et al. 2002; Post 2018, A Call for Clarity in Reporting BLEU Scores.
    """
    if len(outputs) != len(references):
        raise UsageError(
            f"{len(outputs)} outputs but {len(references)} references; give one for each."
        )
    if not outputs:
        raise UsageError("no sentence to score; give one and more.")
    try:
        from sacrebleu import corpus_bleu
    except ImportError as error:
        raise MissingExtraError("sacrebleu", "text") from error
    found = corpus_bleu(list(outputs), [list(references)], lowercase=lower_case)
    return float(found.score)
