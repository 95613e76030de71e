"""A stand-in with OpenAI's files and batches endpoints, for the tests of the batch backend."""

import asyncio
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import BodyPartReader, web

from psibench.errors import InputError
from psibench.llm.standin.completion import BadRequestError, complete
from psibench.llm.standin.imperfections import HEADER, Imperfections
from psibench.llm.standin.rules import count_tokens
from psibench.llm.standin.server import (
    StandIn,
    error_body,
    error_response,
    fault_words,
    json_response,
)

MAX_LINES = 50_000
MAX_BYTES = 200_000_000  # of an input file
ENDED = ("completed", "failed", "expired", "cancelled")
_TIMES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
_DAY_S = 86_400
_LINES_PER_TURN = 64

Line = dict[str, Any]
Batch = dict[str, Any]


@dataclass(frozen=True)
class BatchImperfections(Imperfections):
    """What goes wrong with batches, too; of their lines what goes wrong with requests.

    Lines of the faults of HTTP get 429, 500, status 0 and ``request_timeout``.

    Attributes
    ----------
    batch_delay_s
        A batch is in progress so long before its lines are answered.
    expire_after
        A batch expires when so many of its lines are answered; 0: none does.
    fail_batch
        Share of batches that fail.
    enqueued_tokens
        Prompt tokens of all batches in progress; one that would pass it fails. 0: no limit.
    batch_http_error
        Share of calls to files and batches answered with 500.
    create_reset
        Share of creations of a batch whose reply gets lost; the batch is made.
    """

    batch_delay_s: float = 0.0
    expire_after: float = 0.0
    fail_batch: float = 0.0
    enqueued_tokens: float = 0.0
    batch_http_error: float = 0.0
    create_reset: float = 0.0


class BatchStandIn(StandIn):
    """A stand-in with files and batches; their lines count among the requests asked."""

    def __init__(self) -> None:
        super().__init__(BatchImperfections())
        self._batches = Batches(lambda: self.imperfections, self.asked, self.answered)

    def app(self):
        app = super().app()
        self._batches.add_routes(app)
        return app

    def stats(self):
        return super().stats() | self._batches.stats()


def _read_input(content: bytes, endpoint: str) -> tuple[list[Line], list[dict[str, Any]]]:
    """Return the lines of an input file and what is wrong with it, as ``errors.data`` words it."""
    lines: list[Line] = []
    errors = []
    texts = content.decode("utf-8", "replace").removesuffix("\n").split("\n")
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
            custom_id, url, method = line["custom_id"], line["url"], line["method"]
            str(line["body"]["model"])
        except (ValueError, LookupError, TypeError):
            errors.append(_error("invalid_json_line", "This line is no valid request.", number))
            continue
        if url != endpoint or method != "POST":
            errors.append(_error("url_mismatch", f"{method} {url} is not {endpoint}.", number))
        if not isinstance(custom_id, str) or not 0 < len(custom_id) <= 64:
            errors.append(_error("invalid_custom_id", "1 to 64 characters.", number))
        lines.append(line)
    errors += _file_errors(lines)
    return lines, errors


def _file_errors(lines: list[Line]) -> list[dict[str, Any]]:
    errors = []
    if not lines:
        errors.append(_error("empty_file", "The input file has no requests."))
    if len(lines) > MAX_LINES:
        errors.append(_error("too_many_tasks", f"More than {MAX_LINES} requests."))
    if len({line["custom_id"] for line in lines}) < len(lines):
        errors.append(_error("duplicate_custom_id", "A custom_id stands twice."))
    if len({line["body"]["model"] for line in lines}) > 1:
        errors.append(_error("model_mismatch", "All requests must ask one model."))
    return errors


def _error(code: str, message: str, line: int | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line, "param": None}


def _n_prompt_tokens(lines: list[Line]) -> int:
    """Count the tokens that lines queue."""
    return sum(
        count_tokens(str(message.get("content", "")))
        for line in lines
        for message in line["body"].get("messages", [])
    )


class LineWorker:
    """Answers lines as the server answers the same requests one by one.

    A share of ``rate_limited`` gets status 429, of ``server_error`` 500, of ``reset`` status 0 and
    no body (as OpenAI reports it), of ``hang`` the error ``request_timeout``.

    Parameters
    ----------
    asked, answered
        Counters by hash of the body, the server's own.
    """

    def __init__(self, asked: Counter[str], answered: Counter[str]) -> None:
        self._asked, self._answered = asked, answered

    def answer(self, line: Line, faults: BatchImperfections, words: str) -> dict[str, Any]:
        """Return the output line of an input line; ``words`` tell of made faults."""
        raw = json.dumps(line["body"]).encode()
        name = hashlib.sha256(raw).hexdigest()
        self._asked[name] += 1
        _, fault, content = faults.draw(name, self._asked[name])  # a batch has its own delay
        if fault == "hang":
            return _unanswered(line, "request_timeout", "The request timed out.")
        status, body = self._reply(line, faults, fault, content, words)
        if status == 200:
            self._answered[name] += 1
        response = {"status_code": status, "request_id": f"req_{name[:12]}", "body": body}
        return _output(line, response, None)

    def _reply(
        self,
        line: Line,
        faults: BatchImperfections,
        fault: str | None,
        content: str | None,
        words: str,
    ) -> tuple[int, dict[str, Any]]:
        if fault == "reset":
            return 0, {}
        if fault == "rate_limited":
            return 429, error_body("rate_limit_exceeded", words)
        if fault == "server_error":
            return 500, error_body("server_error", words)
        seed = hashlib.sha256(json.dumps(line["body"]).encode()).hexdigest()
        try:
            return 200, complete(line["body"], random.Random(seed), content, faults.huge_mb)
        except BadRequestError as error:
            return 400, error_body("bad_request", error.message)


def _unanswered(line: Line, code: str, message: str) -> dict[str, Any]:
    """Return the error line of a request that was not executed."""
    return _output(line, None, {"code": code, "message": message})


def _output(line: Line, response: Any, error: Any) -> dict[str, Any]:
    number = hashlib.sha256(line["custom_id"].encode()).hexdigest()[:12]
    return {
        "id": f"batch_req_{number}",
        "custom_id": line["custom_id"],
        "response": response,
        "error": error,
    }


class Batches:
    """The endpoints of files and batches; what they keep is in memory.

    Parameters
    ----------
    imperfections
        Returns the server's options as they stand; a header of a request overrides them. Those of
        the request that creates a batch hold for its lines.
    asked, answered
        The server's counters of requests and whole replies, by hash of the body.
    """

    def __init__(
        self,
        imperfections: Callable[[], BatchImperfections],
        asked: Counter[str],
        answered: Counter[str],
    ) -> None:
        self._imperfections = imperfections
        self._worker = LineWorker(asked, answered)
        self._calls = Counter[str]()
        self._files: dict[str, tuple[dict[str, Any], bytes]] = {}
        self._batches: dict[str, Batch] = {}
        self._queued: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add_routes(self, app: web.Application) -> None:
        """Mount the endpoints."""
        for method, path, handler in (
            ("POST", "/v1/files", self._upload),
            ("GET", "/v1/files/{id}", self._file),
            ("GET", "/v1/files/{id}/content", self._content),
            ("POST", "/v1/batches", self._create),
            ("GET", "/v1/batches", self._list),
            ("GET", "/v1/batches/{id}", self._batch),
            ("POST", "/v1/batches/{id}/cancel", self._cancel),
        ):
            app.router.add_route(method, path, self._guarded(handler))

        async def end(_: web.Application) -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        app.on_cleanup.append(end)

    def stats(self) -> dict[str, Any]:
        """Count files and batches, and the requests of each batch."""
        sizes = [batch["request_counts"]["total"] for batch in self._batches.values()]
        return {"n_files": len(self._files), "n_batches": len(sizes), "batch_sizes": sizes}

    def _guarded(self, handler):
        """Fail a share of the calls; of creations, some after the batch was made."""

        async def guarded(request: web.Request) -> web.Response:
            try:
                faults = BatchImperfections.parse(
                    request.headers.get(HEADER, ""), self._imperfections()
                )
            except InputError as error:
                return error_response(400, "bad_request", str(error))
            call = f"{request.method} {request.path}"
            self._calls[call] += 1
            draws = random.Random(f"{faults.seed}:{call}:{self._calls[call]}")
            if draws.random() < faults.batch_http_error:
                return error_response(500, "server_error", fault_words(faults, request))
            response = await handler(request, faults)
            is_creation = call == "POST /v1/batches"
            if is_creation and draws.random() < faults.create_reset and request.transport:
                request.transport.abort()
            return response

        return guarded

    async def _upload(self, request: web.Request, _: BatchImperfections) -> web.Response:
        fields: dict[str, tuple[str, bytes]] = {}
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader):
                fields[part.name or ""] = (part.filename or "", bytes(await part.read()))
        name, content = fields.get("file", ("", b""))
        words = ""
        if fields.get("purpose", ("", b""))[1] != b"batch":
            words = "purpose: only batch is known"
        elif not name.endswith(".jsonl"):
            words = "Invalid file format for Batch API. Must be .jsonl"
        elif len(content) > MAX_BYTES:
            words = "File is too large."
        if words:
            return error_response(400, "invalid_request_error", words)
        return json_response(self._keep(name, content, "batch"))

    async def _file(self, request: web.Request, _: BatchImperfections) -> web.Response:
        known = self._files.get(request.match_info["id"])
        return json_response(known[0]) if known else _unknown("file", request)

    async def _content(self, request: web.Request, _: BatchImperfections) -> web.Response:
        known = self._files.get(request.match_info["id"])
        if known is None:
            return _unknown("file", request)
        return web.Response(body=known[1], content_type="application/octet-stream")

    async def _create(self, request: web.Request, faults: BatchImperfections) -> web.Response:
        given = await request.json()
        words = ""
        if given.get("input_file_id") not in self._files:
            words = f"Cannot find file {given.get('input_file_id')}."
        elif given.get("completion_window") != "24h":
            words = "completion_window: only 24h is known"
        if words:
            return error_response(400, "invalid_request_error", words)
        return json_response(self._begin(given, faults, fault_words(faults, request)))

    async def _list(self, request: web.Request, _: BatchImperfections) -> web.Response:
        newest_first = list(reversed(self._batches.values()))
        ids = [batch["id"] for batch in newest_first]
        after = request.query.get("after")
        start = ids.index(after) + 1 if after in ids else 0
        end = start + int(request.query.get("limit", "20"))
        page = newest_first[start:end]
        return json_response(
            {
                "object": "list",
                "data": page,
                "first_id": page[0]["id"] if page else None,
                "last_id": page[-1]["id"] if page else None,
                "has_more": end < len(ids),
            }
        )

    async def _batch(self, request: web.Request, _: BatchImperfections) -> web.Response:
        batch = self._batches.get(request.match_info["id"])
        return json_response(batch) if batch else _unknown("batch", request)

    async def _cancel(self, request: web.Request, _: BatchImperfections) -> web.Response:
        batch = self._batches.get(request.match_info["id"])
        if batch is None:
            return _unknown("batch", request)
        if batch["status"] not in ENDED:
            _enter(batch, "cancelling")
        return json_response(batch)

    def _keep(self, name: str, content: bytes, purpose: str) -> dict[str, Any]:
        """Keep a file and return its object."""
        now = int(time.time())
        file = {
            "id": f"file-{len(self._files) + 1:06d}",
            "object": "file",
            "bytes": len(content),
            "created_at": now,
            "expires_at": now + 30 * _DAY_S,
            "filename": name,
            "purpose": purpose,
            "status": "processed",
        }
        self._files[str(file["id"])] = (file, content)
        return file

    def _begin(self, given: dict[str, Any], faults: BatchImperfections, words: str) -> Batch:
        """Begin a batch; ``words`` tell of made faults."""
        now = int(time.time())
        batch = {
            "id": f"batch_{len(self._batches) + 1:06d}",
            "object": "batch",
            "endpoint": given.get("endpoint"),
            "errors": None,
            "input_file_id": given["input_file_id"],
            "completion_window": given["completion_window"],
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": now,
            "expires_at": now + _DAY_S,
            **{f"{name}_at": None for name in _TIMES},
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": given.get("metadata"),
        }
        self._batches[str(batch["id"])] = batch
        task = asyncio.create_task(self._work(batch, faults, words))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return batch

    async def _work(self, batch: Batch, faults: BatchImperfections, words: str) -> None:
        content = self._files[batch["input_file_id"]][1]
        lines, errors = _read_input(content, batch["endpoint"])
        draws = random.Random(f"{faults.seed}:{batch['id']}")
        if draws.random() < faults.fail_batch:
            errors.append(_error("invalid_request", words, 1))
        n_tokens = _n_prompt_tokens(lines) if faults.enqueued_tokens else 0
        if sum(self._queued.values()) + n_tokens > faults.enqueued_tokens > 0:
            limit = f"Limit: {int(faults.enqueued_tokens)} enqueued tokens."
            words = f"Enqueued token limit reached. {limit}"
            errors.append(_error("token_limit_exceeded", words))
        if errors:
            batch["errors"] = {"object": "list", "data": errors}
            _enter(batch, "failed")
            return
        batch["request_counts"]["total"] = len(lines)
        self._queued[batch["id"]] = n_tokens
        _enter(batch, "in_progress")
        draws.shuffle(lines)  # the order of the output is not that of the input
        await asyncio.sleep(faults.batch_delay_s)
        output, error = await self._answered(batch, lines, faults, words)
        _enter(batch, "finalizing", unless="cancelling")
        await asyncio.sleep(0)
        for kind, results in (("output", output), ("error", error)):
            if results:
                text = "".join(json.dumps(result) + "\n" for result in results)
                name = f"{batch['id']}_{kind}.jsonl"
                batch[f"{kind}_file_id"] = self._keep(name, text.encode(), "batch_output")["id"]
        del self._queued[batch["id"]]
        is_late = 0 < faults.expire_after < len(lines)
        status = "expired" if is_late else "completed"
        _enter(batch, "cancelled" if batch["status"] == "cancelling" else status)

    async def _answered(
        self, batch: Batch, lines: list[Line], faults: BatchImperfections, words: str
    ) -> tuple[list[Any], list[Any]]:
        """Return the lines of the output file and of the error file."""
        output: list[Any] = []
        error: list[Any] = []
        for number, line in enumerate(lines):
            if number % _LINES_PER_TURN == 0:
                await asyncio.sleep(0)
            if batch["status"] == "cancelling":
                result = _unanswered(line, "batch_cancelled", "The batch was cancelled.")
            elif 0 < faults.expire_after <= number:
                result = _unanswered(line, "batch_expired", "The completion window is over.")
            else:
                result = self._worker.answer(line, faults, words)
            is_answer = (result["response"] or {}).get("status_code") == 200
            (output if is_answer else error).append(result)
            batch["request_counts"]["completed" if is_answer else "failed"] += 1
        return output, error


def _enter(batch: Batch, status: str, *, unless: str = "") -> None:
    if batch["status"] != unless:
        batch["status"] = status
        batch[f"{status}_at"] = int(time.time())


def _unknown(kind: str, request: web.Request) -> web.Response:
    words = f"No {kind} found with id {request.match_info['id']!r}."
    return error_response(404, "invalid_request_error", words)
