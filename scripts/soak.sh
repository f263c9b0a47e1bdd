#!/usr/bin/env bash
# Runs the large volumes one after the other. It says first how long that takes, by what one
# of each has taken on two cores, and after each how long it took. Called by make with the go
# command; the volumes are variables of the Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."

go=$1
targets=$(grep -rhoE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz' . | wc -l)

# Milliseconds, what it is, and the command.
steps=(
	"$((SCHEDULES * @SIM@))|$SCHEDULES schedules of nodes|$go test -race -timeout 0 -run TestSimulation\$ ./actors -schedules $SCHEDULES"
	"$((LOGSCHEDULES * @LOG@))|$LOGSCHEDULES schedules of the log|$go test -timeout 0 -run TestLogSimulation\$ ./storage -logschedules $LOGSCHEDULES"
	"$((CYCLES * @KILL@))|$CYCLES cycles of the kill run|$go test -race -timeout 0 -v -run TestKillRun ./internal/killrun -cycles $CYCLES"
	"$((8 * 60000))|5 minutes of a cluster of 300 conversations|$go test -race -timeout 0 -v -run TestClusterRun ./internal/clusterrun -long"
	"$((2 * 21 * 60000))|15 minutes of attacks on one node, and on three|$go test -timeout 0 -v -run TestAttack ./internal/attackrun -long"
	"$((EVENTS * @EV@ / 1000))|$EVENTS events|$go test -timeout 0 -v -run TestEventsRun\$ ./internal/eventsrun -events $EVENTS"
	"$((CRASHES * @CRASH@))|$CRASHES crashes of the embedded bucket|$go test -race -timeout 0 -v -run TestCrashCycles ./storage/local -cycles $CRASHES"
	"$((targets * 70000))|$targets fuzz targets, $FUZZTIME each|scripts/fuzz.sh $go $FUZZTIME"
)

all=0
for step in "${steps[@]}"; do
	all=$((all + ${step%%|*}))
done
echo "about $((all / 60000)) minutes on two cores:"
for step in "${steps[@]}"; do
	IFS='|' read -r ms what _ <<<"$step"
	printf '%6d min  %s\n' $(((ms + 30000) / 60000)) "$what"
done
for step in "${steps[@]}"; do
	IFS='|' read -r _ what command <<<"$step"
	echo "$what: $command"
	began=$SECONDS
	$command
	echo "$what: $(((SECONDS - began + 30) / 60)) minutes"
done
