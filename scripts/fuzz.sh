#!/usr/bin/env bash
# Fuzzes every fuzz target of the module, one after the other. Called by make with
# the go command and the time per target.
set -euo pipefail

go=$1
time=$2

for package in $("$go" list ./...); do
	targets=$("$go" test -list '^Fuzz' "$package" | grep '^Fuzz' || true)
	for target in $targets; do
		echo "fuzz $package $target"
		"$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 2s "$package"
	done
done
