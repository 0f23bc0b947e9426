"""Copies of texts: against algorithm 2 written out for one sentence, and odd texts."""

from itertools import product
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from papers.text_augment import LanguageModel, Substitution, stored_copies
from tutelage.errors import UsageError

V, PAD, BEGIN, END, MASK = 23, 0, 1, 2, 3
SPECIAL = (PAD, BEGIN, END, MASK)


class Guesser(nn.Module):
    """Logits that depend on the whole row and the place in it, but not on padding."""

    def __init__(self) -> None:
        super().__init__()
        draws = torch.Generator().manual_seed(0)
        size = {"dtype": torch.float64, "generator": draws}
        self.words = nn.Parameter(torch.randn(V, 8, **size))
        self.places = nn.Parameter(torch.randn(64, 8, **size))
        self.head = nn.Parameter(torch.randn(8, V, **size))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        places = self.places[: input_ids.shape[1]]
        hidden = (self.words[input_ids] * places).tanh() * attention_mask[:, :, None]
        mixed = hidden + 0.5 * hidden.sum(1, keepdim=True) + places
        return SimpleNamespace(logits=mixed.tanh() @ self.head)


def language(tokens_per_pass: int = 2**14) -> LanguageModel:
    return LanguageModel(
        Guesser().eval(), MASK, PAD, SPECIAL, (BEGIN,), (END,), tokens_per_pass
    )


def texts(lengths: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Pairs of sentences (a second one of no token: a single sentence)."""
    draws = torch.Generator().manual_seed(1)
    rows, sides = [], []
    for first, second in lengths:
        words = torch.randint(4, V, (first + second,), generator=draws).tolist()
        row = [BEGIN, *words[:first], END] + ([*words[first:], END] if second else [])
        side = [0, *[1] * first, 0] + ([*[2] * second, 0] if second else [])
        rows.append(row)
        sides.append(side)
    longest = max(map(len, rows))
    inputs = torch.zeros(len(rows), 3, longest, dtype=torch.int32)
    places = torch.zeros(len(rows), longest, dtype=torch.int8)
    for n, (row, side) in enumerate(zip(rows, sides, strict=True)):
        inputs[n, 0, : len(row)] = torch.tensor(row)
        inputs[n, 2, : len(row)] = 1
        places[n, : len(row)] = torch.tensor(side)
    return inputs, places


def best(row: list[int], gap: int) -> Tensor:
    """Log-probabilities of one row's gap, the row alone."""
    ids = torch.tensor([row])
    logits = Guesser()(ids, torch.ones_like(ids)).logits[0, gap].detach()
    logits[list(SPECIAL)] = -torch.inf
    return logits.log_softmax(0)


def greedy_by_hand(row: list[int], gaps: list[int], copies: int) -> list[list[int]]:
    masked = [MASK if n in gaps else token for n, token in enumerate(row)]
    found = []
    for copy in range(copies):
        z = list(masked)
        for turn, gap in enumerate(gaps):
            order = best(z, gap).argsort(descending=True)
            z[gap] = int(order[0 if turn else copy])
        found.append(z)
    return found


def beams_by_hand(row: list[int], gaps: list[int], copies: int) -> list[list[int]]:
    masked = [MASK if n in gaps else token for n, token in enumerate(row)]
    live = [(0.0, masked)] * (1 if gaps else copies)
    for gap in gaps:
        longer = [
            (worth + float(value), [*z[:gap], token, *z[gap + 1 :]])
            for worth, z in live
            for token, value in enumerate(best(z, gap))
        ]
        live = sorted(longer, key=lambda one: -one[0])[:copies]
    return [z for _, z in live]


LENGTHS = [(7, 0), (5, 0), (12, 0), (6, 0), (1, 0), (0, 0), (3, 0)]
BY_HAND = {"greedy": greedy_by_hand, "beam": beams_by_hand}


def changed_places(inputs: Tensor, copies: Tensor, row: int) -> list[int]:
    return (copies[row, :, 0] != inputs[row, 0]).any(0).nonzero().flatten().tolist()


@pytest.mark.parametrize(("search", "tokens_per_pass"), list(product(BY_HAND, [2**14, 40])))
def test_a_batch_gives_what_one_sentence_alone_gives_by_the_algorithm(
    search, tokens_per_pass, monkeypatch
) -> None:
    inputs, sides = texts(LENGTHS)
    made = Substitution(language(tokens_per_pass), copies=4, search=search)
    gaps_of: list[list[int]] = []
    draw = Substitution._chosen

    def watched(self, tokens, seed) -> list[int]:
        gaps_of.append(draw(self, tokens, seed))
        return gaps_of[-1]

    monkeypatch.setattr(Substitution, "_chosen", watched)
    copies = made(inputs, sides, seed=5)
    order = (sides == 1).sum(1).argsort(stable=True).tolist()
    for row, gaps in zip(order, gaps_of, strict=True):
        length = int(inputs[row, 2].sum())
        sentence = inputs[row, 0, :length].tolist()
        assert len(gaps) == round(0.4 * (length - 2))
        wanted = BY_HAND[search](sentence, [1 + g for g in gaps], 4)
        assert copies[row, :, 0, :length].tolist() == wanted
        assert torch.equal(copies[row, :, 0, length:], inputs[row, 0, length:].expand(4, -1))


@pytest.mark.parametrize("separate", [True, False])
def test_only_words_change_and_both_sentences_do(separate) -> None:
    inputs, sides = texts([(8, 6), (5, 9), (10, 0)])
    copies = Substitution(language(), copies=3, separate=separate)(inputs, sides, seed=0)
    assert copies.dtype == inputs.dtype
    assert torch.equal(copies[:, :, 1:], inputs[:, None, 1:].expand(-1, 3, -1, -1))
    changed = copies[:, :, 0] != inputs[:, None, 0]
    assert not changed[(sides == 0)[:, None].expand_as(changed)].any()
    assert not torch.isin(copies[:, :, 0][changed], torch.tensor(SPECIAL)).any()
    words = sides > 0
    assert changed.any(1).sum() >= 0.2 * words.sum()
    if separate:
        assert all(
            changed[:2][(sides[:2] == s)[:, None].expand(-1, 3, -1)].any() for s in (1, 2)
        )


def test_a_sentence_is_changed_alike_beside_any_neighbour() -> None:
    inputs, sides = texts([(8, 6), (5, 9)])
    made = Substitution(language(), copies=2)
    both = made(inputs, sides, seed=0)
    assert torch.equal(made(inputs[1:], sides[1:], seed=0), both[1:])
    swapped = made(inputs.flip(0), sides.flip(0), seed=0)
    assert torch.equal(swapped.flip(0), both)
    assert not torch.equal(made(inputs, sides, seed=1), both)


def test_a_pair_seen_as_one_differs_from_its_sentences_seen_alone() -> None:
    inputs, sides = texts([(8, 6), (5, 9)])
    apart, together = (
        Substitution(language(), copies=2, separate=s)(inputs, sides, seed=0)
        for s in (True, False)
    )
    assert not torch.equal(apart, together)


@pytest.mark.parametrize("search", BY_HAND)
def test_texts_without_anything_to_replace_stay_as_they_are(search) -> None:
    inputs, sides = texts([(0, 0), (1, 0), (0, 1)])
    copies = Substitution(language(), copies=3, search=search)(inputs, sides, seed=0)
    assert torch.equal(copies, inputs[:, None].expand_as(copies))
    inputs, sides = texts([(5, 0)])
    none = Substitution(language(), copies=3, share=0.0, search=search)(inputs, sides, seed=0)
    assert torch.equal(none, inputs[:, None].expand_as(none))


def test_all_words_can_be_replaced() -> None:
    inputs, sides = texts([(6, 0), (1, 0)])
    copies = Substitution(language(), copies=2, share=1.0)(inputs, sides, seed=0)
    wanted = greedy_by_hand(inputs[0, 0, :8].tolist(), list(range(1, 7)), 2)
    assert copies[0, :, 0, :8].tolist() == wanted
    assert copies[1, 0, 0, 1] != copies[1, 1, 0, 1]


def test_more_copies_than_words_repeat_the_last_one() -> None:
    inputs, sides = texts([(2, 0)])
    copies = Substitution(language(), copies=V)(inputs, sides, seed=0)
    assert len({tuple(c) for c in copies[0, :, 0].tolist()}) == V - len(SPECIAL)


def test_copies_are_stored_by_content(tmp_path) -> None:
    inputs, sides = texts([(8, 0), (5, 0)])
    made = Substitution(language(), copies=2)
    first = stored_copies(made, inputs, sides, seed=0, folder=tmp_path)
    file = next(tmp_path.iterdir())
    stamp = file.stat().st_mtime_ns
    assert torch.equal(stored_copies(made, inputs, sides, seed=0, folder=tmp_path), first)
    assert file.stat().st_mtime_ns == stamp
    stored_copies(made, inputs, sides, seed=1, folder=tmp_path)
    stored_copies(made, inputs[:1], sides[:1], seed=0, folder=tmp_path)
    stored_copies(
        Substitution(language(), copies=2, share=0.2), inputs, sides, seed=0, folder=tmp_path
    )
    other = language()
    nn.init.zeros_(next(other.model.parameters()))
    stored_copies(Substitution(other, copies=2), inputs, sides, seed=0, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 5
    file.write_bytes(b"broken")
    assert torch.equal(stored_copies(made, inputs, sides, seed=0, folder=tmp_path), first)


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"copies": 0}, "copies is 0"),
        ({"copies": 1, "share": 1.5}, "share is 1.5"),
        ({"copies": 1, "search": "beams"}, "Did you mean 'beam'"),
    ],
)
def test_what_cannot_be_is_refused(odd, said) -> None:
    with pytest.raises(UsageError, match=said):
        Substitution(language(), **odd)


def test_a_tokenizer_without_a_mask_token_is_refused() -> None:
    with pytest.raises(UsageError, match="no mask_token"):
        LanguageModel.of(Guesser(), SimpleNamespace(mask_token_id=None, pad_token_id=0))
