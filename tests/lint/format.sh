#!/usr/bin/env bash
# Every C file is as clang-format 14 writes it. usage: format.sh ROOT
set -euo pipefail
cd "$1"
format=$(command -v clang-format-14 || command -v clang-format) || { echo "clang-format 14 is missing"; exit 1; }
"$format" --version | grep -q 'version 14\.' || { echo "$format is not version 14"; exit 1; }
tests/lint/files.sh '*.c' '*.h' | xargs -0 -r "$format" --dry-run -Werror
