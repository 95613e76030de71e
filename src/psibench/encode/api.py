"""Stage ``embed_api``: requests the vectors of a benchmark's texts in one language from a service.

It writes the same table of encodings as the stage ``encode``, and a table of usage.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_params import registry_entry, retrieval_params
from psibench.config.sections import Storage
from psibench.encode.api_texts import load_api_texts
from psibench.encode.job import ENCODED, Source, list_sources
from psibench.encode.store import EmbeddingStore, paid_tokens, store_fingerprint, text_key
from psibench.errors import InputError
from psibench.llm.asking import run_workers
from psibench.llm.embeddings import EmbeddingClient, pack
from psibench.llm.limits import Budget
from psibench.llm.sections import MILLION, Price
from psibench.llm.usage import Usage
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.protocols import Role, StopCheck, TokenizedText
from psibench.progress import Progress
from psibench.stopping import watched_stop
from psibench.tables.job import Job
from psibench.tables.schemas import EMBEDDING_USAGE, ENCODINGS
from psibench.tables.stage import stage
from psibench.text.lengths import in_blocks

logger = logging.getLogger("psibench")

BLOCK_CHARS = 64_000_000
"""Characters of the texts in memory: about 0.4 GB with their tokens."""

REQUESTS_PER_PART = 16
SECONDS_PER_PART = 20.0
"""The store is written after this many answers or seconds; ``kill -9`` loses at most these."""


@stage("embed_api", version=3)
def run_embed_api(job: Job) -> None:
    """Request all vectors of a language that the store lacks.

    Vectors are stored as they arrive, so a job that was killed, stopped or out of budget requests
    only the missing ones when it runs again.

    Inputs: ``corpora`` and ``queries``. Outputs: ``encodings`` (ENCODINGS) and ``usage``
    (EMBEDDING_USAGE). Settings that do not affect vectors (address, budget, retries) come from the
    workflow's config and are not parameters of the rule.

    Raises
    ------
    InputError
        If a table or the entry is not valid, the key is not set, the service refuses a request or
        all attempts fail, or the budget is reached.
    Stopped
        If the job has to end early; the vectors received are stored.
    """
    model, storage = job.value("model"), job.value("storage", Storage)
    entry = registry_entry(job.config, model)
    assert isinstance(entry, EmbeddingApiModel)
    sources = list_sources(job)
    service = EmbeddingService(entry, model, store=job.value("store"), storage=storage)
    with watched_stop() as stop:
        frames = [source.labelled(service.source(source, stop=stop)) for source in sources]
    service.finish()
    fingerprint = store_fingerprint(service.texts.fingerprint, storage)
    record = {
        "params": retrieval_params(entry) | {"fingerprint": fingerprint},
        "revisions": service_revision(model, entry),
    }
    encodings = pl.concat(frames)
    job.write("encodings", encodings, ENCODINGS, **record)
    distinct = encodings.unique("key")
    n_tokens = int(distinct["n_tokens"].sum())
    usd = None if entry.price is None else n_tokens * entry.price / MILLION
    used = [(model, distinct.height, n_tokens, usd)]
    frame = pl.DataFrame(used, EMBEDDING_USAGE.empty().schema, orient="row")
    job.write("usage", frame, EMBEDDING_USAGE, **record)


def service_revision(model: str, entry: EmbeddingApiModel) -> dict[str, str]:
    """Return the model, version and tokenizer of a service for the provenance."""
    named = "@".join(filter(None, (entry.model, entry.version)))
    tokenizer = checkpoint_identity(entry.tokenizer, None, part="tokenizer")
    return {f"model:{model}": f"{named}, tokenizer {tokenizer}"}


class EmbeddingService:
    """Requests from a service the vectors that the model's store lacks.

    ``texts`` cuts and counts texts, ``vectors`` is the store. The cost of stored vectors counts
    towards the entry's budget.
    """

    def __init__(
        self,
        entry: EmbeddingApiModel,
        model: str,
        *,
        store: str | Path,
        storage: Storage,
    ) -> None:
        self._entry, self._model = entry, model
        self.texts = load_api_texts(entry, model=model)
        folder = Path(store) / "embeddings" / model
        self.vectors = EmbeddingStore(folder, self.texts.fingerprint, storage=storage)
        self._budget = Budget()
        if entry.price is not None and entry.budget_usd is not None:
            price = Price(input_usd=entry.price, output_usd=0.0, as_of=datetime.now(UTC).date())
            spent_usd = price.cost(Usage(paid_tokens(folder)))
            self._budget = Budget(entry.budget_usd, price, spent_usd=spent_usd)
        self._blank: dict[bytes, None] = {}
        self._dim: int | None = None

    def source(self, source: Source, *, stop: StopCheck) -> pl.DataFrame:
        """Request the vectors of a source; returns its columns of the encodings table."""
        frames, title = [pl.DataFrame(schema=ENCODED)], f"{source.domain.name}, {source.role}"
        salt = self.texts.salt(source.role)
        for texts in in_blocks(source.texts(), len, BLOCK_CHARS):
            items = self.block(texts, source.role, title=title, stop=stop)
            rows = [
                (text_key(text, salt=salt), item.n_tokens, item.visible_char_end)
                for text, item in zip(texts, items, strict=True)
            ]
            frames.append(pl.DataFrame(rows, schema=ENCODED, orient="row"))
        return pl.concat(frames)

    def block(
        self, texts: Sequence[str], role: Role, *, title: str, stop: StopCheck
    ) -> list[TokenizedText]:
        """Request each distinct text that the store lacks; returns the tokens of all texts.

        Leaves texts without a visible character, which services refuse, to `finish`.
        """
        stop.check()
        salt = self.texts.salt(role)
        keys = [text_key(text, salt=salt) for text in texts]
        items = self.texts.tokenize(texts, role)
        missing = self.vectors.missing(keys)
        if self._dim is None and (stored := set(keys) - {keys[place] for place in missing}):
            self._dim = self.vectors.load([stored.pop()]).values.shape[1]
        todo = []
        for place in missing:
            sent = self.texts.sent(texts[place], items[place], role)
            if sent.strip():
                todo.append((keys[place], sent, items[place].n_tokens))
            else:
                self._blank[keys[place]] = None
        title = f"asking {self._model}: {title}"
        logger.info("%s: %d texts, %d to ask", title, len(keys), len(todo))
        if todo:  # without requests no API key is needed
            asyncio.run(self._ask(todo, role, title=title, stop=stop))
        return items

    async def _ask(
        self, todo: Sequence[tuple[bytes, str, int]], role: Role, *, title: str, stop: StopCheck
    ) -> None:
        """Request texts (store key, text, number of tokens); store the vectors as they arrive."""
        entry, keys, sent, counts = self._entry, *zip(*todo, strict=True)
        requests = pack(
            counts,
            texts_per_request=entry.texts_per_request,
            tokens_per_request=entry.tokens_per_request,
        )
        client = EmbeddingClient(
            entry,
            self._model,
            self._budget,
            dim=self._dim,
            n_special=self.texts.tokenizer.num_special_tokens_to_add(),
        )
        answers: list[tuple[range, np.ndarray, int]] = []
        began = time.monotonic()

        def write() -> None:
            nonlocal began
            places = [place for part, *_ in answers for place in part]
            vectors = [vector[None, :] for _, found, _ in answers for vector in found]
            paid = sum(n_paid for *_, n_paid in answers)
            if places:
                self.vectors.add([keys[place] for place in places], vectors, paid_tokens=paid)
            answers.clear()
            began = time.monotonic()

        async def embed(part: range) -> None:
            texts, lengths = (each[part.start : part.stop] for each in (sent, counts))
            n_tokens = sum(lengths)
            vectors, n_paid = await client.ask(texts, role, n_tokens, longest=max(lengths))
            answers.append((part, vectors, n_paid))
            is_late = time.monotonic() - began >= SECONDS_PER_PART
            if is_late or len(answers) >= REQUESTS_PER_PART:
                write()
            progress.advance(n_tokens)

        try:
            with Progress(title, total=sum(counts), unit="tokens") as progress:
                await run_workers(
                    requests, embed, concurrency=entry.concurrency, check_stop=stop.check
                )
        finally:
            write()
            await client.close()
        self._dim = client.dim

    def finish(self) -> None:
        """Store zero vectors, which match nothing, for texts that services refuse.

        Raises InputError without any vector from the service, which gives their dimensions.
        """
        if not self._blank:
            return
        if self._dim is None:
            raise InputError(f"model {self._model!r}: no text has a visible character to send")
        logger.warning("%d texts without a visible character get zero vectors", len(self._blank))
        zeros = [np.zeros((1, self._dim), np.float32)] * len(self._blank)
        self.vectors.add(list(self._blank), zeros)
        self._blank = {}
