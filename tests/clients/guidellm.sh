#!/bin/bash
# guidellm as load against `ga serve`, for a minute. Needs the network; nothing that is fetched stays in the tree.
# usage: guidellm.sh GA [FOLDER [MODEL [TOKENIZER]]]   TOKENIZER: a folder of Hugging Face, with which guidellm counts tokens of prompts
set -u
ga=$(realpath "${1:?usage: guidellm.sh GA [FOLDER [MODEL [TOKENIZER]]]}")
folder=${2:-${TMPDIR:-/tmp}/ga-clients}
models=${GA_CACHE:-$HOME/.cache/ga}/models
model=${3:-$models/SmolLM2-135M-Instruct.Q4_1.gguf}
tokenizer=${4:-$models/all-MiniLM-L6-v2}
version=0.8.1
mkdir -p "$folder"
if [ ! -e "$folder/guidellm/.done" ]; then
  python3 -m venv "$folder/guidellm" && "$folder/guidellm/bin/pip" install -q "guidellm==$version" && touch "$folder/guidellm/.done" || exit 1
fi
log=$folder/guidellm-serve.log
"$ga" serve -m "$model" --alias model --port 0 >"$log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null' EXIT
for _ in $(seq 300); do
  url=$(sed -n 's/^listening on \(http[^ ]*\) .*/\1/p' "$log")
  [ -n "$url" ] && break
  sleep 0.2
done
[ -n "$url" ] || { cat "$log" >&2; exit 1; }
HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 timeout 900 "$folder/guidellm/bin/guidellm" run --disable-progress \
  --backend "kind=openai_http,target=$url,model=model" --profile "kind=concurrent,streams=${GA_LOAD_STREAMS:-4}" \
  --constraint "kind=max_duration,seconds=${GA_LOAD_SECONDS:-60}" --tokenizer "kind=hf_auto,model=$tokenizer" \
  --data kind=synthetic_text,prompt_tokens=64,output_tokens=32 --output "kind=json,path=$folder/guidellm.json" >"$folder/guidellm.log" 2>&1
rc=$?
[ $rc = 0 ] || { tail -30 "$folder/guidellm.log" >&2; exit 1; }
python3 - "$folder/guidellm.json" <<'PYTHON'
import json
import sys

with open(sys.argv[1]) as f:
    run = json.load(f)["benchmarks"][0]
m = run["metrics"]
counts = m["request_totals"]
print("| client | requests that ended, failed, were cut off by the end | output tokens/s | TTFT median, p99 (ms) | ITL median, p99 (ms) |")


def ms(name):
    p = m[name]["successful"]
    return f"{p['median']:.0f}, {p['percentiles']['p99']:.0f}"


print(f"| guidellm | {counts['successful']}, {counts['errored']}, {counts['incomplete']} | {m['output_tokens_per_second']['successful']['mean']:.1f} | "
      f"{ms('time_to_first_token_ms')} | {ms('inter_token_latency_ms')} |")
sys.exit(0 if counts["successful"] and not counts["errored"] else 1)
PYTHON
