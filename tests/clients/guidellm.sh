#!/bin/bash
# guidellm as load against `ga serve`, for a minute. Needs the network; nothing that is fetched stays in the tree.
# usage: guidellm.sh GA [FOLDER [MODEL [PROCESSOR]]]   PROCESSOR: a folder with a tokenizer of Hugging Face, which counts the prompts' tokens
set -u
ga=$(realpath "${1:?usage: guidellm.sh GA [FOLDER [MODEL [PROCESSOR]]]}")
folder=${2:-${TMPDIR:-/tmp}/ga-clients}
models=${GA_CACHE:-$HOME/.cache/ga}/models
model=${3:-$models/SmolLM2-135M-Instruct.Q4_1.gguf}
processor=${4:-$models/all-MiniLM-L6-v2}
seconds=${GA_LOAD_SECONDS:-60}
streams=${GA_LOAD_STREAMS:-4}
