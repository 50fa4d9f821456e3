#!/bin/sh
# Checks a CUDA row under the emulator: in full if its kernel has changed since it last passed in full (checked.py), else a sample of
# other draws. Without the list of changed rows every row is checked in full.
# Usage: check_row.sh GA_EMU CHANGED ID FULL SAMPLE, the last two in seconds of processor time
if [ ! -f "$2" ] || grep -q "^$3 " "$2"; then
  exec "$1" check --device emu -k "$3" -n 4 -s 1 --budget "$4" --timeout 300
fi
exec "$1" check --device emu -k "$3" -n 4 -s 3 --budget "$5" --timeout 300
