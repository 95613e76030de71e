"""The sub-commands of `psibench` by name."""

from psibench.commands.base import Command
from psibench.commands.check import CHECK
from psibench.commands.compare import COMPARE
from psibench.commands.efficiency import EFFICIENCY
from psibench.commands.estimate import ESTIMATE
from psibench.commands.export import EXPORT
from psibench.commands.models import MODELS
from psibench.commands.orphans import ORPHANS
from psibench.commands.plan import PLAN
from psibench.commands.prompts import PROMPTS_COMMAND
from psibench.commands.schema import SCHEMA
from psibench.commands.score import SCORE
from psibench.commands.show import SHOW

COMMANDS: dict[str, Command] = {
    "score": SCORE,
    "compare": COMPARE,
    "show": SHOW,
    "check": CHECK,
    "efficiency": EFFICIENCY,
    "estimate": ESTIMATE,
    "export": EXPORT,
    "models": MODELS,
    "orphans": ORPHANS,
    "plan": PLAN,
    "prompts": PROMPTS_COMMAND,
    "schema": SCHEMA,
}

__all__ = ["COMMANDS", "Command"]
