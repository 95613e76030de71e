"""The files and batches endpoints of OpenAI's API, each call tried until it succeeds."""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from psibench.config.llms import LlmSettings
from psibench.llm.batch_files import ENDPOINT, MIB, nameless, read_line, split_lines
from psibench.llm.client import Reply
from psibench.llm.connection import failures, sync_client
from psibench.llm.retry import TryFailedError, backoff_s
from psibench.llm.secret import Secret

if TYPE_CHECKING:
    from openai.types import Batch

T = TypeVar("T")

NAME_FIELD = "psibench_batch"
"""Field of a batch's metadata that holds its name."""

SLACK_S = 3600.0
"""How far the server's clock may differ from ours."""

NO_LIST_STATUS = (404, 405, 501)
"""What a server answers that cannot list batches."""


class BatchServer:
    """Calls to one server, one at a time.

    Every method raises TryFailedError, whose words hold no key, when the tries of the settings are
    used up or no further try will do.

    Parameters
    ----------
    settings
        Address, key and policy.
    folder
        Files are downloaded into a file without a name in it.
    """

    def __init__(self, settings: LlmSettings, folder: Path) -> None:
        self._secret = Secret.from_environment(settings.api_key_env)
        self._client = sync_client(settings, settings.base_url, self._secret)
        self._policy, self._window = settings.asking, settings.batch.completion_window
        self._folder, self._rng = folder, random.Random()

    def upload(self, content: IO[bytes], name: str) -> str:
        """Upload an input file and return its id."""

        def send() -> str:
            content.seek(0)
            file = (f"{name}.jsonl", content, "application/jsonl")
            return _checked(self._client.files.create(file=file, purpose="batch")).id

        return self._tried(send)

    def create(self, file_id: str, name: str, *, before_try: Callable[[], None]) -> "Batch":
        """Create a batch, once even if the server's reply gets lost."""
        tries = itertools.count()

        def send() -> "Batch":
            if next(tries):  # an earlier try may have reached the server
                found = self._find(name, time.time())
                if found is not None:
                    return found
            before_try()
            batch = self._client.batches.create(
                input_file_id=file_id,
                endpoint=ENDPOINT,
                completion_window=self._window,  # type: ignore[arg-type]  # some know others
                metadata={NAME_FIELD: name},
            )
            return _checked(batch)

        return self._tried(send, may_be_late=file_id)

    def find(self, name: str, *, since_s: float) -> "Batch | None":
        """Return the batch of a name created since a Unix time, or None."""
        return self._tried(lambda: self._find(name, since_s))

    def retrieve(self, batch_id: str) -> "Batch | None":
        """Return a batch as it stands; None if the server does not know it."""
        try:
            return self._tried(lambda: _checked(self._client.batches.retrieve(batch_id)))
        except TryFailedError as failure:
            if failure.reason == "http_404":
                return None
            raise

    def lines(self, file_id: str, *, model: str) -> Iterator[tuple[str, Reply | TryFailedError]]:
        """Yield key and reply or failure of each line of a file; nothing if the file is gone.

        Lines that cannot be read are passed over: their requests count as not answered.
        """
        with nameless(self._folder) as content:
            try:
                self._tried(lambda: self._download(file_id, content))
            except TryFailedError as failure:
                if failure.reason == "http_404":
                    return
                raise
            content.seek(0)
            for line in split_lines(iter(lambda: content.read(MIB), b"")):
                try:
                    yield read_line(line, model=model, secret=self._secret)
                except ValueError:
                    continue

    def scrub(self, text: str) -> str:
        """Take keys out of the server's words."""
        return self._secret.scrub(text)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _find(self, name: str, since_s: float) -> "Batch | None":
        from openai import APIStatusError

        try:
            for batch in self._client.batches.list(limit=100):  # newest first
                if (batch.metadata or {}).get(NAME_FIELD) == name:
                    return batch
                if batch.created_at and batch.created_at < since_s - SLACK_S:
                    return None
        except APIStatusError as error:
            if error.status_code not in NO_LIST_STATUS:
                raise
        return None

    def _download(self, file_id: str, to: IO[bytes]) -> None:
        to.seek(0)
        to.truncate()
        with self._client.files.with_streaming_response.content(file_id) as response:
            for chunk in response.iter_bytes(MIB):
                to.write(chunk)

    def _tried(self, call: Callable[[], T], *, may_be_late: str | None = None) -> T:
        """Call until it succeeds; ``may_be_late`` is an id the server may not know at once."""
        n_tries = 0
        while True:
            n_tries += 1
            try:
                with failures(self._secret, policy=self._policy):
                    return call()
            except TryFailedError as failure:
                is_late = bool(may_be_late and may_be_late in failure.detail)
                may_retry = failure.verdict == "retry" or is_late
                if not may_retry or n_tries >= self._policy.max_tries:
                    raise
                wait_s = backoff_s(
                    n_tries,
                    asked_s=failure.retry_after_s,
                    base_s=0.5,
                    most_s=8.0,
                    rng=self._rng,
                )
            time.sleep(wait_s)


def _checked(reply: Any) -> Any:
    """Return a reply that has an id; a page of HTML, say, has none."""
    if not getattr(reply, "id", None):
        raise TryFailedError(
            "no_id", "the reply names no file or batch; check base_url", verdict="stop"
        )
    return reply
