"""The work of a config, with counts measured in the tables of earlier runs.

`plan` and `estimate` read results/ only through this module. The texts of a benchmark are counted
in its tables if these match the current sample, else in local files, else planned by the config.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from psibench.generate.base import GeneratedBenchmark
from psibench.generate.recipes import CANDIDATE_UNITS
from psibench.generate.sampling import is_current
from psibench.plan.sources import local_texts
from psibench.plan.texts import Texts, tokens_per_unit
from psibench.plan.work import ExpectedWork, Used
from psibench.tables.columns import read_columns
from psibench.tables.domains import OfDomain
from psibench.tables.schemas import CORPUS, QUERIES

if TYPE_CHECKING:
    from psibench.plan.plan import Plan

NOT_A_TABLE = (pl.exceptions.ColumnNotFoundError, pl.exceptions.ComputeError)


class MeasuredWork(ExpectedWork):
    """Counts from the tables of earlier runs; the number of jobs still depends on the config only.

    Parameters
    ----------
    results
        Folder of results; it need not exist.

    Raises
    ------
    InputError
        From every method that counts, if an existing table cannot be read.
    """

    def __init__(self, plan: "Plan", results: Path) -> None:
        super().__init__(plan)
        self.results = results

    # Texts

    def find_texts_before_filters(self, name: str, language: str) -> Texts | None:
        """Return the texts before any filter, from local files, else from the config."""
        planned = self.plan.named[name]
        if language in planned.native:
            tokenizer = self.plan.config.length_tokenizer
            local = local_texts(planned, language, length_tokenizer=tokenizer)
            if local is not None:
                return local
        return super().find_texts_before_filters(name, language)

    def _is_of_sample(self, name: str, language: str) -> bool:
        """Return False if a run sampled other documents than the config would sample now."""
        planned = self.plan.benchmarks[self.plan.named[name].base]
        if not isinstance(section := planned.section, GeneratedBenchmark):
            return True
        source = section.language if language in planned.translated else language
        for part, domains in planned.parts.get(source, {}).items():
            path = self.results / planned.id / "build" / f"{source}{part}" / "documents.parquet"
            for place in (planned.place(source, domain) for domain in domains):
                if path.is_file() and not is_current(
                    OfDomain(str(path), place.domain),
                    place.source,  # type: ignore[arg-type]
                    place.passages,
                    section.sample,
                    length_tokenizer=self.plan.config.length_tokenizer,
                ):
                    return False
        return True

    def find_texts_in_tables(self, name: str, language: str) -> Texts | None:
        """Count the texts in a benchmark's or view's tables; a view may use its benchmark's tables.

        None without tables, or if they belong to another sample than the config's.
        """
        planned = self.plan.named[name]
        if not self._is_of_sample(name, language):
            return None
        for one in dict.fromkeys((name, planned.base)):
            of_one = self.plan.named[one]
            corpora, queries = (
                [self.results.parent / path for path in of_one.tables(language, table)]
                for table in ("corpus", "queries")
            )
            if all(path.is_file() for path in (*corpora, *queries)):
                break
        else:
            return None
        lengths = Counter[float]()
        for path in corpora:
            lengths.update(read_columns(path, CORPUS, ["token_length"])["token_length"])
        asked = pl.concat(read_columns(path, QUERIES, ["text"])["text"] for path in queries)
        n_tokens = int(asked.str.len_chars().sum()) * tokens_per_unit("chars", language)
        n, by_length = len(asked), tuple(sorted(lengths.items()))
        return Texts(by_length, n, n_tokens / max(1, n), basis="tables")

    # Shares that filters keep, usage of tasks, encodings

    def kept_share(self, name: str, language: str, step: str) -> float | None:
        """Return the share of candidates that a step kept in a run; None before one."""
        planned = self.plan.benchmarks[name]
        paths = [
            self.results.parent / path
            for part in planned.parts[language]
            for path in planned.built(language, part, step, "flow")
        ]
        rows = _read(paths, ["unit", "step", "entered", "kept"])
        rows = rows.filter(pl.col("unit") == CANDIDATE_UNITS[planned.generated.recipe])
        if rows.is_empty():
            return None
        first, last = (pl.col("step") == end for end in (rows["step"].min(), rows["step"].max()))
        entered, kept = (
            int(rows.filter(first)["entered"].sum()),
            int(rows.filter(last)["kept"].sum()),
        )
        return kept / entered if entered else None

    def used(self, name: str, language: str, task: str) -> Used | None:
        """Return the usage of a task in a language by its finished jobs; None without any."""
        planned = self.plan.benchmarks[name]
        paths = [
            self.results.parent / path
            for part in planned.asked_in(task, language)
            for path in planned.built(language, part, task, "usage")
        ]
        is_complete = all(path.is_file() for path in paths)
        rows = _read(paths, ["model", "prompt_hash", "n_items", "input_tokens", "output_tokens"])
        if rows.is_empty() or not (n := int(rows["n_items"].sum())):
            return None
        asked = planned.tasks[task]
        model, prompt = self.plan.llms[asked.section.llm].model, asked.prompt
        same = (pl.col("model") == model) & (pl.col("prompt_hash") == (prompt and prompt.hash))
        is_of_sample = self._is_of_sample(name, language)
        return Used(
            tokens_in=int(rows["input_tokens"].sum()) / n,
            tokens_out=int(rows["output_tokens"].sum()) / n,
            items=n if is_complete and is_of_sample else None,
            answered=int(rows.filter(same)["n_items"].sum()) if is_of_sample else 0,
        )

    def is_encoded(self, name: str, model: str, language: str) -> bool:
        """Return whether the texts of the current sample are encoded."""
        path = self.results / name / "encodings" / model / f"{language}.parquet"
        return path.is_file() and self._is_of_sample(name, language)


def _read(paths: Iterable[Path], columns: list[str]) -> pl.DataFrame:
    """Read columns of the tables that exist and have them; a run may be writing the others."""
    frames = [pl.DataFrame(schema=dict.fromkeys(columns, pl.Null))]
    for path in paths:
        with suppress(FileNotFoundError, *NOT_A_TABLE):
            frames.append(pl.read_parquet(path, columns=columns))
    return pl.concat(frames, how="vertical_relaxed")
