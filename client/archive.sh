#!/usr/bin/env bash
# Makes a static library whose only global names are those of segar.h.
# usage: archive.sh COMPILER… ARCHIVE OUTPUT FOLDER
set -euo pipefail
compiler=("${@:1:$#-3}")
shift $(($# - 3))
archive=$1 output=$2 folder=$3

mkdir -p "$folder"
"${compiler[@]}" -r -nostdlib -o "$folder/segar.o" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive
objcopy --localize-hidden "$folder/segar.o"
rm -f "$output"
ar rcsD "$output" "$folder/segar.o"
