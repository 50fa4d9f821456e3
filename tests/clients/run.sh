#!/bin/bash
# Clients that others wrote, against `ga serve`. Needs the network; nothing that is fetched stays in the tree.
# usage: run.sh GA [FOLDER [MODEL [ENCODER]]]   FOLDER keeps the virtual environments; MODEL generates, ENCODER embeds
set -u
here=$(cd "$(dirname "$0")" && pwd)
ga=$(realpath "${1:?usage: run.sh GA [FOLDER [MODEL [ENCODER]]]}")
folder=${2:-${TMPDIR:-/tmp}/ga-clients}
models=${GA_CACHE:-$HOME/.cache/ga}/models
model=${3:-$models/SmolLM2-135M-Instruct.Q4_1.gguf}
encoder=${4:-$models/all-MiniLM-L6-v2}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
failed=0
pids=()

end() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
}
trap end EXIT

# venv NAME PACKAGES...: one each, because clients pin versions of one another.
venv() {
  local at=$folder/$1
  shift
  [ -e "$at/.done" ] && return
  python3 -m venv "$at" && "$at/bin/pip" install -q "$@" && touch "$at/.done" || { echo "cannot install: $*" >&2; exit 1; }
}

# serve FILE OPTIONS...: starts a server, waits until it is ready, and sets `url`.
serve() {
  local log=$folder/$1.log
  shift
  "$ga" serve --port 0 "$@" >"$log" 2>&1 &
  pids+=($!)
  for _ in $(seq 150); do
    url=$(sed -n 's/^listening on \(http[^ ]*\) .*/\1/p' "$log")
    [ -n "$url" ] && return
    sleep 0.2
  done
  cat "$log" >&2
  exit 1
}

row() {
  echo "| $1 | $2 | $3 | ${4:-} |"
  [ "$3" = ok ] || failed=1
}

venv openai openai anthropic langchain-openai ollama
# litellm asks for the newest of all its dependencies; these are enough.
[ -e "$folder/litellm/.done" ] || { python3 -m venv "$folder/litellm" && "$folder/litellm/bin/pip" install -q --no-deps litellm; }
venv litellm 'openai<3' 'httpx[http2]' pydantic pydantic-settings python-dotenv tiktoken tokenizers jinja2 jsonschema click 'importlib-metadata<9' aiohttp requests fastuuid
venv lm-eval 'lm-eval[api]'

url=
if [ -e "$encoder" ]; then serve encoder -m "$encoder"; fi
export GA_ENCODER_URL=$url
serve model -m "$model" --alias model
export GA_URL=$url GA_MODEL_NAME=model
question="What is the capital of France?"
GA_SAID=$("$ga" run -q -m "$model" -n 24 --temp 0 "$question") || exit 1
GA_CONTINUED=$("$ga" run -q --no-template -m "$model" -n 24 --temp 0 "$question") || exit 1
export GA_SAID GA_CONTINUED

echo "| client | path | result | note |"
echo "|---|---|---|---|"
for client in openai anthropic ollama langchain litellm; do
  python=$folder/openai/bin/python
  [ $client = litellm ] && python=$folder/litellm/bin/python
  (cd "$here" && timeout 300 "$python" "${client}_client.py" 2>"$folder/$client.log") || { failed=1; cat "$folder/$client.log" >&2; }
done

# lm-eval: echo with the prompt's log-probabilities, token ids as prompts.
mkdir -p "$folder/task"
sed "s#GA_DATA#$here/lm_eval/ga_capitals.jsonl#" "$here/lm_eval/ga_capitals.yaml" >"$folder/task/ga_capitals.yaml"
if OPENAI_API_KEY=none HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 timeout 300 "$folder/lm-eval/bin/lm_eval" --model local-completions \
  --model_args "model=model,base_url=$url/v1/completions,num_concurrent=4,max_length=2048" --tasks ga_capitals --include_path "$folder/task" \
  --batch_size 1 >"$folder/lm-eval.log" 2>&1 && grep -q '|acc  *|[^|]*|  *1|' "$folder/lm-eval.log"; then
  row lm-eval local-completions ok "accuracy 1"
else
  row lm-eval local-completions FAILED "$folder/lm-eval.log"
fi

# promtool: vLLM's names have a colon, about which it complains; it must find nothing else.
if command -v promtool >/dev/null; then
  said=$(curl -s "$url/metrics" | sed 's/vllm:/vllm_/g' | promtool check metrics 2>&1) && row promtool "check metrics" ok "without the colon of vLLM's names" ||
    row promtool "check metrics" FAILED "$said"
else
  echo "| promtool | check metrics | skipped | install prometheus |"
fi

# llama.cpp's Python package reads what ga quantize and ga imatrix write.
venv gguf gguf numpy
if timeout 300 "$folder/gguf/bin/python" "$here/gguf_reader.py" "$ga" >"$folder/gguf.log" 2>&1; then
  row gguf "GGUFReader, dequantize" ok "16 types, an importance matrix"
else
  row gguf "GGUFReader, dequantize" FAILED "$folder/gguf.log"
fi

[ "${GA_LLAMA_TESTS:-1}" = 0 ] || "$here/llama_server.sh" "$ga" "$folder" "$model" "$encoder" || failed=1
exit $failed
