#!/usr/bin/env bash
# Prints what go test needs to run the volumes: the tests of every file that asks for a
# sample of one under the race detector, as -run, and their packages. Called by make.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t files < <(grep -rl --include='*_test.go' --exclude-dir=node_modules '\bsample\.Of\b' .)
tests=$(sed -nE 's/^func (Test[A-Za-z0-9_]*)\(.*/\1/p' "${files[@]}" | paste -sd'|')
echo "-run" "^($tests)\$" $(dirname "${files[@]}" | sort -u)
