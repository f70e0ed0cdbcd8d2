#!/usr/bin/env bash
# What libsegar shows to programs is what segar.h declares: no name more, no name less, in C and in C++.
# usage: exports.sh HEADER LIBRARY.so LIBRARY.a
set -euo pipefail
header=$1 shared=$2 static=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

grep -oE '\bsegar_[a-z_]+\(' "$header" | tr -d '(' | sort -u >"$folder/declared"
nm -D --defined-only "$shared" | awk '$2 ~ /[A-Z]/ { print $3 }' | sort -u >"$folder/shared"
nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | sort -u >"$folder/static"
for library in shared static; do
	# What a sanitizer or a coverage build adds is not ours.
	grep -vE '^(__|_?gcov|mangle_path)' "$folder/$library" >"$folder/exported"
	diff -u "$folder/declared" "$folder/exported"
done

# clang reads C++ without a C++ library; gcc would want g++.
printf '#include "%s"\nsegar_options options = SEGAR_OPTIONS;\n' "$header" >"$folder/use.c"
for compiler in "cc -x c" "clang -x c -std=c99" "clang -x c++"; do
	$compiler -Wall -Wextra -pedantic -Werror -fsyntax-only "$folder/use.c"
done
