"""The batch backend: requests asked through OpenAI's files and batches, at half the price.

A batch takes up to a day. Each is recorded beside the answers, as ``batches/NAME.json``: once the
input file is uploaded, and again with the batch's id. NAME is in the batch's metadata at the
server, too, so that a batch whose creator was killed in between is found again and not paid twice.
The records are read when a job starts: one that was killed and runs again awaits its batches rather
than asking again. A record goes when its batch is read. It holds no key and no prompt.
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
    failures,
    open_client,
    server_words,
    status_failure,
    verdict_of,
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
"""Of an input file: OpenAI's limit is 200 MB."""
MOST_OUTPUT_BYTES = 1 << 30
"""Of an output file, which is read whole."""
NO_LIST = ("http_404", "http_405", "http_501")
"""What a server answers that cannot list batches."""
NAME_FIELD = "psibench_batch"
"""Field of a batch's metadata that holds its name."""
PAUSE_S, MOST_PAUSE_S = 0.5, 8.0
"""Pause before a batch is created anew, doubled each time; as the `openai` client's are."""
TOKEN_LIMIT = "token_limit_exceeded"
"""Code of a batch that failed because the server has too many tokens of this model queued."""
FURTHER_SHARE = 0.1
"""Share of the budget that has to be free for a further batch once the budget had no room: what
requests may cost is far above what they do cost, and a batch can take a day however small."""


def ask_batches(
    chains: Iterable[RequestChain],
    settings: LlmSettings,
    *,
    store: AnswerStore,
    results: OutcomeSink,
    budget: Budget | None = None,
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """Ask what is not answered in batches and hand each outcome to ``results`` as it comes about.

    Requests are drawn once, in order, before anything is asked. The most that a batch can cost is
    reserved before it is created. Once ``check_stop`` has raised, batches under way are left to the
    next run.

    Raises
    ------
    BudgetReachedError
        After the last outcome, if the budget ended the run.
    InputError
        Likewise, if a batch fails or is cancelled or the server refuses all requests; at once if
        the server is gone or the disk is full. Running again goes on from there.
    """
    server = BatchServer(settings)
    try:
        _Run(settings, store, results, budget or Budget(), server).go(chains, check_stop)
    except TryFailedError as failure:
        raise InputError(
            f"the server does not tell how batches stand: {failure}. All answers read are stored "
            "and batches under way recorded; run again to go on."
        ) from None
    finally:
        server.client.close()


@dataclass
class _Batch:
    """One batch, of this run or an earlier one.

    ``requests`` are request keys by task, ``most`` the tokens they can use at most; ``server`` null
    is api.openai.com; ``batch_id`` is None until the batch is created. The `TRANSIENT_FIELDS` are
    not saved: the money reserved, whether this run made it, the usage of its replies so far.
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
        self._under_way: dict[str, _Batch] = {}
        self._stop: Exception | None = None
        self._is_short = self._is_paused = False

    def go(self, chains: Iterable[RequestChain], check_stop: Callable[[], None]) -> None:
        """Send, await and read until nothing is left to be done."""
        for chain in chains:
            self._wait(chain)
        self._await_earlier()
        while True:
            while self._to_ask and self._stop is None and not (self._is_paused or self._is_short):
                self._send()
            if not self._under_way:
                break
            until = time.monotonic() + self._settings.batch.poll_s
            check_stop()
            while (left_s := until - time.monotonic()) > 0:
                time.sleep(min(left_s, CHECK_EVERY_S))
                check_stop()
            for batch in list(self._under_way.values()):
                self._look_at(batch)
        if self._is_short:
            self._halt(self._budget.reached())
        if self._stop is not None:
            raise self._stop

    def _halt(self, error: Exception) -> None:
        """Create no further batch; what is under way is still awaited."""
        if self._stop is None:
            logger.warning("no further batches: %s", error)
            self._stop = error

    # What waits, and its outcomes

    def _wait(self, chain: RequestChain) -> None:
        """Let a request wait to be asked; items that want the same wait for the same."""
        if chain.key in self._waiting:
            self._waiting[chain.key].item_ids += chain.item_ids
        else:
            self._waiting[chain.key] = chain
            self._to_ask.append(chain.key)

    def _answered(self, answer: Answer) -> None:
        """Store an answer; give the outcome of what waits for it, or let its re-ask wait."""
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
        """Let a request wait to be asked again, or give up on it."""
        if (chain := self._waiting.get(key)) is None:
            return
        chain.n_tries += 1
        if failure.verdict == "retry" and chain.n_tries < self._policy.max_tries:
            self._to_ask.append(key)
            return
        del self._waiting[key]
        self.results.emit(self.results.count_failure(chain, failure), chain)

    # From waiting requests to batches

    def _send(self) -> None:
        """Put waiting requests into a batch, as far as file and budget have room."""
        requests: dict[str, list[str]] = {}
        lines, n_bytes, most, reserved_usd = list[bytes](), 0, Usage(), 0.0
        while self._to_ask and len(lines) < self._most_requests:
            key = self._to_ask[0]
            request = self._waiting[key].request
            body = request.body(output_limit_key=self._settings.output_limit_key)
            asked = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
            line = json.dumps(asked).encode() + b"\n"
            if len(line) > MOST_BYTES:
                self._to_ask.popleft()
                words = f"{len(line)} bytes are more than a batch file may have"
                self._failed(key, TryFailedError("too_large", words, verdict="reject"))
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
            if failure.verdict != "retry":  # else it may exist: the next run looks for it
                self._path(name).unlink(missing_ok=True)
            self._budget.settle(reserved_usd, Usage())
            self._halt(InputError(f"the server takes no batch: {failure}"))
            return
        self._write(batch)
        logger.info("batch %s: created, %d requests", batch.batch_id, len(batch.tasks))
        self._under_way[name] = batch

    # Records

    def _await_earlier(self) -> None:
        """Await the batches with waiting requests that earlier runs left behind at this server.

        Their cost is spent whether the budget has room or not.
        """
        for path in sorted(self._folder.glob("*.json")):
            batch = _recorded(path)
            if batch is None or batch.server != self._settings.base_url:
                continue
            if all(key in self._store for key in batch.tasks):  # its reader was killed
                path.unlink(missing_ok=True)
            elif self._waiting.keys() & batch.tasks.keys():
                batch.reserved_usd = self._budget.hold(batch.most)
                self._under_way[batch.name] = batch
        awaited = {key for batch in self._under_way.values() for key in batch.tasks}
        self._to_ask = deque(key for key in self._to_ask if key not in awaited)

    def _write(self, batch: _Batch) -> None:
        record = {
            name: kept for name, kept in asdict(batch).items() if name not in TRANSIENT_FIELDS
        }
        with writing_to(self._folder):
            write_text(json.dumps(record) + "\n", self._path(batch.name))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    # From batches under way to answers

    def _look_at(self, batch: _Batch) -> None:
        """Read a batch if it has ended, and draw the conclusions."""
        if batch.batch_id is None:
            batch.batch_id = self._server.find(batch.name)
        state = self._server.retrieve(batch.batch_id) if batch.batch_id else None
        if state is None:  # never created, or forgotten by the server
            self._forget(batch, ask_again=True)
        elif state.status in ("completed", "expired", "cancelled", "failed"):
            refusal = self._read(batch, state)
            self._forget(batch, ask_again=state.status == "failed")
            self._handle_finished_batch(batch, state, refusal)

    def _read(self, batch: _Batch, state: "Batch") -> TryFailedError | None:
        """Store every answer of a batch; return an error that all further requests would meet."""
        seen, refusal = set[str](), None
        for file_id in filter(None, (state.output_file_id, state.error_file_id)):
            for key, result in self._server.lines(file_id, batch):
                if key in seen:
                    continue
                seen.add(key)
                if isinstance(result, TryFailedError):
                    self._failed(key, result)
                    refusal = result if result.verdict == "stop" else refusal
                    continue
                if result.usage == Usage() and self._budget.is_limited:
                    result = replace(result, usage=batch.max_usage_per_request)
                batch.used += result.usage
                if key not in self._store:
                    self._answered(result)
        with writing_to(self._store.folder):
            self._store.sync()  # before the record goes
        logger.info("batch %s: %s, %d lines read", state.id, state.status, len(seen))
        if state.status != "failed":
            failure = TryFailedError(f"batch_{state.status}", f"batch {state.id} has no line on it")
            for key in [key for key in batch.tasks if key not in seen]:
                self._failed(key, failure)
        return refusal

    def _forget(self, batch: _Batch, *, ask_again: bool) -> None:
        """Take a batch that is over out of the books; perhaps let its requests wait again."""
        self._path(batch.name).unlink(missing_ok=True)
        if ask_again:
            again = self._waiting.keys() & batch.tasks.keys() - set(self._to_ask)
            self._to_ask.extend(key for key in batch.tasks if key in again)
        del self._under_way[batch.name]
        self._is_paused = False
        self._budget.settle(batch.reserved_usd, batch.used)
        self._is_short &= self._budget.free_usd < FURTHER_SHARE * self._budget.limit_usd

    def _handle_finished_batch(
        self, batch: _Batch, state: "Batch", refusal: TryFailedError | None
    ) -> None:
        """Go on, slow down or halt, as the end of a batch asks for."""
        name, n_requests = f"batch {state.id}", len(batch.tasks)
        errors = (state.errors.data if state.errors else None) or []
        given = "; ".join(f"{error.code}: {error.message}" for error in errors[:3])
        words = server_words(given, self._server.secret) or "no reason given"
        is_limit = bool(errors) and all(error.code == TOKEN_LIMIT for error in errors)
        if state.status == "failed" and is_limit and self._under_way:
            logger.warning("%s: %s; waiting for another to end", name, words)
            self._is_paused = True
        elif state.status == "failed" and is_limit and n_requests > 1:
            logger.warning("%s: %s; asking in smaller ones", name, words)
            self._most_requests = n_requests // 2
        elif state.status == "failed" and batch.is_own:
            message = f"{name} failed: {words}. Nothing of it was asked; mend it and run again."
            self._halt(InputError(message))
        elif state.status == "cancelled":
            answered = "what it had answered is stored. Run again for the rest."
            self._halt(InputError(f"{name} was cancelled; {answered}"))
        if refusal is not None:
            self._halt(InputError(f"the server refuses all requests: {refusal}"))
        if self.results.should_give_up(self._policy.give_up_after):
            n_failed = self.results.n_consecutive_failures
            self._halt(InputError(f"{n_failed} requests failed in a row; see their outcomes"))


def _recorded(path: Path) -> _Batch | None:
    """Read a record; None if its reader removed it meanwhile."""
    try:
        given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return _Batch(**{**given, "most": Usage(**given["most"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(
            f"{path}: not a record of a batch ({type(error).__name__}). Delete it; if a batch is "
            "under way under this name, its requests are asked again."
        ) from error


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Say which folder cannot be written to."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written to ({error.strerror or error}). All answers read before "
            "are stored, and batches under way recorded; make room there and run again to go on."
        ) from error


class BatchServer:
    """The files and batches of one server, one call at a time.

    The `openai` client tries calls again, but for the creation of a batch: one whose reply got
    lost may have been made. Every method raises TryFailedError, whose words hold no key, when the
    tries of the settings are used up or no further try will do.
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
        """Create a batch, once even if the server's reply gets lost; return its id."""
        pause_s = PAUSE_S
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
                # A server may need a moment to know a file that was just uploaded.
                may_pass = failure.verdict == "retry" or file_id in failure.detail
                if not may_pass or not n_left:
                    raise
            time.sleep(pause_s)
            pause_s = min(MOST_PAUSE_S, 2 * pause_s)
            if (found := self.find(name)) is not None:
                return found
        raise AssertionError("not reached")

    def find(self, name: str) -> str | None:
        """Return the id of the batch of a name, or None; also if the server lists no batches."""
        seen = set[str]()
        with self._known(NO_LIST):
            for batch in self.client.batches.list(limit=100):
                if batch.id in seen:
                    return None  # the server does not know `after`: each page is the first
                seen.add(batch.id)
                if (batch.metadata or {}).get(NAME_FIELD) == name:
                    return batch.id
        return None

    def retrieve(self, batch_id: str) -> "Batch | None":
        """Return a batch as it stands; None if the server does not know it."""
        with self._known():
            batch = self.client.batches.retrieve(batch_id)
            _id_of(batch)
            return batch
        return None

    def lines(self, file_id: str, batch: _Batch) -> Iterator[tuple[str, Answer | TryFailedError]]:
        """Yield key and answer or failure of each line of a file; nothing if the file is gone.

        Lines that cannot be read, are larger than any reply or of no request of the batch are
        passed over: what has no line counts as not answered.
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
        """Pass over what the server does not know."""
        try:
            with failures(self.secret, policy=self._policy):
                yield
        except TryFailedError as failure:
            if failure.reason not in unknown:
                raise


def _id_of(reply: Any) -> str:
    """Return the id of a file or batch; a page of HTML, say, has none."""
    if not getattr(reply, "id", None):
        raise TryFailedError(
            "no_id", "the reply names no file or batch; check base_url", verdict="stop"
        )
    return str(reply.id)


def read_result(
    data: Mapping[str, Any], model: str, task: str, secret: Secret
) -> Answer | TryFailedError:
    """Read what became of a request from the line of an output or error file.

    A line of either file has ``custom_id`` and ``response`` (``status_code`` and ``body``; the body
    of an error holds ``error``) or, where no HTTP request came about, ``error`` (``code``:
    batch_expired, batch_cancelled, request_timeout). Servers also report status 0 with an empty
    body.
    """
    key, response, line_error = data["custom_id"], data.get("response"), data.get("error")
    if isinstance(line_error, dict):
        code = str(line_error.get("code") or "batch_error")
        words = server_words(line_error.get("message"), secret)
        return TryFailedError(server_words(code, secret), words, verdict=verdict_of(500, code))
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
    if failure.reason == "content_filter":  # other servers give an answer in that case
        return filtered_answer(model, task, key, failure)
    return failure
