#!/usr/bin/env bash
# Runs the large volumes one after the other. It first runs a fiftieth of each volume that has
# a number, and prints the expected duration of all. Called by make with the go command; the
# numbers are variables of the Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."

go=$1
part=50
targets=$(grep -rhE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz' . | wc -l)
seconds=0

# volumes calls timed, with a number, a label and a command that takes the number as last argument,
# and lasting, with the fixed duration of a command in seconds.
volumes() {
	local test=("$go" test -timeout 0) raced=("$go" test -timeout 0 -race -cpu 1) # see race in Makefile
	timed "$SCHEDULES" 'schedules of nodes' "${raced[@]}" -run 'TestSimulation$' ./actors -schedules
	lasting 120 'the tests of actors through the S3 client' "${test[@]}" ./actors -s3
	timed "$LOGSCHEDULES" 'schedules of the log' "${test[@]}" -run 'TestLogSimulation$' ./storage -logschedules
	lasting 600 'the models under more concurrent faults' "${test[@]}" ./internal/model -deep
	timed "$CYCLES" 'cycles of kills' "${raced[@]}" -v -run TestKillRun ./internal/killrun -cycles
	lasting 3780 'an hour of kills, every 3 seconds, over 64 conversations' "${test[@]}" -v -run 'TestKillLoop$' ./internal/killrun -loop 60m
	lasting 480 '5 minutes of a cluster of 300 conversations, and its audit' "${raced[@]}" -v -run TestClusterRun ./internal/clusterrun -long
	lasting 2520 '15 minutes of attacks on one node and on three, and their audits' "${test[@]}" -v -run TestAttack ./internal/attackrun -long
	lasting 300 'interoperability tests' "$go" -C test/interop test -count=1 ./...
	lasting 420 'the console: 25 crashes under an open page, a reply of 3 minutes, hostile messages' "${test[@]}" -v -run 'TestBrowser$' ./console -long
	timed "$EVENTS" events "${test[@]}" -v -run 'TestEventsRun$' ./internal/eventsrun -events
	timed "$CRASHES" 'crashes of the embedded bucket' "${raced[@]}" -v -run TestCrashCycles ./storage/local -cycles
	timed "$CORRUPTIONS" 'corruptions of data folders' "${test[@]}" -v -run 'TestRandomCorruption$' ./internal/cli/operator -corruptions
	lasting $((targets * (${FUZZTIME%m} * 60 + 10))) "$targets fuzz targets, $FUZZTIME each" scripts/fuzz.sh "$go" "$FUZZTIME"
}

plan() {
	seconds=$((seconds + $1))
	printf '%6d min  %s\n' $((($1 + 30) / 60)) "$2"
}

perform() {
	local what=$1 began=$SECONDS
	shift
	echo "$what: $*"
	"$@"
	echo "$what: took $(((SECONDS - began + 30) / 60)) min"
}

echo 'run a part of each volume to estimate the duration:'
timed() {
	local n=$1 what=$2 few=$((($1 + part - 1) / part)) began
	shift 2
	"$@" "$few" -run '^$' >/dev/null # Compile before the measurement.
	began=${EPOCHREALTIME/./}
	"$@" "$few" >/dev/null
	plan $(((${EPOCHREALTIME/./} - began) * n / few / 1000000)) "$n $what"
}
lasting() { plan "$1" "$2"; }
volumes
echo "about $(((seconds + 30) / 60)) minutes in all"

timed() {
	local n=$1 what=$2
	shift 2
	perform "$n $what" "$@" "$n"
}
lasting() {
	shift
	perform "$@"
}
volumes
