#!/usr/bin/env bash
# Runs go test with its arguments, and prints the ten slowest packages at the
# end, or the failed ones.
set -uo pipefail

out=$(mktemp)
trap 'rm -f "$out"' EXIT

"$@" 2>&1 | tee "$out"
code=${PIPESTATUS[0]}
if ((code)); then
	echo 'failed:'
	grep -E '^(FAIL|panic:)' "$out" | sort -u
	exit "$code"
fi
echo 'the ten slowest packages:'
grep -E '^ok\s+\S+\s+[0-9.]+s' "$out" | sort -k3,3gr | sed -n 1,10p # head would end before sort and kill it by SIGPIPE
