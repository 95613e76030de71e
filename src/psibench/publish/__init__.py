"""Benchmarks for other tools: layouts, the card, and a task for MTEB."""

from psibench.publish.mteb import mteb_task

__all__ = ["mteb_task"]
