"""Fill an answer store as large as PosIR's, and time what opening, looking up and adding cost.

    python large_store.py make DIR [--answers 20000000] [--jobs 4000]     some ten minutes of a core
    python large_store.py use DIR [--keys 10000]

`make` writes the answers of as many jobs as files of the store, each with its index, by the store's
own functions; records are short (a grade), so that the number of answers counts. `use`, a process
of its own on files that the system has been told to forget, opens the store, looks up
as many unknown keys, reads as many answers, sums up what all used, and adds answers.
"""

import argparse
import hashlib
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psibench.llm.answer import Answer
from psibench.llm.answer_store import (
    INDEX,
    LOG,
    AnswerStore,
    index_log,
    write_line,
)
from psibench.llm.usage import Usage


def key_of(number: int) -> str:
    """Return the key of an answer: the hash of a number."""
    return hashlib.sha256(b"%d" % number).hexdigest()


def answer(number: int) -> Answer:
    """Make an answer."""
    used = Usage(input_tokens=900, cached_input_tokens=0, output_tokens=12)
    text = f'{{"grade": {number % 5}}}'
    created = "2026-01-01T00:00:00Z"
    return Answer(key_of(number), "grade", "m", text, "stop", None, used, 1, 0.5, created)


def make(folder: Path, n_answers: int, n_jobs: int) -> None:
    """Write the logs and indexes of finished jobs."""
    folder.mkdir(parents=True)
    per_job = n_answers // n_jobs
    for job in range(n_jobs):
        numbers = range(job * per_job, (job + 1) * per_job)
        log = folder / f"answers-20260101T{job:06d}Z-host-1-{job:08x}{LOG}"
        log.write_bytes(b"".join(write_line(answer(number)) for number in numbers))
        index_log(log)


def forget(folder: Path) -> None:
    """Tell the system to forget the files' pages."""
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long something takes, and the process' peak of memory after it."""
    begun = time.perf_counter()
    yield
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:48} {time.perf_counter() - begun:8.2f} s {mib:8.0f} MiB at most", flush=True)


def use(folder: Path, n_answers: int, n_keys: int) -> None:
    """Open, look up, read, sum up, add."""
    forget(folder)
    names = [path.name for path in folder.iterdir()]
    gib = sum(path.stat().st_size for path in folder.iterdir()) / (1 << 30)
    indexes = sum(name.endswith(INDEX) for name in names)
    print(f"{n_answers:,} answers, {len(names):,} files ({indexes:,} indexes), {gib:.2f} GiB")
    known = [key_of(number * (n_answers // n_keys)) for number in range(n_keys)]
    unknown = [key_of(number) for number in range(n_answers, n_answers + n_keys)]
    with AnswerStore(folder) as store:
        with timed("open"):
            assert store.get(unknown[0]) is None
        with timed(f"look up {n_keys:,} unknown"):
            assert all(store.get(key) is None for key in unknown)
        with timed(f"read {n_keys:,} answers"):
            assert all(store.get(key) is not None for key in known)
        with timed("what all answers used"):
            assert AnswerStore(folder).usage().output_tokens == 12 * n_answers
        with timed(f"add {n_keys:,} answers"):
            for number in range(n_answers, n_answers + n_keys):
                store.add(answer(number))
        with timed("close"):
            store.close()


def main() -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["make", "use"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--answers", type=int, default=20_000_000)
    parser.add_argument("--jobs", type=int, default=4_000)
    parser.add_argument("--keys", type=int, default=10_000)
    args = parser.parse_args()
    if args.what == "make":
        make(args.folder, args.answers, args.jobs)
    else:
        use(args.folder, args.answers, args.keys)


if __name__ == "__main__":
    main()
