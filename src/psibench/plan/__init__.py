"""The composed config and what follows from it: a run's plan, its paths, what a job is given."""
