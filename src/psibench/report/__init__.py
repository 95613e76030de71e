"""The report: one self-contained HTML page about a PSI table and where its numbers come from."""

from psibench.report.html import render_report, write_report
from psibench.report.inputs import BenchmarkInfo, ModelInfo, ReportInput

__all__ = ["BenchmarkInfo", "ModelInfo", "ReportInput", "render_report", "write_report"]
