"""LLMLingua-2 as a compressor for `aac evaluate compaction --compressor`: lines of JSON in, lines of JSON out.

    pip install llmlingua
    aac evaluate compaction DIR --compressor "python3 examples/llmlingua2.py --model DIR_OR_HUB_NAME"

The weights are yours to bring: microsoft/llmlingua-2-xlm-roberta-large-meetingbank, say, or a folder with them.
A line asks {"text", "budget", "tokens", "tokenizer"}; the answer is {"text"} or {"error"}.
"""

import argparse
import json
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or hub name of the LLMLingua-2 weights")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    try:
        from llmlingua import PromptCompressor
    except ImportError as error:
        sys.exit(f"llmlingua2.py: {error}; install it with: pip install llmlingua")
    compressor = PromptCompressor(model_name=options.model, use_llmlingua2=True, device_map=options.device)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            # Its own tokenizer counts otherwise than ours, so what counts is the share.
            rate = min(1.0, asked["budget"] / max(1, asked["tokens"]))
            found = compressor.compress_prompt_llmlingua2(asked["text"], rate=rate, force_tokens=["\n"])
            answer = {"text": found["compressed_prompt"]}
        except Exception as error:  # One text that fails is no reason to lose the others.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
