"""jina-embeddings-v3 with its two retrieval adapters, for queries and passages.

Sturua et al. 2024, arXiv:2409.10173, section 3: XLM-RoBERTa with rotary positions, loaded by
`flash_xlm_roberta`, and a LoRA adapter per task on its embeddings and linear layers (Hu et al.
2021, arXiv:2106.09685: W + s B A with s = alpha / rank). The checkpoint stores the stacked adapters
of all tasks next to each weight, and for each retrieval task an instruction that its texts begin
with. The loader merges the adapter of each retrieval task into a copy of the weights. The
instruction at a text's beginning selects the copy, so that a batch may mix queries and documents.
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
from psibench.models.tokenizing import load_checkpoint_tokenizer
from psibench.models.weights import read_tensors

_RETRIEVAL_TASKS = ("retrieval.query", "retrieval.passage")
ADAPTERS, INSTRUCTIONS = "lora_adaptations", "task_instructions"
_ADAPTED_WEIGHT = re.compile(
    r"(?P<module>.+)\.parametrizations\.weight\.(?:0\.)?(?P<part>original|lora_[AB])"
)


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> "ByTask":
    """Load a network for queries and one for passages.

    ``options`` are for ``from_pretrained``. Weights are merged in float32, then rounded to the
    requested number format. Raises InputError if the checkpoint lacks a task or its instruction, or
    the weights do not fit.
    """
    tasks, instructions = list(config.get(ADAPTERS) or ()), config.get(INSTRUCTIONS) or {}
    if not set(_RETRIEVAL_TASKS) <= set(tasks) & set(instructions):
        raise InputError(
            f"{folder}: architecture jina-v3: found {ADAPTERS} {tasks} and {INSTRUCTIONS} for "
            f"{sorted(instructions)}; both need {' and '.join(_RETRIEVAL_TASKS)}"
        )
    stored = read_tensors(folder)
    scale = config["lora_alpha"] / config["lora_rank"]
    plain = {key: value for key, value in config.items() if key != ADAPTERS}
    networks = []
    for task in _RETRIEVAL_TASKS:
        merged = _merged(folder, stored, tasks.index(task), scale)
        networks.append(flash_xlm_roberta.load(folder, plain, {**options, "state_dict": merged}))
    prefixes = [instructions[task] for task in _RETRIEVAL_TASKS]
    position, ids = _first_difference(folder, prefixes)
    return ByTask(networks, position=position, ids=ids, instructions=prefixes)


def _merged(
    folder: Path, stored: Mapping[str, Any], number: int, scale: float
) -> dict[str, Tensor]:
    """Add one task's adapters to their weights; other weights are unchanged.

    A linear layer's adapter is (tasks, rank, in) and (tasks, out, rank), an embedding's (tasks,
    words, rank) and (tasks, rank, hidden), multiplied so that the product has the weight's shape.
    """
    merged: dict[str, Tensor] = {}
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in stored.items():
        match = _ADAPTED_WEIGHT.fullmatch(name)
        if match is None:
            merged[name] = tensor
        else:
            parts.setdefault(match["module"], {})[match["part"]] = tensor
    for module, tensors in parts.items():
        if set(tensors) != {"original", "lora_A", "lora_B"}:
            raise InputError(
                f"{folder}: {module} has the tensors {sorted(tensors)}; expected lora_A, lora_B "
                "and original"
            )
        weight, a, b = (
            tensors["original"].float(),
            tensors["lora_A"].float(),
            tensors["lora_B"].float(),
        )
        sides = (a, b) if module.endswith("embeddings") else (b, a)
        merged[f"{module}.weight"] = weight + scale * (sides[0][number] @ sides[1][number])
    return merged


def _first_difference(folder: Path, instructions: Sequence[str]) -> tuple[int, list[int]]:
    """Return the first position (counting special tokens) where both texts differ, and both ids."""
    tokenizer = load_checkpoint_tokenizer(folder, as_stored=True)
    pairs = zip(*(tokenizer(text)["input_ids"] for text in instructions), strict=False)
    for position, ids in enumerate(pairs):
        if ids[0] != ids[1]:
            return position, list(ids)
    raise InputError(
        f"{folder}: its tokenizer gives the instructions {instructions} the same tokens; is it "
        "another model's tokenizer?"
    )


class ByTask(nn.Module):
    """A network for queries and one for passages; the instruction of each text selects one."""

    def __init__(
        self,
        networks: Sequence[nn.Module],
        *,
        position: int,
        ids: list[int],
        instructions: list[str],
    ) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.position, self.ids, self.instructions = position, ids, instructions
        self.config: Any = networks[0].config

    def get_input_embeddings(self) -> nn.Module:
        """Return the word embeddings of passages, because gradients are taken for documents."""
        layer: nn.Module = self.networks[1].get_input_embeddings()  # type: ignore[operator]
        return layer

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SimpleNamespace:
        """Return ``last_hidden_state``, (rows, length, hidden), of texts padded on the right.

        Raises InputError if a text begins with neither instruction.
        """
        at = input_ids[:, min(self.position, input_ids.shape[1] - 1)]
        chosen = [at == number for number in self.ids]
        if not (chosen[0] | chosen[1]).all():
            raise InputError(
                "architecture jina-v3: a text begins with neither of the model's two instructions; "
                f"set query_prompt {self.instructions[0]!r} and document_prompt "
                f"{self.instructions[1]!r} in its entry, and no windows"
            )
        groups: list[Tensor] = []
        order: list[Tensor] = []
        for rows, network in zip(chosen, self.networks, strict=True):
            if rows.any():
                mask = None if attention_mask is None else attention_mask[rows]
                states = network(input_ids=input_ids[rows], attention_mask=mask).last_hidden_state
                groups.append(states)
                order.append(rows.nonzero().squeeze(1))
        back = torch.cat(order).argsort()
        return SimpleNamespace(last_hidden_state=torch.cat(groups)[back])
