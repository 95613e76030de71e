"""Aligned text tables, for commands that import them from here."""

from psibench.report.text_table import UNDEFINED as UNDEFINED
from psibench.report.text_table import TextForm as TextForm
from psibench.report.text_table import aligned as aligned
from psibench.report.text_table import frame_lines as frame_lines
