"""A writer for the tests of kills: store answers FIRST, FIRST + 1, ... and print each once it is.

python answer_writer.py STORE FIRST LOG_BYTES
"""

import sys
from itertools import count

from llm_helpers import answer

from psibench.llm import answer_store


def main() -> None:
    folder, first, answer_store.LOG_BYTES = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with answer_store.AnswerStore(folder) as store:
        for number in count(first):
            store.add(answer(number))
            print(number, flush=True)


if __name__ == "__main__":
    main()
