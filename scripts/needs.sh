#!/usr/bin/env bash
# Lists the programs missing for the tests, with a remedy for each. Called by make
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

if ! command -v git >/dev/null; then
	lacks "git is missing, needed to find changes: apt-get install git"
fi

# CC may carry flags: the compiler is its first word.
cc=${cc%% *}
if ! command -v "$cc" >/dev/null; then
	lacks "the C compiler $cc is missing, needed by the race detector: apt-get install gcc libc6-dev, or set another one with CC="
elif [[ ${CGO_ENABLED:-1} == 0 ]]; then
	lacks "cgo is disabled, but the race detector needs it: unset CGO_ENABLED"
fi

# The suite in test/clients drives the server with the public TypeScript client.
# npm installs that client, the build tools of the console, and the ClickHouse engine in test/engine.
node_remedy="install Node.js 20.19 or later from https://nodejs.org, or with this system's package manager, and put its bin folder on PATH"
if ! command -v node >/dev/null; then
	lacks "node is missing, needed by the client suite: $node_remedy"
elif ! version=$(node --version); then
	lacks "node does not run: $node_remedy"
else
	major=${version#v}
	major=${major%%[!0-9]*}
	if [[ -z $major || $major -lt 20 ]]; then
		lacks "node is $version: $node_remedy"
	fi
fi
if ! command -v npm >/dev/null; then
	lacks "npm is missing, needed to install the client suite and the ClickHouse engine: it comes with Node.js from https://nodejs.org, or apt-get install npm"
fi

# The tests of the console use a real browser.
if ! command -v chromium-headless-shell >/dev/null && ! command -v chromium >/dev/null &&
	! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
	lacks "Chromium is missing, needed by the tests of the console: apt-get install chromium-headless-shell fonts-dejavu-core"
fi

# The tests read event streams through a real proxy.
if ! PATH=$PATH:/usr/sbin command -v nginx >/dev/null; then
	lacks "nginx is missing, needed by the tests of event streams: apt-get install nginx-light"
fi

# The ClickHouse engine of the tests is a library for one kind of machine; on others
# they need a server.
if [[ -z ${PARLEY_TEST_CLICKHOUSE:-} ]] && ! command -v clickhouse >/dev/null; then
	engine_remedy="put the program clickhouse on PATH, or set PARLEY_TEST_CLICKHOUSE to a server, as clickhouse://user:password@host:9000/?http_port=8123"
	if [[ $(uname -s)-$(uname -m) != Linux-x86_64 ]]; then
		lacks "the ClickHouse engine of the tests is for Linux on x86-64: $engine_remedy"
	elif ! getconf GNU_LIBC_VERSION >/dev/null 2>&1; then
		lacks "glibc is missing, needed by the ClickHouse engine of the tests: $engine_remedy"
	fi
fi

exit "$missing"
