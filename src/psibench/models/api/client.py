"""Posting to an embedding service: one HTTP request, its answer or what went wrong."""

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.llm.connection import DETAIL_CHARS, status_failure
from psibench.llm.retry import TryFailedError
from psibench.llm.secret import Secret

if TYPE_CHECKING:
    import aiohttp

LOCAL = ("localhost", "127.0.0.1", "::1")


class EmbeddingClient:
    """Posts bodies to one address. Used and closed inside one event loop.

    Parameters
    ----------
    entry
        Address and the name of the key's environment variable. The key is read here, and nowhere
        kept but in this object.

    Raises
    ------
    InputError
        If the environment variable of the key is not set.
    """

    def __init__(self, entry: EmbeddingApiModel) -> None:
        self._url, self._timeout_s = entry.url, entry.timeout_s
        self._concurrency = entry.concurrency
        self._secret = Secret.from_environment(entry.key_env, key="key_env")
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> Any:
        """Post a body and return the answer as plain data.

        Raises
        ------
        TryFailedError
            If there is none, or it is no JSON; its words hold no key.
        """
        import aiohttp

        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._opened().post(
                    self._url, data=body, allow_redirects=False
                ) as response:
                    content = await response.read()
        except TimeoutError:
            raise TryFailedError("timeout", f"no answer in {self._timeout_s:g} s") from None
        except aiohttp.ClientPayloadError as error:
            raise TryFailedError("broken_off", self._secret.scrub(str(error))) from None
        except (aiohttp.ClientError, OSError) as error:
            words = self._secret.scrub(f"{type(error).__name__} {error}".strip())
            raise TryFailedError("connection", words[:DETAIL_CHARS]) from None
        if response.status >= 300:
            raise self._failure(response.status, content, response.headers)
        try:
            return json.loads(content)
        except ValueError:
            words = self._secret.scrub(content[:DETAIL_CHARS].decode("utf-8", "replace"))
            raise TryFailedError("not_json", words) from None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._session is None:
            headers = {"Content-Type": "application/json"}
            if key := self._secret.reveal():
                headers["Authorization"] = f"Bearer {key}"
            self._session = aiohttp.ClientSession(
                headers=headers,
                connector=aiohttp.TCPConnector(limit=self._concurrency),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                trust_env=urlsplit(self._url).hostname not in LOCAL,
            )
        return self._session

    def _failure(self, status: int, content: bytes, headers: Any) -> TryFailedError:
        """Read an error as OpenAI words it (error.message), Cohere (message), Voyage (detail)."""
        text = content.decode("utf-8", "replace")
        error: object = None
        try:
            data = json.loads(content)
        except ValueError:
            data = None
        if isinstance(data, dict):
            error = data.get("error")
            for said in (error, data.get("message"), data.get("detail")):
                if isinstance(said, str):
                    text = said
                    break
        return status_failure(status, error, self._secret, text=text, headers=headers)
