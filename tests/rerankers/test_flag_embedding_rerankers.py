"""Scores of the ``flag`` backends equal FlagEmbedding's ``compute_score``."""

import numpy as np
import pytest
import tiny_rerankers as tiny
import torch

from psibench.models.checkpoints import resolve_checkpoint
from psibench.rerankers.scoring import score_pairs

LONG = "w3 w7 w9 w2 w5 w11 . " * 40
PAIRS = [
    ("w1 w2", "w3 w4 w5"),
    ("w9", LONG),
    ("w4 w8 " * 80, LONG),  # both are cut
    ("w1 w1", "w3"),
    ("猫 w2", "w3 \U0001f600 ( w4 ) w5  \n w6"),
    ("w1", " w2 w3 "),
]
SENTENCES = (
    "The naïve café's menu (revised 2026-11-29) isn't final: 3.5 % of its e-mails bounced. "
    "Tokenizers drop\u00ad soft hyphens, ﬁ ligatures and zero\u200bwidth blanks; "
    "中文分词 and \U0001f9ea need care. "
)


@pytest.fixture(scope="module")
def with_real_tokenizer(tmp_path_factory):
    """A classifier with random weights and the embedded WordPiece tokenizer."""
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("real")
    tokenizer = AutoTokenizer.from_pretrained(resolve_checkpoint("embedded:all-MiniLM-L6-v2"))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    sizes = dict(tiny.SIZES, max_position_embeddings=512, vocab_size=len(tokenizer))
    config = BertConfig(**sizes, num_labels=1, initializer_range=0.3)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def library_scores(kind: str, folder, pairs, *, max_tokens: int) -> np.ndarray:
    """Raw scores of FlagEmbedding's class, all pairs in one call."""
    import FlagEmbedding

    name = {"flag": "FlagReranker", "flag-llm": "FlagLLMReranker"}[kind]
    library = getattr(FlagEmbedding, name)(
        str(folder), use_fp16=False, devices="cpu", max_length=max_tokens
    )
    return np.array(library.compute_score([list(pair) for pair in pairs], normalize=False))


def our_scores(reranker, pairs) -> np.ndarray:
    return score_pairs(reranker, pairs, store=None, tokens_per_batch=512, device="cpu").raw


@pytest.mark.parametrize("kind", ["flag", "flag-llm"])
@pytest.mark.parametrize("max_tokens", [128, 48])
def test_scores_equal_compute_score(kind, max_tokens, checkpoint, load):
    found = our_scores(load(kind, max_tokens=max_tokens), PAIRS)
    expected = library_scores(kind, checkpoint(kind), PAIRS, max_tokens=max_tokens)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.ptp(expected) > 0.01


@pytest.mark.parametrize("max_tokens", [512, 64])
def test_scores_of_real_texts_equal_compute_score(max_tokens, with_real_tokenizer, load):
    words = SENTENCES.split()
    pairs = [
        (" ".join(words[i : i + 5]), (SENTENCES * repeats)[i:])
        for i, repeats in enumerate((1, 2, 4, 8, 16, 32))
    ]
    reranker = load("flag", checkpoint=str(with_real_tokenizer), max_tokens=max_tokens)
    expected = library_scores("flag", with_real_tokenizer, pairs, max_tokens=max_tokens)
    np.testing.assert_allclose(our_scores(reranker, pairs), expected, atol=1e-5)
    ends = reranker.visible_char_ends(pairs)
    assert any(end < len(text) for end, (_, text) in zip(ends, pairs, strict=True))
    cut = [(query, text[:end]) for (query, text), end in zip(pairs, ends, strict=True)]
    np.testing.assert_allclose(our_scores(reranker, cut), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_flag_embedding_cannot_load_its_layerwise_network(tmp_path):
    """If it can, `flag-layerwise` should load through its class: see decoders.py."""
    from FlagEmbedding.inference.reranker.decoder_only.models.modeling_minicpm_reranker import (
        LayerWiseMiniCPMForCausalLM,
    )
    from safetensors.torch import save_file

    tiny.save_minicpm(tmp_path)
    state = tiny.read_state(tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        path.unlink()
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(KeyError, match="type"):
        LayerWiseMiniCPMForCausalLM.from_pretrained(tmp_path)
