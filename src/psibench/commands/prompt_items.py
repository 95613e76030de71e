"""One item of a task, found in the tables made so far, and the messages a model gets for it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from psibench.config.corpora import POOLED
from psibench.config.lookup_translation import TranslationLookup
from psibench.errors import InputError
from psibench.llm.prompts import load_prompt
from psibench.llm.request import Request
from psibench.llm.tasks import TaskItem
from psibench.stages.llm_ask import read_task_tables
from psibench.stages.llm_requests import requests_of
from psibench.tables.domains import TablePath, domain_table
from psibench.translate.quality import JUDGE_TRANSLATION

EXAMPLES = 3
Place = tuple[str, str]
"""Language and domain; of a translation, the language translated to."""


def render_item(
    lookup: TranslationLookup,
    name: str,
    task: str,
    item_id: str,
    *,
    language: str | None,
    domain: str | None,
    config: Path | None,
) -> str:
    """Return the messages of one item, each under its role.

    It is looked for in every language and domain whose tables are there.

    Parameters
    ----------
    language, domain
        Look there alone; None for all.
    config
        The user's config, named in the command that makes missing tables.

    Raises
    ------
    InputError
        If no table is there yet, no item has the id, or those of several places have it.
    """
    places = _places(lookup, name, task, language, domain)
    tables = {place: _tables(lookup, name, task, place) for place in places}
    there = [place for place in places if not _missing(tables[place])]
    if not there:
        raise InputError(_not_made(task, _missing(tables[places[0]]), config, len(places)))
    found: dict[Place, str] = {}
    known: list[str] = []
    for place in there:
        for item, request in _requests(lookup, name, task, place, tables[place]):
            known.append(item.id)
            if item.id == item_id:
                found[place] = _rendered(request)
                break
    if len(found) == 1:
        return next(iter(found.values()))
    unmade = len(places) - len(there)
    raise InputError(f"{task} of {name}: {_not_one(item_id, list(found), known, unmade)}")


def _not_one(item_id: str, found: list[Place], known: list[str], unmade: int) -> str:
    """Say that several places have an item, or none has it."""
    if found:
        named = ", ".join("/".join(place) for place in found)
        return f"{item_id!r} is in {named}: choose with --language or --domain"
    examples = ", ".join(known[:EXAMPLES]) or "none, the tables hold nothing to ask about"
    more = f"; the tables of {unmade} more domains are not made yet" if unmade else ""
    return f"no item {item_id!r} among {len(known):,}; some ids: {examples}{more}"


def _places(
    lookup: TranslationLookup, name: str, task: str, language: str | None, domain: str | None
) -> list[Place]:
    """List where a task is asked, in order: those wanted."""
    if task == JUDGE_TRANSLATION.name:
        every = [(own, POOLED) for own in lookup.translated_languages(name)]
    elif task in lookup.translation_tasks(name):
        every = [
            (own, at)
            for own in lookup.translated_languages(name)
            for at in lookup.domains_in(name, own)
        ]
    else:
        every = [(place.language, place.domain) for place in lookup.places(name)]
    wanted = [
        place for place in every if language in (None, place[0]) and domain in (None, place[1])
    ]
    if not wanted:
        asked = "/".join(filter(None, (language, domain)))
        some = ", ".join("/".join(place) for place in every[:EXAMPLES])
        raise InputError(
            f"{task} of {name}: nothing is asked in {asked}; there are {len(every)} languages and "
            f"domains, such as {some}"
        )
    return wanted


def _tables(lookup: TranslationLookup, name: str, task: str, place: Place) -> dict[str, TablePath]:
    language, domain = place
    number = lookup.task_domains(name, task, language).index(domain)
    given = lookup.task_tables(name, task, language)
    return {read: domain_table(path, domain, number) for read, path in given.items()}


def _requests(
    lookup: TranslationLookup, name: str, task: str, place: Place, tables: Mapping[str, TablePath]
) -> Iterator[tuple[TaskItem, Request]]:
    own, section = lookup.task(name, task), lookup.task_section(name, task, place[0])
    prompt, llm = load_prompt(lookup.prompt(name, task)), lookup.llm_of(name, task)
    return requests_of(own, section, prompt, llm, read_task_tables(own, tables))


def _rendered(request: Request) -> str:
    return "\n\n".join(f"## {message.role}\n{message.content}" for message in request.messages)


def _missing(paths: Mapping[str, TablePath]) -> list[str]:
    return [str(path) for path in paths.values() if not Path(path).is_file()]


def _not_made(task: str, missing: list[str], config: Path | None, n_places: int) -> str:
    """Say which tables an item is made of, and how to make them."""
    given = "" if config is None else f" --configfile {config}"
    others = f" (and those of {n_places - 1} other languages and domains)" if n_places > 1 else ""
    return (
        f"{task} reads {', '.join(missing)}{others}: not made yet. Make it with `snakemake "
        f"--profile profiles/local{given} {' '.join(missing)}`"
    )
