"""`python -m models.slow_tokenizer DIRECTORY` writes a tokenizer of an older form as tokenizer.json has it.

A process of its own, since only transformers can read those, and the server's process is not to import it.
"""

import sys


def main() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1]).backend_tokenizer
    if not tokenizer.get_vocab_size(with_added_tokens=False):  # how it understands a directory without one
        sys.exit(f"no vocabulary in {sys.argv[1]}")
    sys.stdout.write(tokenizer.to_str())


if __name__ == "__main__":
    main()
