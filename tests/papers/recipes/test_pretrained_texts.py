"""Text recipes take pretrained models from folders, and tell what is wrong there."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

from papers.catalogue import load_recipe
from papers.text_augment import LanguageModel
from papers.yi2021mmel.glue_students import Settings, student_of
from papers.yi2021mmel.glue_texts import Source, copies_of, material
from papers.yi2021mmel.language_models import encoder, learned_tokenizer, masked_language_model
from tests.trained import one_line, run_papers, unchecked
from tutelage.errors import UsageError
from tutelage.models.sentence_vectors import sentence_vectors
from tutelage.models.text_classifier import TextClassifier, text_classifier

TINY: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Folders of models that no test changes."""
    place = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    sentences = ["the cat sat on the mat", "a dog ran", "nobody came", "why not a cat"]
    words = learned_tokenizer(sentences, 60)
    sizes = {**TINY, "vocab_size": len(words)}
    bert = BertForMaskedLM(BertConfig(**sizes, max_position_embeddings=32))
    roberta = RobertaConfig(**sizes, max_position_embeddings=34, pad_token_id=0)
    for name, model in (("bert", bert), ("roberta", RobertaForMaskedLM(roberta))):
        model.save_pretrained(place / name)
        words.save_pretrained(place / name)
    learned_tokenizer(["other words"], 40).save_pretrained(place / "other")
    shutil.copytree(place / "bert", place / "other", dirs_exist_ok=True, ignore=_tokens)
    bert.bert.save_pretrained(place / "body")
    words.save_pretrained(place / "body")
    shutil.copytree(place / "bert", place / "no tokenizer", ignore=_tokens)
    for name, file, content in (
        ("cut", "model.safetensors", (place / "bert" / "model.safetensors").read_bytes()[:99]),
        ("odd words", "tokenizer.json", b"{"),
        ("odd settings", "config.json", b"{"),
    ):
        shutil.copytree(place / "bert", place / name)
        (place / name / file).write_bytes(content)
    (place / "empty").mkdir()
    _renamed(place / "bert", place / "of another kind")
    return place


def _tokens(_: str, names: list[str]) -> set[str]:
    return {name for name in names if name.startswith("tokenizer")}


def _renamed(one: Path, other: Path) -> None:
    # says it is a DistilBERT, whose weights have other names
    shutil.copytree(one, other)
    config = json.loads((one / "config.json").read_text(encoding="utf-8"))
    changed = {"model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"]}
    changed |= {"dim": 16, "n_heads": 2, "n_layers": 2, "hidden_dim": 32}
    (other / "config.json").write_text(json.dumps(config | changed), encoding="utf-8")


@pytest.fixture
def _cache(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def settings(name: str, model: Path, student: str = "") -> Settings:
    smoke = load_recipe(name).settings["smoke"]
    return replace(smoke, source=replace(smoke.source, model=str(model)), student=student)


def inside(student: nn.Module) -> Any:
    """The model of ``transformers``."""
    return cast(TextClassifier, student).model


@pytest.mark.usefixtures("real_data", "_cache")
@pytest.mark.parametrize(
    ("name", "arms"),
    [
        ("mmel-glue", ("none", "long", "hard", "soft")),
        ("mmel-labels", ("soft.original", "hard.predicted")),
        ("mmel-generation", ("soft.beam.as-one.0.4", "hard.greedy.apart.0.2")),
    ],
)
def test_recipes_run_with_an_encoder_from_a_folder(made, name, arms):
    recipe, of = load_recipe(name), settings(name, made / "bert")
    recipe.prepare(of)
    for arm in arms:
        outcome = recipe.run(arm, 0, of, CPU)
        assert outcome.metrics.keys() == recipe.metrics.keys()
        assert outcome == recipe.run(arm, 0, of, CPU)


@pytest.mark.usefixtures("real_data", "_cache")
@pytest.mark.parametrize("task", ["wnli", "rte"])
def test_students_of_sentence_vectors_learn_from_copies_by_a_body_with_a_new_head(made, task):
    recipe, of = load_recipe("mmel-glue"), settings("mmel-glue", made / "body")
    tiny = replace(of.source.language, sentences=40, longest=16)
    source = replace(of.source, task=task, new_head=True, vectors=True, language=tiny)
    of = replace(of, source=source)
    recipe.prepare(of)
    texts, copies = material(source), copies_of(source)
    width = 4 * TINY["hidden_size"]  # u, v, |u - v| and u v of a pair
    assert texts.train.inputs.shape == (24, width)
    assert texts.held_out.inputs.shape == (24, width)
    assert copies.shape == (24, 2, width)
    for arm in ("none", "long", "hard", "smoothed"):
        outcome = recipe.run(arm, 0, of, CPU)
        assert outcome.metrics.keys() == recipe.metrics.keys()
        assert outcome == recipe.run(arm, 0, of, CPU)


@pytest.mark.usefixtures("real_data", "_cache")
def test_vectors_are_those_of_each_sentence_alone(made):
    of = settings("mmel-glue", made / "body")
    source = replace(of.source, new_head=True, vectors=True, longest=32)
    found = material(source).train.inputs[0]
    tokens = material(replace(source, vectors=False)).train
    encoder, width = sentence_vectors(made / "body"), TINY["hidden_size"]
    words = material(source).tokenizer
    parts = []
    for side in (1, 2):
        ids = tokens.inputs[0, 0][tokens.sides[0] == side].tolist()
        whole = [words.cls_token_id, *ids, words.sep_token_id]
        text = torch.tensor([whole, [0] * len(whole), [1] * len(whole)])[None]
        parts.append(encoder(text)[0] * width**0.5)
    u, v = parts
    wanted = torch.cat([u, v, (u - v).abs(), u * v]).detach()
    assert torch.allclose(found, wanted, atol=1e-5)


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_the_student_begins_as_the_encoder_in_the_folder(made, name):
    of = settings("mmel-glue", made / name)
    texts = material(of.source)
    one, other = (inside(student_of(of, texts, seed)) for seed in (0, 1))
    stored = text_classifier(str(made / name), classes=2).model.base_model.state_dict()
    shared = {k: v for k, v in one.base_model.state_dict().items() if "pooler" not in k}
    assert len(shared) > 20
    assert all(torch.equal(v, stored[k]) for k, v in shared.items())
    new, newer = (model.classifier.state_dict() for model in (one, other))
    assert any(not torch.equal(new[k], newer[k]) for k in new)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_log_probs_are_those_of_the_whole_model_at_the_masked_position(made, name):
    words, model = masked_language_model(str(made / name), 16)
    language = LanguageModel.of(model, words)
    ids = torch.randint(5, len(words), (6, 9))
    attended = torch.arange(9) < torch.tensor([[9], [7], [9], [4], [9], [8]])
    position = torch.tensor([1, 3, 8, 2, 0, 5])
    logits = model(input_ids=ids, attention_mask=attended.long()).logits[
        torch.arange(6), position
    ]
    logits[:, list(language.special_tokens)] = -torch.inf
    assert torch.allclose(
        language.log_probs(ids, attended, position), logits.log_softmax(1), atol=1e-5
    )


@pytest.mark.usefixtures("real_data")
def test_copies_of_a_pretrained_model_serve_a_small_student_too(made):
    of = settings("mmel-glue", made / "bert", "small")
    student = inside(student_of(of, material(of.source), 0))
    assert student.config.hidden_size > TINY["hidden_size"]
    assert student.config.vocab_size >= len(material(of.source).tokenizer)


@pytest.mark.parametrize("name", ["bert", "roberta"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_dropout_is_that_of_the_settings(made, name, dropout):
    words, _ = masked_language_model(str(made / name), 32)
    student = encoder(str(made / name), classes=2, dropout=dropout, tokenizer=words)
    found = {m.p for m in student.modules() if isinstance(m, nn.Dropout)}
    assert found == {dropout}


def test_loading_says_nothing(made, capfd, caplog):
    words, _ = masked_language_model(str(made / "bert"), 32)
    encoder(str(made / "bert"), classes=2, dropout=0.1, tokenizer=words)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("empty", "holds no tokenizer"),
        ("no tokenizer", "holds no tokenizer"),
        ("odd words", "holds no tokenizer"),
        ("odd settings", "not a valid JSON"),
        ("cut", "holds no masked language model"),
        ("nowhere", "is not here: give --set source.model=FOLDER"),
    ],
)
def test_a_folder_that_will_not_do_is_told(made, folder, said):
    with pytest.raises(UsageError, match=said) as raised:
        masked_language_model(str(made / folder), 8)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_texts_longer_than_the_model_takes_are_refused(made, name):
    masked_language_model(str(made / name), 32)
    with pytest.raises(UsageError, match="takes no texts of 40 tokens"):
        masked_language_model(str(made / name), 40)


def test_a_student_of_other_tokens_is_refused(made):
    words, _ = masked_language_model(str(made / "bert"), 8)
    with pytest.raises(UsageError, match="has other tokens"):
        encoder(str(made / "other"), classes=2, dropout=0.0, tokenizer=words)
    many = learned_tokenizer(["all the other words that there may be in a text"], 90)
    with pytest.raises(UsageError, match=r"a model of \d+ tokens, but texts have up to"):
        encoder(str(made / "no tokenizer"), classes=2, dropout=0.0, tokenizer=many)


@pytest.mark.parametrize("folder", ["cut", "of another kind", "odd settings"])
def test_a_student_whose_encoder_is_not_there_is_refused(made, folder):
    with pytest.raises(UsageError, match=r"holds no sequence classifier|lacks .* its encoder"):
        text_classifier(str(made / folder), classes=2)


@pytest.mark.parametrize(("task", "epochs"), [("qqp", 3), ("a/mnli", 3), ("rte", 10)])
def test_large_tasks_are_seen_three_times_and_others_ten(task, epochs):
    assert Settings(source=Source(task=task)).epochs_or_default == epochs
    assert Settings(source=Source(task=task), epochs=5).epochs_or_default == 5


@pytest.mark.usefixtures("real_data")
def test_the_papers_scale_asks_for_its_model_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with unchecked():
        answer = run_papers(
            "reproduce", "mmel-glue", "--scale", "paper", "--out", tmp_path / "out"
        )
    one_line(answer, "bert-base-uncased is not here", "--set source.model=FOLDER")
