"""What requests for a model's vectors used: a keyed store of lines that outlive killed jobs.

Each job adds to the store ``spending`` beside the model's vectors (`psibench.store.keyed`) a line
before a request leaves, with the most it can cost, and one when it is over, with what it did; their
key is the request's number. Of a request whose job was killed the first line alone is there: it
counts at its most, since the service may have done the work.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from psibench.errors import InputError
from psibench.llm.limits import Budget, Call
from psibench.llm.sections import MILLION, Price
from psibench.llm.usage import Usage
from psibench.reading import parse_json
from psibench.store.index import KEY
from psibench.store.keyed import KeyedStore, Kind, Scan
from psibench.store.records import START, read_record, read_records, write_record

FOLDER = "spending"
MOST = 1e15
"""Of any number in a line."""


@dataclass
class EmbeddingCall(Call):
    """One request of texts and the HTTP requests made for it.

    ``n_texts`` it has, of ``n_tokens`` by our count; ``number`` and ``began_s`` are of the HTTP
    request under way.
    """

    n_texts: int = 0
    n_tokens: int = 0
    number: int = 0
    began_s: float = 0.0


class Ledger(Budget):
    """The spending on one model's vectors, and the budget that a job's requests are held to.

    Jobs of a model with a budget run one at a time: what others spent is read at the beginning.

    Parameters
    ----------
    folder
        The model's folder in the store.
    job
        Name under which this job's requests are kept: a job that resumes gives the same.
    usd_per_million
        Price of a million tokens; None if unknown.
    limit_usd
        None: requests are noted, and none is held back.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        job: str,
        usd_per_million: float | None,
        limit_usd: float | None = None,
    ) -> None:
        usd = usd_per_million or 0.0
        price = Price(input_usd=usd, output_usd=0.0, as_of=datetime.now(UTC).date())
        self._usd_per_million = usd_per_million
        self._job, self._stored = job, KeyedStore(Path(folder) / FOLDER, SPENDING)
        spent = sum(map(self._usd, self._sums()))
        super().__init__(math.inf if limit_usd is None else limit_usd, price, spent_usd=spent)
        self._n_sent = 0
        self._per_token = 1.0

    def begin(self, call: Call) -> bool:
        """Note that a request leaves, if the budget holds the most it can cost.

        That is our count of its tokens, times what the service added so far: it may count more
        than the tokenizer does, prompts of its own, say.
        """
        assert isinstance(call, EmbeddingCall)
        call.most = Usage(math.ceil(call.n_tokens * self._per_token))
        if not super().begin(call):
            return False
        self._n_sent += 1
        call.number, call.began_s = self._n_sent, monotonic()
        self._note(call, call.most.input_tokens, state="sent")
        return True

    def end(self, call: Call, used: Usage | None, *, is_usable: bool) -> None:
        """Note what a request used; None: perhaps all that was reserved."""
        assert isinstance(call, EmbeddingCall)
        super().end(call, used, is_usable=is_usable)
        if used is not None:
            per_token = used.input_tokens / max(1, call.n_tokens)
            self._per_token = max(self._per_token, per_token)
        tokens = (call.most if used is None else used).input_tokens
        state, seconds = "done" if is_usable else "failed", monotonic() - call.began_s
        self._note(call, tokens, state=state, seconds=round(seconds, 3))

    def spending(self) -> dict[str, Any]:
        """Sum up the requests of this job and of those of its name that were killed before it.

        Returns
        -------
        Columns of EMBEDDING_USAGE but ``model``: requests that brought vectors and their texts;
        tokens, of requests that may have been billed for nothing at the most; ``retries`` that
        brought nothing; their cost, None if one was sent without a price; and the seconds they
        took, those at once added up.
        """
        sums = [one for one in self._sums() if one["job"] == self._job]
        is_known = self._usd_per_million is not None or not any(one["unpriced"] for one in sums)
        counts = ("requests", "texts", "tokens", "retries")
        return {
            **{name: sum(one[name] for one in sums) for name in counts},
            "usd": sum(map(self._usd, sums)) if is_known else None,
            "seconds": round(sum(one["seconds"] for one in sums), 3),
        }

    def sync(self) -> None:
        """Make what was noted durable."""
        self._stored.sync()

    def close(self) -> None:
        """Make what was noted durable and indexed."""
        self._stored.seal()

    def _sums(self) -> list[dict[str, Any]]:
        """Return what the requests of all jobs add up to, job by job."""
        self._stored.refresh()
        return [one for sums in self._stored.summaries() for one in sums]

    def _usd(self, sums: dict[str, Any]) -> float:
        """Return what requests cost; those noted without a price count at today's, if any."""
        rate = (self._usd_per_million or 0.0) / MILLION
        return float(sums["usd"] + sums["unpriced_tokens"] * rate)

    def _note(self, call: EmbeddingCall, tokens: int, **fields: Any) -> None:
        rate = self._usd_per_million
        line = {"n": call.number, "job": self._job, "texts": call.n_texts, "tokens": tokens}
        line |= {"usd": None if rate is None else tokens * rate / MILLION} | fields
        self._stored.add(write_record(f"{call.number:08x}", line))


def _read_line(text: bytes) -> dict[str, Any] | None:
    """Read a line, or one of an earlier version, which is its record alone."""
    record = read_record(text) if text.startswith(START) else text
    try:
        line = None if record is None else parse_json(record, where="")
    except InputError:
        return None
    return line if _is_line(line) else None


def _scan(log: Path) -> Scan:
    """Read a log; its summary has, job by job, what the last lines about each request add up to."""
    last, is_sound = dict[int, dict[str, Any]](), True
    lost = "what they say was spent does not count; they are passed over"
    for _, _, line in read_records(log, _read_line, lost=lost):
        if line is None:
            is_sound = False
        else:
            last[line["n"]] = line
    nothing = {"requests": 0, "texts": 0, "tokens": 0, "retries": 0, "seconds": 0.0}
    nothing |= {"usd": 0.0, "unpriced": 0, "unpriced_tokens": 0}
    sums = dict[str, dict[str, Any]]()
    for line in last.values():
        one = sums.setdefault(line["job"], {"job": line["job"], **nothing})
        is_done, usd = line["state"] == "done", line.get("usd")
        one["requests"] += is_done
        one["retries"] += not is_done
        one["texts"] += line["texts"] * is_done
        one["tokens"] += line["tokens"]
        one["seconds"] += line.get("seconds") or 0.0
        one["usd"] += usd or 0.0
        one["unpriced"] += usd is None
        one["unpriced_tokens"] += line["tokens"] * (usd is None)
    nowhere = np.empty(0, np.int64)
    return Scan(np.empty(0, KEY), nowhere, nowhere, [*sums.values()], is_sound)


SPENDING = Kind("spending", ".jsonl", _scan)


def _is_line(line: object) -> bool:
    kinds = {"n": int, "job": str, "state": str, "texts": int, "tokens": int}
    further = dict.fromkeys(("usd", "seconds"), int | float | None)
    return (
        isinstance(line, dict)
        and all(isinstance(line.get(name), kind) for name, kind in (kinds | further).items())
        and all(0 <= line[name] <= MOST for name in line if isinstance(line[name], int | float))
    )
