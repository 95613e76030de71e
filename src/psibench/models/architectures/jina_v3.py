"""jina-embeddings-v3 with its two adapters for retrieval, of queries and of passages.

Sturua et al. 2024, arXiv:2409.10173, section 3: XLM-RoBERTa with rotary positions, as
`flash_xlm_roberta` reads it, and a LoRA adapter per task on its embeddings and linear layers (Hu et
al. 2021, arXiv:2106.09685: W + s B A with s = alpha / rank). The checkpoint stores the adapters of
all tasks stacked beside each weight, and an instruction for each of the two tasks of retrieval that
its texts begin with. Here both tasks' adapters are added to a copy of the weights each, and a text
goes through the copy whose instruction it begins with: a batch may hold queries and documents.
Import inside functions only: it needs torch.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from psibench.errors import InputError
from psibench.models.architectures import flash_xlm_roberta
from psibench.models.tokenizing import load_tokenizer
from psibench.models.weights import read_tensors

TASKS = ("retrieval.query", "retrieval.passage")
ADAPTERS, INSTRUCTIONS = "lora_adaptations", "task_instructions"
PART = re.compile(r"(?P<module>.+)\.parametrizations\.weight\.(?:0\.)?(?P<part>original|lora_[AB])")


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> "ByTask":
    """Load a network for queries and one for passages.

    ``options`` are those of ``from_pretrained``. Merging is done in float32, then rounded to the
    number format asked for. Raises InputError if the checkpoint lacks one of the two tasks or its
    instruction, or its weights are others.
    """
    tasks, instructions = list(config.get(ADAPTERS) or ()), config.get(INSTRUCTIONS) or {}
    if not (set(TASKS) <= set(tasks) and set(TASKS) <= set(instructions)):
        raise InputError(
            f"{folder}: architecture jina-v3: found {ADAPTERS} {tasks} and {INSTRUCTIONS} for "
            f"{sorted(instructions)}; both need {' and '.join(TASKS)}"
        )
    stored = read_tensors(folder)
    scale = config["lora_alpha"] / config["lora_rank"]
    plain = {key: value for key, value in config.items() if key != ADAPTERS}
    networks = []
    for task in TASKS:
        merged = _merged(folder, stored, tasks.index(task), scale)
        networks.append(flash_xlm_roberta.load(folder, plain, {**options, "state_dict": merged}))
    place, ids = _first_difference(folder, [instructions[task] for task in TASKS])
    return ByTask(
        networks, place=place, ids=ids, instructions=[instructions[task] for task in TASKS]
    )


def _merged(
    folder: Path, stored: Mapping[str, Any], number: int, scale: float
) -> dict[str, Tensor]:
    """Add one task's adapter to the weights it lies on; others are as they are.

    A linear layer's adapter is (tasks, rank, in) and (tasks, out, rank), an embedding's
    (tasks, words, rank) and (tasks, rank, hidden): the product that has the weight's shape.
    """
    merged: dict[str, Tensor] = {}
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in stored.items():
        match = PART.fullmatch(name)
        if match is None:
            merged[name] = tensor
        else:
            parts.setdefault(match["module"], {})[match["part"]] = tensor
    for module, tensors in parts.items():
        if set(tensors) != {"original", "lora_A", "lora_B"}:
            raise InputError(f"{folder}: the adapter on {module} has not two sides and a weight")
        weight, a, b = (
            tensors["original"].float(),
            tensors["lora_A"].float(),
            tensors["lora_B"].float(),
        )
        sides = (a, b) if module.endswith("embeddings") else (b, a)
        merged[f"{module}.weight"] = weight + scale * (sides[0][number] @ sides[1][number])
    return merged


def _first_difference(folder: Path, instructions: Sequence[str]) -> tuple[int, list[int]]:
    """Return the first place, special tokens counted, where both begin otherwise, and its ids."""
    tokenizer = load_tokenizer(folder, as_stored=True)
    pairs = zip(*(tokenizer(text)["input_ids"] for text in instructions), strict=False)
    for place, ids in enumerate(pairs):
        if ids[0] != ids[1]:
            return place, list(ids)
    raise InputError(f"{folder}: its tokenizer reads both of {instructions} alike")


class ByTask(nn.Module):
    """The network of queries and that of passages; each text goes through its own."""

    def __init__(
        self, networks: Sequence[nn.Module], *, place: int, ids: list[int], instructions: list[str]
    ) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.place, self.ids, self.instructions = place, ids, instructions
        self.config: Any = networks[0].config

    def get_input_embeddings(self) -> nn.Module:
        """Return the word embeddings of passages: gradients are taken by documents' tokens."""
        found: nn.Module = self.networks[1].get_input_embeddings()  # type: ignore[operator]
        return found

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SimpleNamespace:
        """Return ``last_hidden_state``, (rows, length, hidden), of texts padded on the right.

        Raises InputError if a text begins with neither instruction.
        """
        at = input_ids[:, min(self.place, input_ids.shape[1] - 1)]
        chosen = [at == number for number in self.ids]
        if not (chosen[0] | chosen[1]).all():
            raise InputError(
                "architecture jina-v3: a text begins with neither of its two instructions: its "
                f"entry needs query_prompt {self.instructions[0]!r} and document_prompt "
                f"{self.instructions[1]!r}, and no windows"
            )
        found: list[Tensor] = []
        order: list[Tensor] = []
        for rows, network in zip(chosen, self.networks, strict=True):
            if rows.any():
                mask = None if attention_mask is None else attention_mask[rows]
                states = network(input_ids=input_ids[rows], attention_mask=mask).last_hidden_state
                found.append(states)
                order.append(rows.nonzero().squeeze(1))
        back = torch.cat(order).argsort()
        return SimpleNamespace(last_hidden_state=torch.cat(found)[back])
