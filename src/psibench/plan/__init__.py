"""The merged config and the plan of a run: paths, parameters and resources of jobs, estimates."""
