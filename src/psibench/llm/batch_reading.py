"""From batches under way to answers: batches are looked at, and read when they have ended."""

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from psibench.config.llms import LlmSettings
from psibench.llm.answer_store import AnswerStore
from psibench.llm.batch_files import writing_to
from psibench.llm.batch_records import BatchRecords, UnderWay
from psibench.llm.batch_server import BatchServer
from psibench.llm.batch_waiting import WaitingRequests
from psibench.llm.client import Reply
from psibench.llm.retry import TryFailedError

if TYPE_CHECKING:
    from openai.types import Batch

logger = logging.getLogger("psibench")

CREATION_S = 120.0
"""With the timeout of a call: after so long without a batch, its creator is taken for dead."""

TOKEN_LIMIT = "token_limit_exceeded"
"""Code of a batch that failed because the server has too many tokens of this model queued."""

PROGRESS_S = 300.0
"""How often the log tells how a batch stands."""

EndStatus = Literal["completed", "expired", "cancelled", "failed", "lost", "abandoned", "answered"]


@dataclass(frozen=True)
class Ended:
    """How a batch ended.

    Attributes
    ----------
    status
        As the server names it; or ``lost``: the server knows it no more; ``abandoned``: its
        creator died before it was created; ``answered``: another job read it.
    words
        Why a batch failed, without keys.
    is_limit
        Whether it failed because too much is queued.
    refusal
        An error among its lines that all further requests would meet.
    """

    status: EndStatus
    words: str = ""
    is_limit: bool = False
    refusal: TryFailedError | None = None


class BatchReader:
    """Looks at batches and reads those that have ended."""

    def __init__(
        self,
        settings: LlmSettings,
        store: AnswerStore,
        waiting: WaitingRequests,
        server: BatchServer,
        records: BatchRecords,
    ) -> None:
        self._patience_s = settings.asking.timeout_s + CREATION_S
        self._store, self._waiting = store, waiting
        self._server, self._records = server, records

    def look_at(self, batch: UnderWay) -> Ended | None:
        """Read a batch if it has ended and say how; None while it is under way.

        All its answers are stored, and durable; its other requests wait again, or have failed.
        """
        if not batch.is_own and self._is_answered(batch):
            return Ended("answered")
        if batch.record.batch_id is None and not self._is_identified(batch):
            return self._requeued(batch, "abandoned") if batch.has_ended else None
        state = self._server.retrieve(batch.record.batch_id or "")
        if state is None:
            return self._requeued(batch, "lost")
        match state.status:
            case "completed" | "expired" | "cancelled" | "failed" as status:
                if batch.is_own or batch.has_ended:
                    return self._read(batch, state, status)
                batch.has_ended = True  # whoever created it reads it first
        _tell(batch, state)
        return None

    def _is_answered(self, batch: UnderWay) -> bool:
        """Say whether all that this run wants of a batch is in the store."""
        for key in batch.record.tasks:
            if key in self._store:
                self._waiting.settle(key)
        return not any(key in self._waiting for key in batch.record.tasks)

    def _is_identified(self, batch: UnderWay) -> bool:
        """Learn the id of a batch whose creator had not recorded it, or that there is none."""
        record = self._records.find(batch.record.name)
        if record is not None and record.batch_id is None:
            found = self._server.find(record.name, since_s=record.renewed_s)
            record = replace(record, batch_id=found.id) if found else record
        if record is not None and record.batch_id is not None:
            batch.record = record
            return True
        batch.has_ended = record is None or time.time() - record.renewed_s > self._patience_s
        return False

    def _read(
        self,
        batch: UnderWay,
        state: "Batch",
        status: Literal["completed", "expired", "cancelled", "failed"],
    ) -> Ended:
        """Store every answer of a batch, then see to the rest of its requests."""
        record, seen, refusal = batch.record, set[str](), None
        for file_id in filter(None, (state.output_file_id, state.error_file_id)):
            for key, result in self._server.lines(file_id, model=record.model):
                if key in record.tasks and key not in seen:
                    seen.add(key)
                    self._take(batch, key, result)
                    if isinstance(result, TryFailedError) and result.verdict == "stop":
                        refusal = result
        self._sync()
        logger.info("batch %s: %s, %d lines read", state.id, status, len(seen))
        if status == "failed":
            errors = (state.errors.data if state.errors else None) or []
            words = "; ".join(f"{error.code}: {error.message}" for error in errors[:3])
            is_limit = bool(errors) and all(error.code == TOKEN_LIMIT for error in errors)
            return self._requeued(batch, status, self._server.scrub(words), is_limit=is_limit)
        failure = TryFailedError(f"batch_{status}", f"batch {state.id} has no line on it")
        for key in [key for key in record.tasks if key not in seen]:
            self._waiting.failed(key, failure)
        return Ended(status, refusal=refusal)

    def _take(self, batch: UnderWay, key: str, result: Reply | TryFailedError) -> None:
        if isinstance(result, TryFailedError):
            self._waiting.failed(key, result)
            return
        is_new = self._waiting.answered(key, batch.record.tasks[key], result)
        if is_new or batch.is_own:
            batch.used += result.usage
        if self._store.is_sync_due():
            self._sync()

    def _requeued(
        self, batch: UnderWay, status: EndStatus, words: str = "", *, is_limit: bool = False
    ) -> Ended:
        """Let all requests of a batch wait again as if it had not been."""
        self._waiting.to_ask.extend(key for key in batch.record.tasks if key in self._waiting)
        return Ended(status, words, is_limit)

    def _sync(self) -> None:
        with writing_to(self._store.folder):
            self._store.sync()


def _tell(batch: UnderWay, state: "Batch") -> None:
    if time.monotonic() - batch.told_s < PROGRESS_S:
        return
    batch.told_s = time.monotonic()
    counts = state.request_counts
    done = f"{counts.completed + counts.failed} of {counts.total}" if counts else "some"
    logger.info("batch %s: %s, %s requests done", state.id, state.status, done)
