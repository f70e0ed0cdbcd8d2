#!/usr/bin/env bash
# Shell scripts pass shellcheck, Python scripts compile. usage: scripts.sh ROOT
set -euo pipefail
cd "$1"

# The files whose first line names the interpreter $1.
scripts_of() {
	tests/lint/files.sh '*' | while IFS= read -r -d '' file; do
		case $(head -c 64 "$file" | tr -d '\0' | head -n 1) in
		'#!'*"$1"*) printf '%s\0' "$file" ;;
		esac
	done
}

scripts_of bash | xargs -0 -r shellcheck
{ tests/lint/files.sh '*.py' && scripts_of python3; } | xargs -0 -r /usr/bin/python3 -c '
import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name).read(), name)'
