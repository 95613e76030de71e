"""What surrounds jobs, here and on a cluster: log, locks, one head process at a time, none lost."""
