"""nomic-embed-text-v1.5 for texts longer than in training, as in its card for 8,192 tokens.

Nussbaum et al. 2024, arXiv:2402.01613: dynamic NTK scaling of the rotary angles reads texts longer
than in training. With the card's factor f of 2, a text of L tokens, more than the T of training,
has the base b (f L / T - (f - 1))^(d / (d - 2)), where d is the size of a head. In the checkpoint's
code L is the padded length of the batch, and a long batch also changes shorter ones after it. Here
L is the length of each text, so that other texts change nothing. Import inside functions only: it
needs torch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from psibench.errors import InputError
from psibench.models.weights import load_port

FACTOR = 2.0  # its card's rotary_scaling_factor for 8,192 tokens
_TRAINED_KEY, _LONGEST_KEY = "max_trained_positions", "n_positions"


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> "LongNomic":
    """Load transformers' NomicBertModel with angles that depend on each text's length.

    ``options`` are for ``from_pretrained``. Raises InputError if the checkpoint is another model,
    or does not declare its tokens in training and its longest input.
    """
    from transformers import NomicBertModel

    absent = [key for key in (_TRAINED_KEY, _LONGEST_KEY) if not isinstance(config.get(key), int)]
    if absent or config.get("model_type") != "nomic_bert":
        raise InputError(
            f"{folder}: architecture nomic-long: found model_type {config.get('model_type')!r}, "
            f"and these keys are missing: {', '.join(absent) or 'none'}; supported: 'nomic_bert' "
            f"with {_TRAINED_KEY} and {_LONGEST_KEY}"
        )
    model = load_port(NomicBertModel, folder, add_pooling_layer=False, **options)
    return LongNomic(model, trained=config[_TRAINED_KEY], longest=config[_LONGEST_KEY])


class LongNomic(nn.Module):
    """The network; it sets the lengths of the texts before each batch."""

    def __init__(self, model: Any, *, trained: int, longest: int) -> None:
        super().__init__()
        theta = model.config.rope_parameters["rope_theta"]
        self.angles = Angles(theta, model.config.head_dim, trained)
        model.rotary_emb = self.angles
        model.config.max_position_embeddings = longest
        self.model, self.config = model, model.config

    def get_input_embeddings(self) -> nn.Module:
        """Return the layer of word embeddings."""
        layer: nn.Module = self.model.get_input_embeddings()
        return layer

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        """Run the network on texts padded on the right."""
        whole = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        self.angles.lengths = whole.sum(dim=1)
        return self.model(input_ids=input_ids, attention_mask=attention_mask)


class Angles(nn.Module):
    """Rotary angles of a batch whose texts have ``lengths`` tokens."""

    def __init__(self, theta: float, size: int, trained: int) -> None:
        super().__init__()
        self.theta, self.size, self.trained = theta, size, trained
        self.lengths: Tensor | None = None

    def bases(self, lengths: Tensor) -> Tensor:
        """Return the base of each text's angles; up to the length in training it is unchanged."""
        stretch = (FACTOR * lengths.double() / self.trained - (FACTOR - 1)).clamp(min=1.0)
        return self.theta * stretch ** (self.size / (self.size - 2))

    def forward(self, states: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines, (texts, length, size of a head) each."""
        assert self.lengths is not None
        powers = torch.arange(0, self.size, 2, device=states.device).double() / self.size
        frequencies = (self.bases(self.lengths)[:, None] ** -powers).float()
        angles = position_ids[..., None].float() * frequencies[:, None, :]
        twice = torch.cat((angles, angles), dim=-1)
        return twice.cos().to(states.dtype), twice.sin().to(states.dtype)
