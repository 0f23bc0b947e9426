"""Texts as tokens: odd texts, pairs, and what a classifier makes of padding."""

import logging
from typing import Any

import pytest
import torch

from papers.yi2021mmel.language_models import learned_tokenizer
from tutelage.errors import UsageError
from tutelage.models.text_classifier import text_classifier
from tutelage_cli.data.text.tokens import tokenised

TINY: dict[str, Any] = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "vocab_size": 120,
    "max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def tokenizer():
    return learned_tokenizer(["a dog ran home", "the cat sat on a mat [ ]"] * 3, 100)


ODD = ["", "  \t", "null", "word " * 2000, "x" * 5000, "é́​!", "[PAD] [MASK]", "a\nb"]


def test_odd_texts_are_kept_and_long_ones_cut_with_one_warning(tokenizer, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        inputs, sides = tokenised([ODD], tokenizer, 32)
    assert [r.getMessage() for r in caplog.records] == ["1 of 8 texts are cut to 32 tokens."]
    assert inputs.shape == (8, 3, 32)
    counts = inputs[:, 2].sum(1)
    assert counts[:2].tolist() == [2, 2]
    assert not sides[:2].any()
    assert counts[3] == 32
    special = torch.tensor([tokenizer.pad_token_id, tokenizer.mask_token_id])
    assert not torch.isin(inputs[6, 0, : counts[6]], special).any()
    assert (inputs[0, 0, 2:] == tokenizer.pad_token_id).all()


def test_the_sentences_of_a_pair_are_told_apart(tokenizer) -> None:
    inputs, sides = tokenised([["a dog ran", ""], ["the cat", "mat"]], tokenizer, 32)
    assert sides[0].tolist() == [0, 1, 1, 1, 0, 2, 2, 0]
    assert inputs[0, 1].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert (sides[1] == 1).sum() == 0


def test_what_cannot_pad_or_has_nothing_to_read_is_refused(tokenizer) -> None:
    other = learned_tokenizer(["a b"], 30)
    other.pad_token = None
    with pytest.raises(UsageError, match="no padding token"):
        tokenised([["a"]], other, 8)
    with pytest.raises(UsageError, match="no fast tokenizer"):
        tokenised([["a"]], object(), 8)
    with pytest.raises(UsageError, match="one and more"):
        tokenised([[]], tokenizer, 8)


@pytest.mark.parametrize("classes", [1, 3])
def test_padding_counts_for_nothing(tokenizer, classes) -> None:
    torch.manual_seed(0)
    student = text_classifier(TINY, classes=classes).eval()
    inputs = tokenised([["a dog ran home", "a"], ["the cat", "mat"]], tokenizer, 32).inputs
    wide = torch.nn.functional.pad(inputs, (0, 20))
    logits = student(inputs)
    assert logits.shape == (2, classes)
    assert torch.allclose(student(wide), logits, atol=1e-6)
    assert torch.allclose(student(inputs[1:]), logits[1:], atol=1e-6)


@pytest.mark.parametrize("types", [1, 2])
def test_a_batch_without_texts_has_no_logits_and_changes_no_gradient(types) -> None:
    student = text_classifier({**TINY, "type_vocab_size": types}, classes=3)
    logits = student(torch.ones(0, 3, 5, dtype=torch.int64))
    assert logits.shape == (0, 3)
    logits.sum().backward()
    assert not any(p.grad is not None and p.grad.any() for p in student.parameters())


def test_a_student_comes_from_a_folder_that_transformers_wrote(tmp_path) -> None:
    torch.manual_seed(0)
    text_classifier(TINY, classes=3).model.save_pretrained(tmp_path)
    again = text_classifier(str(tmp_path), classes=3)
    assert again.training
    texts = torch.ones(2, 3, 5, dtype=torch.int64)
    assert torch.equal(
        again.eval()(texts), text_classifier(str(tmp_path), classes=3).eval()(texts)
    )
    with pytest.raises(UsageError, match="is no folder"):
        text_classifier(str(tmp_path / "nowhere"), classes=3)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="no sequence classifier"):
        text_classifier(str(tmp_path), classes=3)
