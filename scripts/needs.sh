#!/usr/bin/env bash
# Says what the machine lacks to run the tests, and the remedy. Called by make
# with the go command. Exits 1 if something is missing.
set -euo pipefail

go=$1
missing=0

lacks() {
	echo "$*" >&2
	missing=1
}

cc=${CC:-gcc}
if ! command -v "$go" >/dev/null; then
	lacks "go is missing: install Go 1.26 or later from https://go.dev/dl and put its bin folder on PATH"
elif ! version=$("$go" env GOVERSION); then
	lacks "go does not run: reinstall Go 1.26 or later from https://go.dev/dl"
else
	minor=${version#go1.}
	minor=${minor%%[!0-9]*}
	if [[ $version == go1.* && -n $minor && $minor -lt 26 ]]; then
		lacks "go is $version: install Go 1.26 or later from https://go.dev/dl"
	fi
	cc=$("$go" env CC)
fi

# CC may carry flags: the compiler is its first word.
cc=${cc%% *}
if ! command -v "$cc" >/dev/null; then
	lacks "the C compiler $cc is missing, which the race detector needs: apt-get install gcc libc6-dev, or name another one with CC="
elif [[ ${CGO_ENABLED:-1} == 0 ]]; then
	lacks "cgo is switched off, which the race detector needs: unset CGO_ENABLED"
fi

# No test of today needs Node.js; the suite that drives the public client will.
if ! command -v node >/dev/null; then
	echo "note: node is not installed; nothing needs it yet (the client suite will need Node.js 20 or later)" >&2
fi

exit "$missing"
