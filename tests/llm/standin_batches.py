"""A stand-in with OpenAI's files and batches endpoints, for the tests of the batch backend."""

import asyncio
import hashlib
import json
import random
import time
from collections import Counter
from typing import Any

from aiohttp import web
from faulty_standin import HEADER, FaultyStandIn, Imperfections, fault_words, spoilt_completion

from psibench.llm.standin.completion import BadRequestError
from psibench.llm.standin.rules import count_tokens
from psibench.llm.standin.server import error_body, error_response, json_response

_DAY_S = 86_400
_LINES_PER_TURN = 64

Json = dict[str, Any]


class BatchStandIn(FaultyStandIn):
    """A stand-in with files and batches in memory; lines count as requests.

    Headers of a request override options; headers of the request that creates a batch apply to its
    lines.
    """

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Json] = {}
        self._calls = Counter[str]()
        self._queued: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def app(self):
        app = super().app()
        for method, path, handler in (
            ("POST", "/v1/files", self._upload),
            ("GET", "/v1/files/{id}/content", self._content),
            ("POST", "/v1/batches", self._create),
            ("GET", "/v1/batches", self._list),
            ("GET", "/v1/batches/{id}", self._batch),
        ):
            app.router.add_route(method, path, self._guarded(handler))

        async def end(_: web.Application) -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        app.on_cleanup.append(end)
        return app

    def _guarded(self, handler):
        """Fail a share of the calls; of creations, some after the batch was made."""

        async def guarded(request: web.Request) -> web.Response:
            given = request.headers.get(HEADER, "")
            faults = Imperfections.parse(given, self.imperfections)
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

    async def _upload(self, request: web.Request, _: Imperfections) -> web.Response:
        fields = await request.post()
        if fields["purpose"] != "batch" or not fields["file"].filename.endswith(".jsonl"):
            return _refused("Invalid file format for Batch API. Must be .jsonl")
        return json_response({"id": self._keep(fields["file"].file.read()), "object": "file"})

    async def _content(self, request: web.Request, _: Imperfections) -> web.Response:
        known = self.files[request.match_info["id"]]
        return web.Response(body=known, content_type="application/octet-stream")

    async def _create(self, request: web.Request, faults: Imperfections) -> web.Response:
        """Begin a batch."""
        given, now = await request.json(), int(time.time())
        if given.get("input_file_id") not in self.files:
            return _refused(f"Cannot find file {given.get('input_file_id')}.")
        if given.get("completion_window") != "24h":
            return _refused("completion_window: only 24h is known")
        batch = given | {
            "id": f"batch_{len(self.batches) + 1:06d}",
            "object": "batch",
            "errors": None,
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": now,
            "expires_at": now + _DAY_S,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
        }
        self.batches[batch["id"]] = batch
        task = asyncio.create_task(self._work(batch, faults, fault_words(faults, request)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return json_response(batch)

    async def _list(self, request: web.Request, _: Imperfections) -> web.Response:
        newest_first = list(reversed(self.batches.values()))
        return json_response({"object": "list", "data": newest_first, "has_more": False})

    async def _batch(self, request: web.Request, _: Imperfections) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return _refused("No such batch.", 404)
        return json_response(batch)

    def _keep(self, content: bytes) -> str:
        """Keep a file and return its id."""
        name = f"file-{len(self.files) + 1:06d}"
        self.files[name] = content
        return name

    async def _work(self, batch: Json, faults: Imperfections, words: str) -> None:
        """Process a batch; ``words`` are the message of injected faults."""
        lines, errors = _read_input(self.files[batch["input_file_id"]], batch["endpoint"])
        draws = random.Random(f"{faults.seed}:{batch['id']}")
        if draws.random() < faults.fail_batch:
            errors.append(_error("invalid_request", words, 1))
        prompts = [one["content"] for line in lines for one in line["body"]["messages"]]
        n_tokens = sum(map(count_tokens, prompts)) if faults.enqueued_tokens else 0
        if sum(self._queued.values()) + n_tokens > faults.enqueued_tokens > 0:
            limit = f"Limit: {int(faults.enqueued_tokens)} enqueued tokens."
            errors.append(_error("token_limit_exceeded", f"Token limit reached. {limit}"))
        if errors:
            batch |= {"errors": {"object": "list", "data": errors}, "status": "failed"}
            return
        batch["request_counts"]["total"] = len(lines)
        self._queued[batch["id"]] = n_tokens
        batch["status"] = "in_progress"
        draws.shuffle(lines)  # the order of the output differs from the input
        await asyncio.sleep(faults.batch_delay_s)
        for kind, results in (await self._answered(batch, lines, faults, words)).items():
            if results:
                text = "".join(json.dumps(result) + "\n" for result in results)
                batch[f"{kind}_file_id"] = self._keep(text.encode())
        del self._queued[batch["id"]]
        ended = "expired" if 0 < faults.expire_after < len(lines) else "completed"
        batch["status"] = "cancelled" if batch["status"] == "cancelling" else ended

    async def _answered(
        self, batch: Json, lines: list[Json], faults: Imperfections, words: str
    ) -> dict[str, list[Json]]:
        """Return the lines of the output file and of the error file."""
        results: dict[str, list[Json]] = {"output": [], "error": []}
        for number, line in enumerate(lines):
            if number % _LINES_PER_TURN == 0:
                await asyncio.sleep(0)
            if batch["status"] == "cancelling":
                result = _output(line, error="batch_cancelled")
            elif 0 < faults.expire_after <= number:
                result = _output(line, error="batch_expired")
            else:
                result = self._answer(line, faults, words)
            is_answer = (result["response"] or {}).get("status_code") == 200
            results["output" if is_answer else "error"].append(result)
            batch["request_counts"]["completed" if is_answer else "failed"] += 1
        return results

    def _answer(self, line: Json, faults: Imperfections, words: str) -> Json:
        """Answer a line as the server would answer a single request."""
        name = hashlib.sha256(json.dumps(line["body"]).encode()).hexdigest()
        self.asked[name] += 1
        fault, content = faults.draw(name, self.asked[name])
        if fault == "hang":
            return _output(line, error="request_timeout")
        if fault == "reset":
            return _output(line, 0, {})
        if fault == "rate_limited":
            return _output(line, 429, error_body("rate_limit_exceeded", words))
        if fault == "server_error":
            return _output(line, 500, error_body("server_error", words))
        try:
            body = spoilt_completion(line["body"], name, content, faults)
        except BadRequestError as error:
            return _output(line, 400, error_body("bad_request", str(error)))
        self.answered[name] += 1
        return _output(line, 200, body)


def _output(line: Json, status: int = 0, body: Any = None, *, error: str | None = None) -> Json:
    """Return the output line of an input line; with ``error``, that it was not executed."""
    return {
        "id": "batch_req",
        "custom_id": line["custom_id"],
        "response": None if error else {"status_code": status, "body": body},
        "error": {"code": error, "message": "It was not executed."} if error else None,
    }


def _read_input(content: bytes, endpoint: str) -> tuple[list[Json], list[Json]]:
    """Return the lines of an input file, and its errors in the format of ``errors.data``."""
    lines: list[Json] = []
    errors = []
    for number, text in enumerate(content.decode().removesuffix("\n").split("\n"), start=1):
        line = json.loads(text)
        if line["url"] != endpoint or line["method"] != "POST":
            errors.append(_error("url_mismatch", f"{line['url']} is not {endpoint}.", number))
        if not 0 < len(line["custom_id"]) <= 64:
            errors.append(_error("invalid_custom_id", "1 to 64 characters.", number))
        lines.append(line)
    if len({line["custom_id"] for line in lines}) < len(lines):
        errors.append(_error("duplicate_custom_id", "A custom_id stands twice."))
    return lines, errors


def _error(code: str, message: str, line: int | None = None) -> Json:
    return {"code": code, "message": message, "line": line, "param": None}


def _refused(words: str, status: int = 400) -> web.Response:
    return error_response(status, "invalid_request_error", words)
