"""Logs, locks and stop signals of jobs and of the head process, on one machine or a cluster."""
