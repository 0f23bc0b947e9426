"""A sequence-to-sequence Transformer as a student: sentence pairs to logits of every token."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tutelage.errors import MissingExtraError, UnsupportedStudentError

STATE = "state"  # the submodule whose output is the mean decoder state [B, D]


class MeanState(nn.Module):
    """The mean of the decoder's last hidden state over a pair's target positions."""

    def forward(self, hidden: Tensor, counted: Tensor) -> Tensor:
        """The mean [B, D] of hidden states [B, L, D].

        Args:
            hidden: Hidden states.
            counted: Whether a position is in the mean [B, L].
        """
        share = counted / counted.sum(1, keepdim=True).clamp(min=1)
        return (hidden * share.to(hidden.dtype).unsqueeze(2)).sum(1)


class Translator(nn.Module):
    """Any encoder-decoder of ``transformers`` with an output layer ``lm_head``.

    Padding has no effect: the encoder's is masked, the decoder's comes last.
    The output of ``state`` is the mean decoder state, the internal state of Fan et al. 2021,
    section 5.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        if not (hasattr(model, "lm_head") and getattr(model.config, "is_encoder_decoder", 0)):
            raise UnsupportedStudentError(
                f"{type(model).__name__} is no encoder-decoder of transformers with lm_head; "
                "give one such as MarianMTModel."
            )
        self.model = model
        self.state = MeanState()

    def forward(self, pairs: Tensor) -> Tensor:
        """Logits of every next target token."""
        source, shifted = pairs.unbind(1)
        padding = self.model.config.pad_token_id
        hidden = self.model.model(
            input_ids=source, attention_mask=source != padding, decoder_input_ids=shifted
        ).last_hidden_state
        self.state(hidden, shifted != padding)
        logits = self.model.lm_head(hidden)
        bias = getattr(self.model, "final_logits_bias", None)
        return logits if bias is None else logits + bias

    @torch.no_grad()
    def translate(self, sources: Tensor, beams: int, longest: int) -> list[list[int]]:
        """Translations by beam search, in evaluation mode."""
        training = self.model.training
        self.model.eval()
        generated = self.model.generate(
            input_ids=sources,
            attention_mask=sources != self.model.config.pad_token_id,
            num_beams=beams,
            max_new_tokens=longest,
            do_sample=False,
        )
        self.model.train(training)
        return [tokens[1:] for tokens in generated.tolist()]


def marian(
    words: int,
    special: Sequence[int],
    *,
    width: int,
    hidden: int,
    layers: int,
    heads: int,
    dropout: float,
    longest: int,
) -> Translator:
    """A Transformer of Marian's architecture, newly initialised.

    Encoder, decoder and output layer share one embedding. Draws from torch's global generator.
    """
    try:
        from transformers import MarianConfig, MarianMTModel
    except ImportError as error:
        raise MissingExtraError("transformers", "text") from error
    padding, start, end = special
    config = MarianConfig(
        vocab_size=words,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=hidden,
        decoder_ffn_dim=hidden,
        dropout=dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=longest + 1,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        init_std=width**-0.5,
        pad_token_id=padding,
        bos_token_id=start,
        eos_token_id=end,
        forced_eos_token_id=end,
        decoder_start_token_id=start,
    )
    model = MarianMTModel(config)
    model.set_attn_implementation("eager")  # fused attention has no second derivative
    return Translator(model)
