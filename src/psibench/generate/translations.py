"""Translations that no language model makes: from a file, or from a program (docs/multilingual.md).

Both are backends of an entry of `llms`, and translators only.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from psibench.errors import InputError
from psibench.lines import read_records
from psibench.llm.answer import Outcome
from psibench.llm.sections import LlmSettings
from psibench.llm.tasks import TaskItem
from psibench.llm.usage import Usage
from psibench.reading import one_line
from psibench.translate.translate import TranslateSection

if TYPE_CHECKING:
    from psibench.generate.ask import Asking

FILE_COLUMNS = ("id", "language", "translation")
"""Required keys of each line in a file of translations."""
LOOK_S = 0.5
"""Interval at which the job checks whether it has to stop."""
ERROR_CHARS = 300


def outside_translations(
    asking: "Asking", items: Sequence[Sequence[TaskItem]], check_stop: Callable[[], None]
) -> dict[str, Outcome]:
    """Return the outcomes of a translator that is a file or a program, by ``DOMAIN_NUMBER:ITEM``.

    Raises
    ------
    InputError
        If the task is not a translation, a translation is missing, or the program fails.
    """
    llm, section = asking.llm, asking.section
    if not isinstance(section, TranslateSection) or asking.task.name.startswith("judge_"):
        raise InputError(
            f"{asking.task.name}: language model {asking.llm_id!r} is a {llm.backend} of "
            "translations. Use it only as a translator (translate.llm, "
            "translate.quality.translators)"
        )
    named = {f"{n}:{item.id}": item for n, of_domain in enumerate(items) for item in of_domain}
    if llm.backend == "file":
        by_id = _read_file(Path(str(llm.file)), [item.id for item in named.values()], section)
        made = [by_id[item.id] for item in named.values()]
    else:
        texts = [str(item.values["text"]) for item in named.values()]
        made = run_program(llm, texts, section, check_stop)
    return {
        name: Outcome(
            item_id=item.id,
            key=f"{llm.model}:{section.target_language}:{item.id}",
            status="ok",
            reason="",
            value={"translation": translation},
            text=translation,
            model=llm.model,
            usage=Usage(),
        )
        for (name, item), translation in zip(named.items(), made, strict=True)
    }


def _read_file(path: Path, wanted: Sequence[str], section: TranslateSection) -> dict[str, str]:
    """Read the translations to the section's language, by item.

    Raises InputError if the file lacks a translation or has two of one text.
    """
    made: dict[str, str] = {}
    for line, record in read_records(path):
        if not all(isinstance(record.get(key), str) for key in FILE_COLUMNS):
            raise InputError(
                f"{path}, line {line}: expected the keys id, language and translation, each with "
                f"a text; found {', '.join(record)}"
            )
        if record["language"] != section.target_language:
            continue
        if record["id"] in made:
            raise InputError(
                f"{path}, line {line}: second translation of {record['id']!r} to "
                f"{section.target_language}; remove one of the two"
            )
        made[record["id"]] = record["translation"]
    lacking = [name for name in wanted if name not in made]
    if lacking:
        raise InputError(
            f"{path}: {len(lacking)} of {len(wanted)} texts have no translation to "
            f"{section.target_language}; the first is {lacking[0]!r}. Add a line for each. An "
            "empty translation means that the system could not translate the text"
        )
    return made


def program_of(llm: LlmSettings, section: TranslateSection) -> list[str]:
    """Return the command of a translator, with the languages' codes filled in."""
    languages = {"source": section.source_language, "target": section.target_language}
    codes = {name: llm.language_codes.get(one, one) for name, one in languages.items()}
    return [
        word.replace("{source}", codes["source"]).replace("{target}", codes["target"])
        for word in llm.command or ()
    ]


def run_program(
    llm: LlmSettings,
    texts: Sequence[str],
    section: TranslateSection,
    check_stop: Callable[[], None],
) -> list[str]:
    """Translate texts with one process: each line of a text is a line of its input and output.

    Blank lines are not sent. Raises InputError if the program is missing, fails, or writes another
    number of lines or bytes that are not UTF-8.
    """
    command = program_of(llm, section)
    where = f"language model {llm.model!r}: {command[0]}"
    if shutil.which(command[0]) is None:
        raise InputError(f"{where}: no such program on PATH; install it or correct `command`")
    by_text = [text.splitlines() for text in texts]
    lines = [" ".join(line.split()) for of_text in by_text for line in of_text if line.strip()]
    with TemporaryFile() as sent, TemporaryFile() as out, TemporaryFile() as err:
        sent.write("".join(f"{line}\n" for line in lines).encode())
        sent.seek(0)
        process = subprocess.Popen(
            command, stdin=sent, stdout=out, stderr=err, start_new_session=True
        )
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_S)
                check_stop()
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        err.seek(0)
        written = out.read().removesuffix(b"\n").split(b"\n")
        messages = one_line(err.read().decode(errors="replace"), ERROR_CHARS)
    if process.returncode:
        raise InputError(f"{where} ended with exit code {process.returncode}: {messages}")
    if len(written) != len(lines):
        raise InputError(
            f"{where} wrote {len(written):,} lines for {len(lines):,} lines of text; it has to "
            f"write one line for each, in order. {messages}".rstrip()
        )
    try:
        translated = iter([line.decode() for line in written])
    except UnicodeDecodeError as error:
        shown = error.object.decode(errors="backslashreplace")
        raise InputError(
            f"{where} wrote a line that is not UTF-8: {one_line(shown, ERROR_CHARS)}. Set its "
            "encoding, e.g. with `command: [env, LC_ALL=C.UTF-8, ...]`"
        ) from None
    return [
        "\n".join(next(translated) if line.strip() else "" for line in of_text)
        for of_text in by_text
    ]
