#!/usr/bin/env bash
# No left-overs: notes to oneself, paths of one machine, sleeps in tests. usage: leftovers.sh ROOT
set -uo pipefail
cd "$1" || exit 1
bad=0

# refuse WHAT REGEX PATTERN…
refuse() {
	local what=$1 regex=$2
	shift 2
	if tests/lint/files.sh "$@" | grep -zvxF tests/lint/leftovers.sh | xargs -0 -r grep -nIE -e "$regex"; then
		echo "^ $what"
		bad=1
	fi
}

refuse "notes to oneself belong into issues" '\b(TODO|FIXME|XXX|HACK)\b' '*'
refuse "a path of one machine" '(^|[^A-Za-z0-9_])/(work|farm|root|home/[a-z]+)/' '*'
refuse "a test waits for a condition, never for a time" \
	'\b(u|nano)?sleep *\(|\btime\.sleep|^[[:space:]]*sleep [0-9.]' 'tests/*' 'client/*'
exit $bad
