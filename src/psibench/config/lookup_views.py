"""What a workflow asks about the steps after the candidates, and about views of benchmarks."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.lookup_generation import GenerationLookup
from psibench.config.models import Model
from psibench.config.paths import REGISTRY
from psibench.config.registry import load_registry
from psibench.config.settings import Config
from psibench.config.views import CANDIDATES, RAW, evaluated_views, view_id, view_names
from psibench.errors import InputError
from psibench.filters.negatives import FinewebNegatives
from psibench.filters.verify import VerifyMargin
from psibench.llm.tasks import shard_names


class ViewLookup(GenerationLookup):
    """Answers about a config's filters, in order, and about the views they give.

    Attributes
    ----------
    recall_models
        Registry entries that recall possible false negatives, by id.

    Raises
    ------
    InputError
        If such a model is not known.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.recall_models: Mapping[str, Model] = dict(self._recall_entries())
        self._bases = {
            view_id(name, view): (name, view)
            for name, section in config.benchmarks.items()
            for view in view_names(section)
        }

    def having(self, key: str) -> list[str]:
        """List the benchmarks whose section has a key that is not null."""
        return [
            name
            for name, section in self.config.benchmarks.items()
            if getattr(section, key, None) is not None
        ]

    def studied(self) -> list[str]:
        """List the benchmarks whose filter can be studied: those with a panel of rerankers."""
        return [name for name in self.having("verify") if len(self.panel(name)) > 1]

    def encoded_as(self, name: str, language: str) -> str:
        """Return the benchmark or view whose encodings have all texts of another in a language.

        The raw view has those of a benchmark and of its tiny subset; all candidates are more.
        Translations have no views.
        """
        base, view = self._bases.get(name, (name, ""))
        if view == CANDIDATES or language in self.translated_languages(base):
            return name
        raw = view_id(base, RAW)
        return raw if raw in self._bases else base

    def encoded_before(self, name: str, language: str) -> list[str]:
        """List what shares texts with a benchmark or view and is encoded before it: none, or one.

        All candidates come after the benchmark's own encodings.
        """
        first = self.encoded_as(self.base(name), language)
        return [] if first == name else [first]

    def base(self, name: str) -> str:
        """Return the benchmark that a view is of; a benchmark's own name for itself."""
        return self._bases.get(name, (name, ""))[0]

    def views(self, view: str | None = None) -> list[str]:
        """List the ids of all views, or of those of one sort."""
        return [name for name, (_, sort) in self._bases.items() if view in (None, sort)]

    def evaluated(self) -> list[str]:
        """List the benchmarks, each followed by those of its views that have rows of their own."""
        names = []
        for name, section in self.config.benchmarks.items():
            names += [name, *(view_id(name, view) for view in evaluated_views(section))]
        return names

    def report_views(self) -> dict[str, dict[str, str]]:
        """Return the evaluated views of each benchmark that has some: sort -> id."""
        found: dict[str, dict[str, str]] = {}
        for name, (base, view) in self._bases.items():
            if view in evaluated_views(self.config.benchmarks[base]):
                found.setdefault(base, {})[view] = name
        return found

    def unit(self, name: str) -> str:
        """Return what a candidate of a benchmark is called in FLOW."""
        from psibench.generate.recipes import UNITS

        return UNITS[self.generated(name).recipe]

    def step(self, name: str, step: str) -> int:
        """Return the place of a step in FLOW."""
        from psibench.generate.recipes import place_of

        return place_of(self.generated(name), step)

    def counted(self, name: str, step: str) -> dict[str, Any]:
        """Return where a filter's counts go in FLOW: ``unit`` and ``step``."""
        return {"unit": self.unit(name), "step": self.step(name, step)}

    def left_before(self, step: str | None = None) -> Callable[[str], str]:
        """Return what names the table with the candidates of a benchmark that a filter is given.

        Without one: the table whose rows become the benchmark's queries. Before any filter it is
        the last writing task's.
        """
        from psibench.generate.recipes import TASKS

        def table(name: str) -> str:
            section = self.generated(name)
            passed = section.filters
            before = passed if step is None else passed[: passed.index(step)]
            return before[-1] if before else TASKS[section.recipe][-1].name

        return table

    def ledger_steps(self, name: str, table: str) -> list[str]:
        """List the steps that have a table ``dropped``, ``flow`` or ``usage``, in order.

        A filter asks nobody and has no usage; the sample has dropped documents alone.
        """
        from psibench.generate.recipes import steps_of

        section = self.generated(name)
        filters = (*section.filters, "false_negatives")
        steps = [s for s in steps_of(section) if table != "usage" or s not in filters]
        return (["documents"] if table == "dropped" else []) + steps

    def verification_files(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tables of one language that the report shows of its filters, by sort.

        ``labels`` are benchmark, lang and domains; they are returned with the paths: one of all
        domains, or a list of one of each.
        """
        section = self.generated(labels["benchmark"])
        build = "results/{benchmark}/build/{lang}".format(**labels)

        def of_domains(folder: str, table: str) -> list[str]:
            place = f"results/{labels['benchmark']}/{folder}/{labels['lang']}"
            return [f"{place}/{domain}/{table}.parquet" for domain in labels["domains"]]

        files: dict[str, Any] = dict(labels)
        whole = "results/{benchmark}".format(**labels)
        files |= {"flow": f"{whole}/flow.parquet", "dropped": f"{whole}/attrition.parquet"}
        files |= {"queries": of_domains("data", "queries"), "savings": []}
        if section.verify is not None:
            files["savings"].append(f"{build}/scoring_savings.parquet")
        if isinstance(section.verify, VerifyMargin):
            names = ("margin_table", "cell_table")
            files |= {name: f"{build}/{name}.parquet" for name in names}
        if section.grade is not None:
            files["savings"].append(f"{build}/grade.savings.parquet")
        if section.audit is not None:
            files["audit_table"] = f"{build}/audit_table.parquet"
        if section.false_negatives is not None:
            files["savings"].append(of_domains("build", "false_negatives.savings"))
            files["judgements"] = of_domains("data", "judgements")
        if section.mixtures is not None:
            files["mixture_cells"] = f"{build}/mixture_cells.parquet"
        return files

    def shards_of(self, name: str, task: str) -> list[str]:
        """List the shards of a task: those of the benchmark, one for audits and judges.

        They ask about hundreds of pairs where other tasks ask about all documents.
        """
        few = self.judging_kind(name, task) and not task.startswith("grade_")
        return shard_names(1 if few else self.generated(name).shards)

    def judging_kind(self, name: str, task: str) -> str | None:
        """Return what a judging task makes, grades or verdicts; None for a task that writes."""
        from psibench.generate.recipes import judging_of

        kinds = {one.name: one.kind for one in judging_of(self.generated(name))}
        return kinds.get(task)

    def recall_depth(self, name: str) -> int:
        """Return how many documents are recalled per query of a raw view."""
        return self.negatives(self.base(name)).recall.top_k

    def recall_mib(self, name: str) -> int:
        """Return the memory of a recall, MiB: 10 for each of the documents per query."""
        return 6000 + 10 * self.recall_depth(name)

    def judges(self, name: str) -> list[str]:
        """List the steps of a benchmark's judges of false negatives, in order."""
        from psibench.generate.recipes import judge_name

        section = self.negatives(name)
        if not isinstance(section, FinewebNegatives):
            return []
        return [judge_name(number) for number in range(1, len(section.judges) + 1)]

    def grade_params(self, name: str, task: str = "grade_rest") -> dict[str, Any]:
        """Return what of a benchmark's grades decides, its rule filled in: in the first no grade.

        The template decides what is asked, and nothing of what is made of it.
        """
        from psibench.generate.recipes import grade_rule

        section = self.generated(name)
        assert section.grade is not None
        later = {"min_grade", "min_lead"} if task == "grade_first" else set()
        dumped = section.grade.model_dump(mode="json", exclude={"prompt", *later})
        return dumped | {"rule": grade_rule(section)}

    def audit_params(self, name: str) -> dict[str, Any]:
        """Return what of a benchmark's audit decides what is asked, less the template."""
        section = self.generated(name).audit
        assert section is not None
        return section.model_dump(mode="json", exclude={"prompt"})

    def _recall_entries(self) -> Iterator[tuple[str, Model]]:
        known: dict[str, Model] = load_registry(REGISTRY) | self.config.registry
        for name, section in self.config.benchmarks.items():
            if not isinstance(section, GeneratedBenchmark) or section.false_negatives is None:
                continue
            model = section.false_negatives.recall.model
            if model not in known:
                raise InputError(
                    f"config key benchmarks.{name}.false_negatives.recall.model: unknown model "
                    f"{model!r}. Supported: {', '.join(sorted(known))}. Add an entry under "
                    "`registry:` for your own."
                )
            yield model, known[model]
