#!/usr/bin/env bash
# Runs the tests of the packages that import a changed package, directly or transitively,
# without the race detector and with its samples. Changes are those since the branch left the
# main one, and uncommitted ones. QUICK_BASE names another commit. Called by make with the go
# command.
set -euo pipefail
cd "$(dirname "$0")/.."

go=$1
base=${QUICK_BASE:-}
if [[ -z $base ]]; then
	for main in origin/main origin/master main master; do
		if base=$(git merge-base HEAD "$main" 2>/dev/null); then
			break
		fi
	done
	if [[ -z $base || $(git rev-parse HEAD) == "$base" ]]; then
		base=HEAD
		if git diff --quiet HEAD && [[ -z $(git ls-files --others --exclude-standard) ]]; then
			base=HEAD~1 # No changes: use the last commit.
		fi
	fi
fi
changed=$({ git diff --name-only "$base" && git ls-files --others --exclude-standard; } | sort -u)

# The package of a file is the closest folder above it with Go files: testdata has none.
packages=()
while read -r file; do
	dir=$(dirname "$file")
	while [[ $dir == */testdata* || -z $(compgen -G "$dir/*.go") && $dir != . ]]; do
		dir=$(dirname "$dir")
	done
	packages+=("$dir")
done <<<"$changed"

module=$("$go" list -m)
mapfile -t tests < <("$go" list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./... |
	awk -v module="$module" -v changed="$(printf '%s\n' "${packages[@]}" | sort -u)" '
		BEGIN {
			n = split(changed, names, "\n")
			for (i = 1; i <= n; i++) is[names[i] == "." ? module : module "/" names[i]] = 1
			print module # The root package checks layers, sizes and pages of all.
		}
		$1 ~ /\.test$/ {
			for (i = 2; i <= NF; i++) if ($i in is) { print substr($1, 1, length($1) - 5); break }
		}' | sort -u)
echo "since $(git rev-parse --short "$base"): ${#tests[@]} packages depend on the changes"
exec scripts/suite.sh "$go" test -short "${tests[@]}"
