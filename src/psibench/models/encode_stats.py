"""What an encoding job did and how fast: one line of its log that programs can read."""

import json
import logging
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger("psibench")

MARK = "encode-stats"


@dataclass
class EncodeStats:
    """Counts of one job.

    Attributes
    ----------
    texts, tokens
        Encoded now, without what the store had.
    padded_tokens
        Tokens computed: texts times the length they were padded to.
    seconds
        Wall-clock time of encoding: computing, writing and waiting.
    wait_s
        Of it, waiting for texts to be read and tokenized.
    write_s
        Of it, writing to the store.
    slowest_batch_s, slowest_write_s
        Largest so far; what a job that is about to end still needs.
    """

    texts: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    batches: int = 0
    seconds: float = 0.0
    wait_s: float = 0.0
    write_s: float = 0.0
    slowest_batch_s: float = 0.0
    slowest_write_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens of texts per second, waiting and writing included."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def padding_share(self) -> float:
        """Share of the computed tokens that belong to no text."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0

    @property
    def wait_share(self) -> float:
        """Share of the time spent waiting for tokenization."""
        return self.wait_s / self.seconds if self.seconds else 0.0

    @property
    def reserve_s(self) -> float:
        """Seconds that finishing what runs and writing it may take."""
        return 2 * self.slowest_batch_s + self.slowest_write_s

    def log(self, **about: Any) -> None:
        """Log one line: ``encode-stats`` and a JSON object, ``about`` first."""
        record = about | {
            "texts": self.texts,
            "tokens": self.tokens,
            "padded_tokens": self.padded_tokens,
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
            "tokens_per_s": round(self.tokens_per_s, 1),
            "padding_share": round(self.padding_share, 4),
            "wait_share": round(self.wait_share, 4),
            "write_s": round(self.write_s, 3),
        }
        logger.info("%s %s", MARK, json.dumps(record))
