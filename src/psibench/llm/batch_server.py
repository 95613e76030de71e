"""The files and batches endpoints of OpenAI's API, and the lines of their files."""

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from psibench.errors import InputError
from psibench.llm.client import Reply, read_reply
from psibench.llm.connection import (
    DETAIL_CHARS,
    TryFailedError,
    failures,
    status_failure,
    sync_client,
    verdict_of,
)
from psibench.llm.request import Request
from psibench.llm.secret import Secret
from psibench.llm.sections import LlmSettings

if TYPE_CHECKING:
    from openai.types import Batch

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
MIB = 1 << 20

NAME_FIELD = "psibench_batch"
"""Field of a batch's metadata that holds its name."""

SLACK_S = 3600.0
"""How far the server's clock may differ from ours."""

NO_LIST_STATUS = (404, 405, 501)
"""What a server answers that cannot list batches."""

PAUSE_S, MOST_PAUSE_S = 0.5, 8.0
"""Pause before a batch is created anew, doubled each time; as the `openai` client's are."""


class BatchServer:
    """Calls to one server, one at a time.

    The `openai` client tries calls again, but for the creation of a batch: one whose reply got
    lost may have been made. Every method raises TryFailedError, whose words hold no key, when the
    tries of the settings are used up or no further try will do.

    Parameters
    ----------
    settings
        Address, key and policy.
    folder
        Files are downloaded into a file without a name in it.
    """

    def __init__(self, settings: LlmSettings, folder: Path) -> None:
        self._secret = Secret.from_environment(settings.api_key_env)
        self._client = sync_client(
            settings.asking, settings.base_url, self._secret, settings.headers
        )
        self._policy, self._window = settings.asking, settings.batch.completion_window
        self._folder = folder

    def upload(self, content: IO[bytes], name: str) -> str:
        """Upload an input file and return its id."""
        file = (f"{name}.jsonl", content, "application/jsonl")
        with self._failures():
            return str(_checked(self._client.files.create(file=file, purpose="batch")).id)

    def create(self, file_id: str, name: str) -> str:
        """Create a batch, once even if the server's reply gets lost; return its id."""
        pause_s, started = PAUSE_S, time.time()
        for n_left in range(self._policy.max_tries - 1, -1, -1):
            try:
                with self._failures():
                    batch = self._client.with_options(max_retries=0).batches.create(
                        input_file_id=file_id,
                        endpoint=ENDPOINT,
                        completion_window=self._window,  # type: ignore[arg-type]  # some know others
                        metadata={NAME_FIELD: name},
                    )
                    return str(_checked(batch).id)
            except TryFailedError as failure:
                # A server may need a moment to know a file that was just uploaded.
                may_pass = failure.verdict == "retry" or file_id in failure.detail
                if not may_pass or not n_left:
                    raise
            time.sleep(pause_s)
            pause_s = min(MOST_PAUSE_S, 2 * pause_s)
            if (found := self.find(name, since_s=started)) is not None:
                return found
        raise AssertionError("not reached")

    def find(self, name: str, *, since_s: float) -> str | None:
        """Return the id of the batch of a name that was created since a Unix time, or None."""
        from openai import APIStatusError

        with self._failures():
            try:
                for batch in self._client.batches.list(limit=100):  # newest first
                    if (batch.metadata or {}).get(NAME_FIELD) == name:
                        return batch.id
                    if batch.created_at and batch.created_at < since_s - SLACK_S:
                        return None
            except APIStatusError as error:
                if error.status_code not in NO_LIST_STATUS:
                    raise
        return None

    def retrieve(self, batch_id: str) -> "Batch | None":
        """Return a batch as it stands; None if the server does not know it."""
        return self._known(lambda: _checked(self._client.batches.retrieve(batch_id)))

    def lines(self, file_id: str, *, model: str) -> Iterator[tuple[str, Reply | TryFailedError]]:
        """Yield key and reply or failure of each line of a file; nothing if the file is gone.

        Lines that cannot be read are passed over: their requests count as not answered.
        """
        with nameless(self._folder) as content:
            self._known(lambda: self._download(file_id, content))
            content.seek(0)
            for line in content:
                with contextlib.suppress(ValueError):
                    yield read_line(line, model=model, secret=self._secret)

    def scrub(self, text: str) -> str:
        """Take keys out of the server's words."""
        return self._secret.scrub(text)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _failures(self) -> "contextlib.AbstractContextManager[None]":
        return failures(self._secret, policy=self._policy)

    def _known(self, call: Callable[[], Any]) -> Any:
        """Return what a call returns; None if the server does not know what it asks for."""
        try:
            with self._failures():
                return call()
        except TryFailedError as failure:
            if failure.reason == "http_404":
                return None
            raise

    def _download(self, file_id: str, to: IO[bytes]) -> None:
        with self._client.files.with_streaming_response.content(file_id) as response:
            for chunk in response.iter_bytes(MIB):
                to.write(chunk)


def _checked(reply: Any) -> Any:
    """Return a reply that has an id; a page of HTML, say, has none."""
    if not getattr(reply, "id", None):
        raise TryFailedError(
            "no_id", "the reply names no file or batch; check base_url", verdict="stop"
        )
    return reply


def nameless(folder: Path) -> IO[bytes]:
    """Open a file without a name in a folder, which is made if missing."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder)


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Say which folder cannot be written to."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written to ({error.strerror or error}). All answers read before "
            "are stored, and batches under way recorded; make room there and run again to go on."
        ) from error


def input_line(key: str, request: Request, *, output_limit_key: str) -> bytes:
    """Return a request as a line of an input file; its key (64 characters) is the custom_id."""
    body = request.body(output_limit_key=output_limit_key)
    line = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(line).encode() + b"\n"


def read_line(line: bytes, *, model: str, secret: Secret) -> tuple[str, Reply | TryFailedError]:
    """Read a line of an output or error file: the request's key, and what became of it.

    A line of either file has ``response`` (``status_code`` and ``body``; the body of an error
    holds ``error``) or, where no HTTP request came about, ``error`` (``code``: batch_expired,
    batch_cancelled, request_timeout). Servers also report status 0 with an empty body.

    Raises
    ------
    ValueError
        If the line is no such line.
    """
    data = json.loads(line)
    if not isinstance(data, dict) or not isinstance(data.get("custom_id"), str):
        raise ValueError("no custom_id")
    try:
        return data["custom_id"], _reply(data, model, secret)
    except TryFailedError as failure:
        if failure.reason == "content_filter":  # other servers give a reply in that case
            return data["custom_id"], Reply.filtered(model, failure)
        return data["custom_id"], failure


def _reply(data: dict[str, object], model: str, secret: Secret) -> Reply:
    response, error = data.get("response"), data.get("error")
    if isinstance(error, dict):
        code = str(error.get("code") or "batch_error")
        words = secret.scrub(str(error.get("message") or ""))[:DETAIL_CHARS]
        raise TryFailedError(secret.scrub(code), words, verdict=verdict_of(500, code))
    if not isinstance(response, dict):
        raise TryFailedError("no_response", "the line has neither a response nor an error")
    status, body = response.get("status_code"), response.get("body")
    if not isinstance(status, int) or status <= 0:
        raise TryFailedError("http_0", "the server reports no status for this request")
    if status < 300:
        return read_reply(body, model, secret)
    details = body.get("error") if isinstance(body, dict) else None
    raise status_failure(status, details, secret, text=json.dumps(body))
