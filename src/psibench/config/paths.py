"""Where the shipped config files lie: beside the package, in the repository."""

from pathlib import Path

CONFIG_FOLDER = Path(__file__).resolve().parents[3] / "config"
DEFAULT_CONFIG = CONFIG_FOLDER / "config.yaml"
REGISTRY = CONFIG_FOLDER / "models.yaml"
SCHEMA = CONFIG_FOLDER / "schema.json"
