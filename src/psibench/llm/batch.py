"""The batch backend: requests sent through OpenAI's files and batches, at half the price.

A batch takes up to a day. It is recorded next to the answers, in ``batches/NAME.json``: once the
input file is uploaded, and again with the batch's id. NAME is also in the batch's metadata on the
server, so that a batch whose creator was killed in between is found and not paid twice. A job reads
the records when it starts: after a kill, the next run awaits the batches of the killed job. Reading
a batch removes its record. A record contains no API key and no prompt.
"""

import json
import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from psibench.config.secrets import Secret
from psibench.errors import InputError
from psibench.llm.answer import Answer
from psibench.llm.answer_store import AnswerStore
from psibench.llm.asking import CHECK_EVERY_S, OutcomeSink, RequestChain
from psibench.llm.client import call_of, filtered_answer, read_answer
from psibench.llm.connection import (
    MOST_REPLY_BYTES,
    TryFailedError,
    action_after,
    failures,
    open_client,
    server_text,
    status_failure,
)
from psibench.llm.limits import Budget
from psibench.llm.sections import LlmSettings
from psibench.llm.usage import Usage
from psibench.tables.atomic import write_text
from psibench.tables.provenance import now

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch

logger = logging.getLogger("psibench")

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
MOST_BYTES = 180 << 20
"""Largest input file; OpenAI's limit is 200 MB."""
MOST_OUTPUT_BYTES = 1 << 30
"""Largest output file, which is read into memory."""
NO_LIST = ("http_404", "http_405", "http_501")
"""Failures of servers that cannot list batches."""
NAME_FIELD = "psibench_batch"
"""Field with a batch's name in its metadata."""
CREATE_PAUSE_S, MOST_CREATE_PAUSE_S = 0.5, 8.0
"""Pauses before the creation of a batch is tried again, doubled each time; as in the `openai`
client."""
TOKEN_LIMIT = "token_limit_exceeded"
"""Error code of a batch if the server has too many queued tokens of this model."""
FURTHER_SHARE = 0.1
"""Share of the budget that must be free for a further batch after the budget ran out. The reserved
cost is far above the actual cost, and even a small batch can take a day."""


def ask_batches(
    chains: Iterable[RequestChain],
    settings: LlmSettings,
    *,
    store: AnswerStore,
    results: OutcomeSink,
    budget: Budget | None = None,
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """Send unanswered requests in batches and pass each outcome to ``results`` once it is known.

    Requests are drawn once, in order, before anything is sent. The most that a batch can cost is
    reserved before it is created. Once ``check_stop`` has raised, running batches are left to the
    next run.

    Raises
    ------
    BudgetReachedError
        After the last outcome, if the budget ended the run.
    InputError
        After the last outcome, if a batch fails or is cancelled or the server refuses all requests;
        immediately if the server is gone or the disk is full. The next run continues from there.
    """
    server = BatchServer(settings)
    try:
        _Run(settings, store, results, budget or Budget(), server).go(chains, check_stop)
    except TryFailedError as failure:
        raise InputError(
            f"the server does not report the state of batches: {failure}. All answers read are "
            "stored and running batches are recorded; run again to continue."
        ) from None
    finally:
        server.client.close()


@dataclass
class _Batch:
    """One batch, of this run or an earlier one.

    ``requests`` has request keys by task, ``most`` the tokens they can use at most; ``server`` is
    null for api.openai.com; ``batch_id`` is None until the batch is created. The `TRANSIENT_FIELDS`
    are not saved: the reserved money, whether this run created the batch, the usage of its replies
    so far.
    """

    name: str
    server: str | None
    model: str
    input_file_id: str
    requests: dict[str, list[str]]
    most: Usage
    batch_id: str | None = None
    created: str = field(default_factory=now)
    reserved_usd: float = 0.0
    is_own: bool = False
    used: Usage = field(default_factory=Usage)

    @cached_property
    def tasks(self) -> dict[str, str]:
        """Task by request key."""
        return {key: task for task, keys in self.requests.items() for key in keys}

    @property
    def max_usage_per_request(self) -> Usage:
        """Usage charged to a request if the server reports none: an equal share of ``most``."""
        n = max(1, len(self.tasks))
        return Usage(math.ceil(self.most.input_tokens / n), math.ceil(self.most.output_tokens / n))


TRANSIENT_FIELDS = frozenset({"reserved_usd", "is_own", "used"})


class _Run:
    """Batches from the first item to the last outcome."""

    def __init__(
        self,
        settings: LlmSettings,
        store: AnswerStore,
        results: OutcomeSink,
        budget: Budget,
        server: "BatchServer",
    ) -> None:
        self.results = results
        self._settings, self._policy, self._store = settings, settings.asking, store
        self._budget, self._server, self._folder = budget, server, store.folder / "batches"
        self._most_requests = settings.batch.max_requests
        self._waiting: dict[str, RequestChain] = {}
        self._to_ask: deque[str] = deque()
        self._running: dict[str, _Batch] = {}
        self._stop: Exception | None = None
        self._is_short = self._is_paused = False

    def go(self, chains: Iterable[RequestChain], check_stop: Callable[[], None]) -> None:
        """Send, await and read batches until all requests are done."""
        for chain in chains:
            self._wait(chain)
        self._await_earlier()
        while True:
            while self._to_ask and self._stop is None and not (self._is_paused or self._is_short):
                self._send()
            if not self._running:
                break
            until = time.monotonic() + self._settings.batch.poll_s
            check_stop()
            while (left_s := until - time.monotonic()) > 0:
                time.sleep(min(left_s, CHECK_EVERY_S))
                check_stop()
            for batch in list(self._running.values()):
                self._check_batch(batch)
        if self._is_short:
            self._halt(self._budget.reached())
        if self._stop is not None:
            raise self._stop

    def _halt(self, error: Exception) -> None:
        """Create no further batch; running batches are still awaited."""
        if self._stop is None:
            logger.warning("no further batches: %s", error)
            self._stop = error

    # Waiting requests and their outcomes

    def _wait(self, chain: RequestChain) -> None:
        """Add a request to the waiting ones; equal requests are merged."""
        if chain.key in self._waiting:
            self._waiting[chain.key].item_ids += chain.item_ids
        else:
            self._waiting[chain.key] = chain
            self._to_ask.append(chain.key)

    def _answered(self, answer: Answer) -> None:
        """Store an answer; emit the outcome of its chain, or add its re-ask to the waiting ones."""
        chain = self._waiting.pop(answer.key, None)
        answer = replace(answer, n_tries=chain.n_tries + 1 if chain else 1)
        with writing_to(self._store.folder):
            self._store.add(answer)
        self.results.count_reply()
        if chain is None:
            return
        chain.n_replies += 1
        if (outcome := chain.replay_stored(self._store)) is not None:
            self.results.emit(outcome, chain)
        else:
            self._wait(chain)

    def _failed(self, key: str, failure: TryFailedError) -> None:
        """Add a request to the waiting ones again, or give up on it."""
        if (chain := self._waiting.get(key)) is None:
            return
        chain.n_tries += 1
        if failure.action == "retry" and chain.n_tries < self._policy.max_tries:
            self._to_ask.append(key)
            return
        del self._waiting[key]
        self.results.emit(self.results.count_failure(chain, failure), chain)

    # From waiting requests to batches

    def _send(self) -> None:
        """Put waiting requests into a batch, up to the limits of file and budget."""
        requests: dict[str, list[str]] = {}
        lines, n_bytes, most, reserved_usd = list[bytes](), 0, Usage(), 0.0
        while self._to_ask and len(lines) < self._most_requests:
            key = self._to_ask[0]
            request = self._waiting[key].request
            body = request.body(output_limit_key=self._settings.output_limit_key)
            entry = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
            line = json.dumps(entry).encode() + b"\n"
            if len(line) > MOST_BYTES:
                self._to_ask.popleft()
                detail = f"{len(line)} bytes; a batch file has at most {MOST_BYTES}"
                self._failed(key, TryFailedError("too_large", detail, action="reject"))
                continue
            if n_bytes + len(line) > MOST_BYTES:
                break
            max_usage_per_request = call_of(request).most
            money = self._budget.reserve(max_usage_per_request)
            if money is None:
                self._is_short = True
                break
            reserved_usd += money
            most += max_usage_per_request
            lines.append(line)
            n_bytes += len(line)
            requests.setdefault(request.task, []).append(self._to_ask.popleft())
        if lines:
            self._create(b"".join(lines), requests, most, reserved_usd)

    def _create(
        self, content: bytes, requests: dict[str, list[str]], most: Usage, reserved_usd: float
    ) -> None:
        """Upload a file and create its batch."""
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(8)}"
        try:
            file_id = self._server.upload(content, name)
            batch = _Batch(
                name=name,
                server=self._settings.base_url,
                model=self._settings.model,
                input_file_id=file_id,
                requests=requests,
                most=most,
                reserved_usd=reserved_usd,
                is_own=True,
            )
            self._write(batch)
            batch.batch_id = self._server.create(file_id, name)
        except TryFailedError as failure:
            if failure.action != "retry":  # otherwise it may exist: the next run looks for it
                self._path(name).unlink(missing_ok=True)
            self._budget.settle(reserved_usd, Usage())
            self._halt(InputError(f"the server does not accept a batch: {failure}"))
            return
        self._write(batch)
        logger.info("batch %s: created, %d requests", batch.batch_id, len(batch.tasks))
        self._running[name] = batch

    # Records

    def _await_earlier(self) -> None:
        """Await batches of earlier runs at this server that have waiting requests.

        Their cost is reserved even if it exceeds the budget.
        """
        for path in sorted(self._folder.glob("*.json")):
            batch = _recorded(path)
            if batch is None or batch.server != self._settings.base_url:
                continue
            if all(key in self._store for key in batch.tasks):  # read by a job that was killed
                path.unlink(missing_ok=True)
            elif self._waiting.keys() & batch.tasks.keys():
                batch.reserved_usd = self._budget.hold(batch.most)
                self._running[batch.name] = batch
        awaited = {key for batch in self._running.values() for key in batch.tasks}
        self._to_ask = deque(key for key in self._to_ask if key not in awaited)

    def _write(self, batch: _Batch) -> None:
        record = {
            name: value for name, value in asdict(batch).items() if name not in TRANSIENT_FIELDS
        }
        with writing_to(self._folder):
            write_text(json.dumps(record) + "\n", self._path(batch.name))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    # From running batches to answers

    def _check_batch(self, batch: _Batch) -> None:
        """Read a batch if it has ended; then continue, slow down or halt."""
        if batch.batch_id is None:
            batch.batch_id = self._server.find(batch.name)
        state = self._server.retrieve(batch.batch_id) if batch.batch_id else None
        if state is None:  # never created, or no longer known to the server
            self._forget(batch, ask_again=True)
        elif state.status in ("completed", "expired", "cancelled", "failed"):
            refusal = self._read(batch, state)
            self._forget(batch, ask_again=state.status == "failed")
            self._handle_finished_batch(batch, state, refusal)

    def _read(self, batch: _Batch, state: "Batch") -> TryFailedError | None:
        """Store every answer of a batch; return an error that all further requests would get."""
        seen, refusal = set[str](), None
        for file_id in filter(None, (state.output_file_id, state.error_file_id)):
            for key, result in self._server.lines(file_id, batch):
                if key in seen:
                    continue
                seen.add(key)
                if isinstance(result, TryFailedError):
                    self._failed(key, result)
                    refusal = result if result.action == "stop" else refusal
                    continue
                if result.usage == Usage() and self._budget.is_limited:
                    result = replace(result, usage=batch.max_usage_per_request)
                batch.used += result.usage
                if key not in self._store:
                    self._answered(result)
        with writing_to(self._store.folder):
            self._store.sync()  # before the record is removed
        logger.info("batch %s: %s, %d lines read", state.id, state.status, len(seen))
        if state.status != "failed":
            detail = f"batch {state.id} has no line for this request"
            failure = TryFailedError(f"batch_{state.status}", detail)
            for key in [key for key in batch.tasks if key not in seen]:
                self._failed(key, failure)
        return refusal

    def _forget(self, batch: _Batch, *, ask_again: bool) -> None:
        """Remove a batch that has ended; with ``ask_again`` its unanswered requests wait again."""
        self._path(batch.name).unlink(missing_ok=True)
        if ask_again:
            again = self._waiting.keys() & batch.tasks.keys() - set(self._to_ask)
            self._to_ask.extend(key for key in batch.tasks if key in again)
        del self._running[batch.name]
        self._is_paused = False
        self._budget.settle(batch.reserved_usd, batch.used)
        self._is_short &= self._budget.free_usd < FURTHER_SHARE * self._budget.limit_usd

    def _handle_finished_batch(
        self, batch: _Batch, state: "Batch", refusal: TryFailedError | None
    ) -> None:
        """Continue, slow down or halt, depending on how a batch ended."""
        name, n_requests = f"batch {state.id}", len(batch.tasks)
        errors = (state.errors.data if state.errors else None) or []
        listed = "; ".join(f"{error.code}: {error.message}" for error in errors[:3])
        reason = server_text(listed, self._server.secret) or "no reason given"
        is_limit = bool(errors) and all(error.code == TOKEN_LIMIT for error in errors)
        if state.status == "failed" and is_limit and self._running:
            logger.warning("%s: %s; waiting for another batch to end", name, reason)
            self._is_paused = True
        elif state.status == "failed" and is_limit and n_requests > 1:
            logger.warning("%s: %s; continuing with smaller batches", name, reason)
            self._most_requests = n_requests // 2
        elif state.status == "failed" and batch.is_own:
            message = f"{name} failed: {reason}. None of its requests ran; fix it and run again."
            self._halt(InputError(message))
        elif state.status == "cancelled":
            stored = "its answers are stored. Run again for the other requests."
            self._halt(InputError(f"{name} was cancelled; {stored}"))
        if refusal is not None:
            self._halt(InputError(f"the server refuses all requests: {refusal}"))
        if self.results.should_give_up(self._policy.give_up_after):
            n_failed = self.results.n_consecutive_failures
            self._halt(InputError(f"{n_failed} requests failed in a row; see their outcomes"))


def _recorded(path: Path) -> _Batch | None:
    """Read a record; None if the job that read its batch removed it meanwhile."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return _Batch(**{**record, "most": Usage(**record["most"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(
            f"{path}: not a record of a batch ({type(error).__name__}). Delete it; if a batch of "
            "this name is running, its requests are sent again."
        ) from error


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Raise an OSError as an InputError that names the folder."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written to ({error.strerror or error}). All earlier answers are "
            "stored and running batches are recorded; free disk space there and run again to "
            "continue."
        ) from error


class BatchServer:
    """The files and batches of one server, one call at a time.

    The `openai` client repeats calls, except for the creation of a batch, because the batch may
    exist even if the reply got lost. Every method raises TryFailedError, whose text contains no API
    key, when the tries in the settings are used up or a further try would not help.
    """

    def __init__(self, settings: LlmSettings) -> None:
        self.secret = Secret.from_environment(settings.api_key_env)
        self.client: OpenAI = open_client(
            settings.asking,
            settings.base_url,
            self.secret,
            headers=settings.headers,
            most_bytes=MOST_OUTPUT_BYTES,
        )
        self._policy = settings.asking

    def upload(self, content: bytes, name: str) -> str:
        """Upload an input file and return its id."""
        file = (f"{name}.jsonl", content, "application/jsonl")
        with failures(self.secret, policy=self._policy):
            return _id_of(self.client.files.create(file=file, purpose="batch"))

    def create(self, file_id: str, name: str) -> str:
        """Create a batch, only once even if the server's reply gets lost; return its id."""
        pause_s = CREATE_PAUSE_S
        for n_left in range(self._policy.max_tries - 1, -1, -1):
            try:
                with failures(self.secret, policy=self._policy):
                    batch = self.client.with_options(max_retries=0).batches.create(
                        input_file_id=file_id,
                        endpoint=ENDPOINT,
                        completion_window="24h",
                        metadata={NAME_FIELD: name},
                    )
                    return _id_of(batch)
            except TryFailedError as failure:
                # A file that was just uploaded may not be available yet.
                may_pass = failure.action == "retry" or file_id in failure.detail
                if not may_pass or not n_left:
                    raise
            time.sleep(pause_s)
            pause_s = min(MOST_CREATE_PAUSE_S, 2 * pause_s)
            if (found := self.find(name)) is not None:
                return found
        raise AssertionError("not reached")

    def find(self, name: str) -> str | None:
        """Return the id of the batch with a name; None if the server does not list it."""
        seen = set[str]()
        with self._known(NO_LIST):
            for batch in self.client.batches.list(limit=100):
                if batch.id in seen:
                    return None  # the server ignores `after`: each page is the first
                seen.add(batch.id)
                if (batch.metadata or {}).get(NAME_FIELD) == name:
                    return batch.id
        return None

    def retrieve(self, batch_id: str) -> "Batch | None":
        """Return a batch's current state; None if the server does not know it."""
        with self._known():
            batch = self.client.batches.retrieve(batch_id)
            _id_of(batch)
            return batch
        return None

    def lines(self, file_id: str, batch: _Batch) -> Iterator[tuple[str, Answer | TryFailedError]]:
        """Yield key and answer or failure of each line of a file; nothing if the file is gone.

        Ignores lines that cannot be read, are larger than any reply or belong to no request of the
        batch; requests without a line count as unanswered.
        """
        content = b""
        with self._known():
            content = self.client.files.content(file_id).content
        for line in content.split(b"\n"):
            if len(line) > MOST_REPLY_BYTES:
                continue
            with suppress(ValueError, LookupError, TypeError, RecursionError):
                data = json.loads(line)
                key = data["custom_id"]
                yield key, read_result(data, batch.model, batch.tasks[key], self.secret)

    @contextmanager
    def _known(self, unknown: Sequence[str] = ("http_404",)) -> Iterator[None]:
        """Suppress failures because the server does not know a file or batch."""
        try:
            with failures(self.secret, policy=self._policy):
                yield
        except TryFailedError as failure:
            if failure.reason not in unknown:
                raise


def _id_of(reply: Any) -> str:
    """Return the id of a file or batch; raise TryFailedError without one, e.g. for an HTML page."""
    if not getattr(reply, "id", None):
        raise TryFailedError(
            "no_id", "the reply has no id of a file or batch; check base_url", action="stop"
        )
    return str(reply.id)


def read_result(
    data: Mapping[str, Any], model: str, task: str, secret: Secret
) -> Answer | TryFailedError:
    """Read a request's answer or failure from a line of an output or error file.

    A line of either file has ``custom_id`` and ``response`` (``status_code`` and ``body``; the body
    of an error has ``error``) or, if no HTTP request was made, ``error`` (``code``: batch_expired,
    batch_cancelled, request_timeout). Servers also report status 0 with an empty body.
    """
    key, response, line_error = data["custom_id"], data.get("response"), data.get("error")
    if isinstance(line_error, dict):
        code = str(line_error.get("code") or "batch_error")
        detail = server_text(line_error.get("message"), secret)
        return TryFailedError(server_text(code, secret), detail, action=action_after(500, code))
    if not isinstance(response, dict):
        return TryFailedError("no_response", "the line has neither a response nor an error")
    status, body = response.get("status_code"), response.get("body")
    if not isinstance(status, int) or status <= 0:
        return TryFailedError("http_0", "the server reports no status for this request")
    if status < 300:
        try:
            return read_answer(body, model, task, key, secret)
        except TryFailedError as error:
            return error
    details = body.get("error") if isinstance(body, dict) else None
    failure = status_failure(status, details, secret, text=json.dumps(body))
    if failure.reason == "content_filter":  # other servers return an answer instead
        return filtered_answer(model, task, key, failure)
    return failure
