"""What students of sentence vectors and a new head do not take is refused in one line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

from papers.catalogue import load_recipe
from papers.framework.args import Reproduce
from papers.framework.plan import make_plan
from papers.yi2021mmel import glue_texts
from papers.yi2021mmel.glue_students import Settings
from papers.yi2021mmel.glue_texts import copies_of, material
from papers.yi2021mmel.language_models import (
    Language,
    folder_digest,
    learned_tokenizer,
    with_new_head,
)
from tutelage.errors import UsageError

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
POSITIONS = 32
LANGUAGE = Language(steps=2, batch=4, longest=16, sentences=40)

pytestmark = pytest.mark.usefixtures("_cache")
needs_texts = pytest.mark.usefixtures("real_data")


@pytest.fixture
def _cache(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def made(tmp_path) -> Path:
    """Folders of a BERT without a head that fills gaps, of one with it, and of a RoBERTa."""
    torch.manual_seed(0)
    words = learned_tokenizer(["the cat sat on the mat", "a dog ran"], 60)
    sizes = {**SIZES, "vocab_size": len(words)}
    bert = BertForMaskedLM(BertConfig(**sizes, max_position_embeddings=POSITIONS))
    roberta = RobertaConfig(**sizes, max_position_embeddings=34, pad_token_id=0)
    models = {
        "body": bert.bert,
        "bert": bert,
        "roberta": RobertaForMaskedLM(roberta),
    }
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        words.save_pretrained(tmp_path / name)
    return tmp_path


def settings(model: Path | str, **of_source: Any) -> Settings:
    smoke = load_recipe("mmel-glue").settings["smoke"]
    given = {"new_head": True, "vectors": True, "language": LANGUAGE, **of_source}
    return replace(smoke, source=replace(smoke.source, model=str(model), **given))


@needs_texts
@pytest.mark.parametrize(
    "of_source",
    [
        {"longest": POSITIONS + 20},
        {"language": replace(LANGUAGE, longest=POSITIONS + 20, batch=64)},
        {"longest": 3},  # no room for a token of a pair
    ],
    ids=["longest", "language.longest", "no tokens"],
)
def test_lengths_that_do_not_fit_are_refused(made, of_source):
    with pytest.raises(UsageError):
        load_recipe("mmel-glue").prepare(settings(made / "body", **of_source))


@pytest.mark.parametrize("name", ["vectors", "new_head"])
def test_what_needs_a_model_is_refused_without_one(name):
    with pytest.raises(UsageError, match=f"source.{name} needs an encoder"):
        settings("", **{"vectors": False, "new_head": False, name: True})


def test_a_student_beside_vectors_is_refused(made):
    with pytest.raises(UsageError, match="leave one of the two out"):
        replace(settings(made / "body"), student="small")


def test_a_setting_cannot_be_given_whole_and_in_part(tmp_path):
    words = ("source=3", "source.vectors=true")
    with pytest.raises(UsageError, match=r"source\.vectors, and source as a whole"):
        make_plan(
            load_recipe("mmel-glue"),
            Reproduce("mmel-glue", scale="smoke", set=words, out=tmp_path),
        )


def test_a_new_head_of_another_model_than_bert_is_refused(made):
    with pytest.raises(UsageError, match="BERT"):
        with_new_head(str(made / "roberta"), 16, 1)


@needs_texts
def test_copies_by_a_head_that_is_not_in_the_folder_are_refused(made):
    with pytest.raises(UsageError):
        load_recipe("mmel-glue").prepare(settings(made / "body", new_head=False))


def test_a_head_that_is_in_the_folder_is_not_replaced(made):
    with pytest.raises(UsageError, match=r"holds a masked-LM head: leave source\.new_head out"):
        with_new_head(str(made / "bert"), 16, 1)


@needs_texts
def test_other_weights_in_the_same_folder_give_other_vectors_and_copies(made):
    of = settings(made / "body", new_head=True)
    before = material(of.source).train.inputs
    copies = copies_of(of.source)
    words = learned_tokenizer(["the cat sat on the mat", "a dog ran"], 60)
    torch.manual_seed(1)
    sizes = {**SIZES, "vocab_size": len(words)}
    other = BertForMaskedLM(BertConfig(**sizes, max_position_embeddings=POSITIONS))
    other.bert.save_pretrained(made / "body")
    for cached in ("_material", "_tokens", "copies_of", "_language_model"):
        getattr(glue_texts, cached).cache_clear()  # as in a new process
    folder_digest.cache_clear()
    assert not torch.equal(before, material(of.source).train.inputs)
    assert not torch.equal(copies, copies_of(of.source))


def test_settings_of_the_source_are_set_as_the_pages_say(tmp_path):
    words = ("source.model=FOLDER", "source.vectors=true", "source.new_head=true")
    found = make_plan(
        load_recipe("mmel-glue"),
        Reproduce("mmel-glue", scale="smoke", set=words, out=tmp_path),
    )
    assert found.settings.source.vectors
