"""The asking of one embedding job: blocks of texts in, parts of the store out."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.encode.job import Source, read_texts
from psibench.encode.store import EmbeddingStore, text_key
from psibench.errors import InputError
from psibench.models.api.asking import ApiAsker
from psibench.models.api.client import EmbeddingClient
from psibench.models.api.ledger import Ledger
from psibench.models.api.parts import Parts
from psibench.models.api.plan import ApiRequest, pack
from psibench.models.api.texts import ApiTexts
from psibench.models.protocols import StopCheck, TokenizedText
from psibench.progress import Progress
from psibench.stages.stopping import watched_stop

logger = logging.getLogger("psibench")

BLOCK_CHARS = 64_000_000
"""Characters of the texts in memory: about 0.4 GB with their tokens."""

ENCODED = {"key": pl.Binary, "n_tokens": pl.Int32, "visible_char_end": pl.Int32}


@dataclass(frozen=True)
class Block:
    """Some texts of a source, tokenized, and their addresses in the store."""

    source: Source
    texts: Sequence[str]
    items: Sequence[TokenizedText]
    keys: Sequence[bytes]


class EmbedJob:
    """Asks for what the store lacks; for one use.

    Parameters
    ----------
    stop
        As in ``run_embed_api``.
    """

    def __init__(
        self,
        entry: EmbeddingApiModel,
        model: str,
        texts: ApiTexts,
        store: EmbeddingStore,
        ledger: Ledger,
        stop: StopCheck | None,
    ) -> None:
        self._entry, self._model, self._texts = entry, model, texts
        self._store, self._ledger, self._stop = store, ledger, stop
        self._parts = Parts(store)
        self._blank: list[bytes] = []
        self._dim: int | None = None

    def run(self, sources: Sequence[Source]) -> list[pl.DataFrame]:
        """Ask for all sources; returns each one's columns of the encodings table."""
        given = self._stop
        with watched_stop() if given is None else contextlib.nullcontext(given) as stop:
            self._stop = stop
            try:
                with asyncio.Runner() as runner:
                    frames = [self._source(source, runner) for source in sources]
            finally:
                self._parts.flush()
        self._store_blank()
        return frames

    def _source(self, source: Source, runner: asyncio.Runner) -> pl.DataFrame:
        frames = [pl.DataFrame(schema=ENCODED)]
        salt = self._texts.salt(source.role)
        for texts in _blocks(source):
            keys = [text_key(text, salt=salt) for text in texts]
            items = self._texts.tokenize(texts, source.role)
            self._ask_block(Block(source, texts, items, keys), runner)
            columns = (
                keys,
                [item.n_tokens for item in items],
                [item.visible_char_end for item in items],
            )
            frames.append(pl.DataFrame(dict(zip(ENCODED, columns, strict=True)), schema=ENCODED))
        return pl.concat(frames)

    def _ask_block(self, block: Block, runner: asyncio.Runner) -> None:
        """Ask for the texts of a block that the store lacks, each distinct one once."""
        if self._stop is not None:
            self._stop.check()
        keys, role = block.keys, block.source.role
        missing = self._store.missing(keys)
        self._learn_dim(keys, missing)
        sent = {
            place: self._texts.sent(block.texts[place], block.items[place], role)
            for place in missing
        }
        self._blank += [keys[place] for place in missing if not sent[place].strip()]
        todo = [place for place in missing if sent[place].strip()]
        counts = [block.items[place].n_tokens for place in todo]
        title = f"asking {self._model}: {block.source.domain}, {role}"
        logger.info("%s: %d texts, %d to ask", title, len(keys), len(todo))
        if not todo:
            return
        requests = (
            ApiRequest(
                role,
                tuple(keys[todo[n]] for n in part),
                tuple(sent[todo[n]] for n in part),
                sum(counts[n] for n in part),
            )
            for part in pack(
                counts,
                texts_per_request=self._entry.texts_per_request,
                tokens_per_request=self._entry.tokens_per_request,
            )
        )
        with Progress(title, total=sum(counts), unit="tokens") as progress:
            runner.run(self._ask(requests, progress.advance))
        self._parts.flush()

    async def _ask(self, requests: Iterator[ApiRequest], advance: Callable[[int], None]) -> None:
        client = EmbeddingClient(self._entry)
        asker = ApiAsker(self._entry, client, self._ledger, self._model, dim=self._dim)

        def take(request: ApiRequest, vectors: np.ndarray) -> None:
            self._parts.take(request, vectors)
            advance(request.n_tokens)

        try:
            await asker.ask_all(requests, take, stop=self._stop)
        finally:
            await client.close()
        self._dim = asker.dim

    def _learn_dim(self, keys: Sequence[bytes], missing: Sequence[int]) -> None:
        """Look up the dimensions of what is stored, once: new vectors have to have the same."""
        absent = {keys[place] for place in missing}
        stored = next((key for key in keys if key not in absent), None)
        if self._dim is None and stored is not None:
            self._dim = self._store.load([stored]).values.shape[1]

    def _store_blank(self) -> None:
        """Store zeros, which are like nothing else, for texts without a visible character.

        Services refuse them.
        """
        keys = list(dict.fromkeys(self._blank))
        if not keys:
            return
        if self._dim is None:
            raise InputError(
                f"model {self._model!r}: no text has a visible character; nothing can be asked"
            )
        logger.warning("%d texts without a visible character get zeros", len(keys))
        self._store.add(keys, [np.zeros((1, self._dim), np.float32)] * len(keys))


def _blocks(source: Source) -> Iterator[list[str]]:
    """Read the texts of a source in lists of at most ``BLOCK_CHARS`` (or of one text)."""
    texts, n_chars = list[str](), 0
    for text in read_texts(source):
        if texts and n_chars + len(text) > BLOCK_CHARS:
            yield texts
            texts, n_chars = [], 0
        texts.append(text)
        n_chars += len(text)
    if texts:
        yield texts
