#!/usr/bin/env bash
# Prints the packages of the module that have files for a build tag, or, with a second
# argument, those with files whose names end in it. Called by make.
#
#   scripts/tagged.sh mutants            packages with files for the tag
#   scripts/tagged.sh mutants _test.go   packages with tests for it
set -euo pipefail
cd "$(dirname "$0")/.."

grep -rlE --include="*${2:-.go}" --exclude-dir=node_modules "^//go:build (.*[^!a-z])?$1\b" . | xargs -r -n1 dirname | sort -u
