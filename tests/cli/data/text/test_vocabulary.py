"""Every text has tokens; what looks special is text; cuts are counted."""

import logging

import pytest

from tutelage.errors import UsageError
from tutelage_cli.data.text.vocabulary import END, SPECIAL, Vocabulary

TEXTS = ["the cat sat on the mat", "die Katze saß auf der Matte"] * 3


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.learn(TEXTS, 300)


@pytest.mark.parametrize(
    "text",
    ["the mat", "null", "<MASK> </s> <pad>", "e\u0301\u200bx", "两只狗", "a\nb", TEXTS[1]],
)
def test_texts_come_back(vocabulary, text):
    [tokens] = vocabulary.encode([text], 200)
    assert tokens[-1] == END
    assert min(tokens[:-1]) >= len(SPECIAL)
    assert vocabulary.decode([tokens]) == [text]


def test_words_by_themselves_have_the_tokens_that_they_have_in_a_text(vocabulary):
    beside = ["a", "'s", "!", "1", "\n", "\xa0", "\x1c", "\u200b", " ", "<s>"]
    texts = [f"{one} {two} {one}{two}  {one}" for one in beside for two in beside]
    whole = [found.ids for found in vocabulary.tokenizer.encode_batch(texts)]
    assert vocabulary.encode(texts, 200) == [[*ids, END] for ids in whole]


def test_empty_texts_have_one_token(vocabulary, caplog):
    with caplog.at_level(logging.WARNING):
        assert vocabulary.encode([""], 5) == [[END]]
    assert not caplog.records
    assert vocabulary.decode([[END]]) == [""]


def test_long_texts_are_cut_with_one_warning(vocabulary, caplog):
    long = ["word " * 20_000, "x" * 50_000, "the cat"]
    with caplog.at_level(logging.WARNING):
        tokens = vocabulary.encode(long, 8)
    assert [len(ids) for ids in tokens[:2]] == [8, 8]
    assert all(ids[-1] == END for ids in tokens)
    assert [r.message for r in caplog.records] == ["2 of 3 texts are cut to 8 tokens."]


def test_a_vocabulary_is_stored_and_read(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "words.json")
    again = Vocabulary.load(tmp_path / "words.json")
    assert len(again) == len(vocabulary)
    assert again.encode(["the <MASK>"], 50) == vocabulary.encode(["the <MASK>"], 50)


def test_what_is_no_vocabulary_is_refused(tmp_path, vocabulary):
    with pytest.raises(UsageError, match="allowed: 260 and above"):
        Vocabulary.learn(TEXTS, 100)
    with pytest.raises(UsageError, match="longest is 0"):
        vocabulary.encode(["a"], 0)
    file = tmp_path / "broken.json"
    file.write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match="holds no vocabulary"):
        Vocabulary.load(file)
    other = vocabulary.tokenizer.to_str().replace("<MASK>", "<mask>")
    file.write_text(other, encoding="utf-8")
    with pytest.raises(UsageError, match="lacks the special tokens"):
        Vocabulary.load(file)
