#!/usr/bin/env bash
# Sets the modification times of committed files and folders from their content, by the object
# ids of git. The test cache of the go command identifies the inputs of a test by time and size,
# and would run each test again in a new clone at the same path, although nothing changed. Files
# of npm keep their times, because make compares them. The script does nothing if the clone
# differs from the commit, or if touch cannot set the times. Called by .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."

# Files hidden by a user's ignore file count as differences, and so do files marked as unchanged.
if ! state=$(git -c core.excludesFile=/dev/null status --porcelain 2>/dev/null) || [[ -n $state ]] ||
	git ls-files -v | grep -qv '^H '; then
	exit 0
fi
git ls-tree -r -t -z HEAD | while IFS= read -r -d '' entry; do
	path=${entry#*$'\t'}
	id=${entry%%$'\t'*}
	id=${id##* }
	case $path in
	*package.json | *package-lock.json | *.npmrc) ;;
	# 56 bits of the id: 28 bits of seconds (1970 to 1978), and 28 bits of a fraction.
	*) touch -c -d "@$((16#${id:0:7})).$(printf %09d $((16#${id:7:7})))" -- "$path" 2>/dev/null || exit 0 ;;
	esac
done
