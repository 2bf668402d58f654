"""A checkpoint as llama.cpp reads it, put into its directory `llama/`: text.gguf and mmproj.gguf, bfloat16.

    benchmarks/.peers/llama-server/bin/python benchmarks/convert_llama.py CHECKPOINT

Runs in the environment of the peer, by its own converter. That knows tokenizers by a hash of what they make
of a sample text; those of `benchmarks.checkpoint` split text as Qwen2's does, so that is what it is told.
"""

import runpy
import sys
from pathlib import Path

SOURCE = Path(__file__).parent / ".peers" / "llama-server" / "source"


def main(checkpoint: Path) -> None:
    sys.path[:0] = [str(SOURCE), str(SOURCE / "gguf-py")]
    from conversion.base import TextModel  # pyright: ignore[reportMissingImports]

    TextModel.get_vocab_base_pre = lambda self, tokenizer: "qwen2"
    target = checkpoint / "llama"
    target.mkdir(exist_ok=True)
    script = str(SOURCE / "convert_hf_to_gguf.py")
    for name, more in {"mmproj": ["--mmproj"], "text": []}.items():
        unfinished = target / f"{name}.part"
        sys.argv = [script, str(checkpoint), "--outtype", "bf16", "--outfile", str(unfinished), *more]
        runpy.run_path(script, run_name="__main__")
        unfinished.rename(target / f"{name}.gguf")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
