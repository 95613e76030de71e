"""What the campaign shares with the tests of models and servers."""

import sys
from pathlib import Path

for _folder in ("llm", "models"):
    sys.path.append(str(Path(__file__).parents[1] / _folder))
