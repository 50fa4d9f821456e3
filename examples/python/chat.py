#!/usr/bin/env python3
"""A conversation with a model. Usage: chat.py MODEL.gguf [DEVICE]: each line is a message; an empty one, or the end, stops."""
import sys

import gpu_accel as ga


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    model = ga.Model(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "auto")
    messages = []
    for line in sys.stdin:
        if not line.strip():
            break
        messages.append({"role": "user", "content": line.strip()})
        answer = ""
        for piece in model.generate(model.chat_ids(messages), max_tokens=256):
            print(piece, end="", flush=True)
            answer += piece
        print()
        messages.append({"role": "assistant", "content": answer})


if __name__ == "__main__":
    main()
