"""From a task's items to complete requests: one place, whoever asks or only counts."""

from collections.abc import Iterator

from psibench.config.llms import LlmSettings
from psibench.errors import InputError
from psibench.llm.prompts import Prompt
from psibench.llm.request import Request
from psibench.llm.tasks import LlmTask, LlmTaskSection, Tables, TaskItem


def requests_of(
    task: LlmTask, section: LlmTaskSection, prompt: Prompt, llm: LlmSettings, tables: Tables
) -> Iterator[tuple[TaskItem, Request]]:
    """Yield every item of a task with the request that asks about it, one by one, in order.

    Parameters
    ----------
    section
        The task's part of the benchmark's config.
    prompt
        The task's template.
    llm
        The language model that ``section.llm`` names.
    tables
        Of some documents: the tables the task reads.

    Raises
    ------
    InputError
        If the template is of another task, or its variables are not those the task fills in.
    """
    if prompt.task != task.template:
        raise InputError(
            f"prompt of task {prompt.task!r} given for task {task.template!r}; the header's key "
            "task has to name the task the template is used for"
        )
    sampling = llm.sampling.to_sampling()
    for item in task.items(tables, section):
        request = Request(
            model=llm.model,
            revision=llm.revision,
            messages=prompt.render(item.values),
            sampling=sampling,
            response=prompt.response,
            reply_format=llm.reply_format,
            sample=item.sample,
        )
        yield item, request
