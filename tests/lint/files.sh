#!/usr/bin/env bash
# Lists the project's own files, NUL-separated, as git patterns pick them; also in a tree without git.
# usage: files.sh PATTERN…
set -euo pipefail
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -z --cached --others --exclude-standard --deduplicate -- "$@"
else
	for pattern in "$@"; do
		find . -path './build*' -prune -o -type f -path "./$pattern" -print0
	done
fi | while IFS= read -r -d '' file; do
	[ ! -e "$file" ] || printf '%s\0' "$file"
done
