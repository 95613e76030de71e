"""What can be said of a config whose files are not all there yet."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from psibench.config.lookup import Lookup
from psibench.config.models import Model
from psibench.config.settings import Config
from psibench.errors import InputError, MissingError, refuse


class Survey(Lookup):
    """A lookup that gathers what is missing or wrong with files and folders, and goes on.

    Of a benchmark whose release is missing, no language is known.

    Attributes
    ----------
    missing
        What is not there, and where the config names it.

    Raises
    ------
    InputError
        If something else is wrong than that files are missing; with all that is.
    """

    def __init__(self, config: Config, models: Mapping[str, Model]) -> None:
        self.missing: list[str] = []
        self._problems: list[str] = []
        try:
            super().__init__(config, models)
        except InputError as error:
            self._problems.append(str(error))
        refuse(self._problems)

    @contextmanager
    def _looking(self, where: str) -> Iterator[None]:
        try:
            with super()._looking(where):
                yield
        except MissingError as error:
            if str(error) not in self.missing:
                self.missing.append(str(error))
        except InputError as error:
            self._problems.append(str(error))
