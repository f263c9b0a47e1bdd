package main

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// mistakes lists wrong command lines, run in the folder of mistaken. SERVER responds 401 below /locked
// and 404 otherwise; NOBODY is an address without a listener.
const mistakes = `
parley sned http://NOBODY/agents/assistant/hello hi
parley bogus
parley log
parley log verfy
parley help bogus
parley serve --confg parley.yaml
parley serve parley.yaml
parley serve -x
parley dev --listen
parley dev --listen 5173
parley dev --listen 127.0.0.1:99999
parley dev hello
parley dev --model gpt-5
parley dev --model nobody/m
parley dev --model openai/gpt-5
parley dev --model anthropic/claude-opus-4-6
parley dev --model demo/parot
parley dev --config none.yaml
parley dev --config typo.yaml
parley dev --config keyless.yaml
parley dev --config several.yaml
parley dev --config tabs.yaml
parley dev --config empty.yaml
parley dev --data file --listen 127.0.0.1:0
parley serve --config open.yaml --log-format xml
parley serve --config bucket.yaml
parley serve --config variable.yaml
parley serve --config none.yaml
parley run
parley run none.yaml -m hi
parley run agent.yaml
parley run agent.yaml -m
parley run agent.yaml -m ''
parley run agent.yaml -m two words
parley run typo.yaml -m hi
parley run agent.yaml -m hi --id ' '
parley run agent.yaml -m hi --initial-data {name
parley run agent.yaml -m hi --data file
parley run unlisted.yaml -m hi
parley send
parley send http://NOBODY/agents/assistant/hello
parley send hello hi
parley send http://NOBODY/agents/assistant/hello two words
parley send http://NOBODY/agents/assistant/hello ''
parley send http://NOBODY/agents/assistant/hello hi
parley send https://SERVER/agents/assistant/hello hi
parley send http://SERVER/ hi
parley send http://SERVER/x ' '
parley send http://SERVER/agents/nobody/hello hi
parley send http://SERVER/locked/hello hi
parley send --token-env PARLEY_NONE http://SERVER/locked/hello hi
parley send --attach none.png http://SERVER/x hi
parley send --data {name http://SERVER/x hi
parley chat
parley chat none.yaml
parley chat ftp://SERVER/x
parley chat http://NOBODY/agents/assistant/hello
parley chat --id x http://SERVER/x
parley tail
parley tail http://SERVER/x
parley tail --offset 7 http://SERVER/x
parley signal http://SERVER/x approval
parley abort http://SERVER/x
parley abort http://NOBODY/x
parley runs start
parley runs start nightly --server SERVER
parley runs start nightly --server http://NOBODY
parley runs start http://SERVER/workflows/nightly
parley runs start http://SERVER/agents/nightly/x
parley runs start http://SERVER/workflows/nightly --input day
parley runs start http://SERVER/workflows/nightly --input @none.json
parley runs start --token-env PARLEY_NONE nightly
parley runs show
parley runs show 7
parley runs show run_01ARZ3NDEKTSV4RRFFQ69G5FAV --server http://NOBODY
parley runs show http://SERVER/locked/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV
parley runs follow http://SERVER/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV --offset 7
parley runs signal run_01ARZ3NDEKTSV4RRFFQ69G5FAV
parley runs abort run_01ARZ3NDEKTSV4RRFFQ69G5FAV two
parley runs stop run_01ARZ3NDEKTSV4RRFFQ69G5FAV
parley stats --since yesterday
parley stats --since 2h --until 3h
parley stats --file none.jsonl
parley stats --file agent.yaml
parley stats --config agent.yaml --data x
parley stats --clickhouse localhost
parley trace hello
parley trace --file empty.jsonl
parley trace sub_x --file empty.jsonl
parley log verify --data none
parley log verify --agent assistant
parley log verify --conv 12
parley log dump
parley log dump --data kept nothing
parley log dump --data kept --agent agent --id nobody
parley log repair --data kept --truncate
parley log verify --data file
parley outbox bogus
parley bucket check --data none
parley cluster status --config open.yaml
parley cluster certs
parley cluster drain
parley models openai
parley models --provider opnai
parley models check nobody/m
parley import flue
parley init
parley init --yaml --name A
parley completion tcsh
parley version 2
`

// mistaken creates a folder with the files of the command lines above.
func mistaken(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.WithoutKeys(t)
	for name, text := range map[string]string{
		"agent.yaml":    "model: demo/parrot\n",
		"unlisted.yaml": "model: anthropic/new\n",
		"typo.yaml":     "listn: 127.0.0.1:0\nagents:\n  echo: {mounts: [/agents/echo], model: demo/parrot}\n",
		"keyless.yaml":  "agents:\n  echo: {mounts: [/agents/echo], model: openai/gpt-5}\n",
		"several.yaml":  "listen: nowhere\nagents:\n  echo: {mounts: [agents/echo], modl: demo/parrot}\n",
		"tabs.yaml":     "agents:\n\techo: {model: demo/parrot}\n",
		"empty.yaml":    "",
		"open.yaml":     "listen: 127.0.0.1:0\nbucket: {dir: data}\nagents:\n  echo: {mounts: [/agents/echo], model: demo/parrot}\n",
		"bucket.yaml":   "bucket: {endpoint: s3.example.com}\nagents:\n  echo: {model: demo/parrot}\n",
		"variable.yaml": "auth: {bearerEnv: PARLEY_NONE}\nagents:\n  echo: {model: demo/parrot}\n",
		"file":          "x",
		"empty.jsonl":   "",
	} {
		clitest.Write(t, name, text)
	}
	if code, out, errOut := program.Output(t, "run", "agent.yaml", "-m", "hi", "--data", "kept", "--id", "c"); code != 0 {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
}

// lists matches long lists of commands, providers or kinds of keys, which grow and are tested
// elsewhere.
var lists = regexp.MustCompile(`(it has |use one of |keys are )(?:[^ ;]+, ){9,}[^ ;,]+(;|,|\n)`)

// words splits a command line at blanks; a quoted text is one word.
func words(line string) (list []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|\S+`).FindAllStringSubmatch(line, -1) {
		if strings.HasPrefix(m[0], "'") {
			list = append(list, m[1])
		} else {
			list = append(list, m[0])
		}
	}
	return list
}

// TestMistakes compares the output for wrong command lines with testdata/mistakes.txt, which is for
// review. Each output has a few lines, without a stack or the texts of a library, and ends with the
// exit code.
func TestMistakes(t *testing.T) {
	golden, err := filepath.Abs("testdata/mistakes.txt")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/locked") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	refusing := noderun.Refusing(t)
	hosts := strings.NewReplacer("SERVER", server.Listener.Addr().String(), "NOBODY", refusing)
	names := strings.NewReplacer(server.Listener.Addr().String(), "SERVER", refusing, "NOBODY")
	mistaken(t)
	var b strings.Builder
	count := 0
	for line := range strings.Lines(strings.TrimSpace(mistakes)) {
		line = strings.TrimSpace(line)
		args := words(hosts.Replace(line))[1:]
		code, out, errOut := program.Output(t, args...)
		fmt.Fprintf(&b, "$ %s\n%s[exit %d]\n\n", line, lists.ReplaceAllString(names.Replace(out+errOut), "$1…$2"), code)
		if count++; line == "parley log" {
			continue // it is a suggestion
		}
		if code == 0 || out != "" || !strings.HasPrefix(errOut, "parley: ") || strings.Count(errOut, "\n") > 8 {
			t.Errorf("%s: exit %d, %q, %q", line, code, out, errOut)
		}
	}
	if count < 60 {
		t.Errorf("only %d mistakes", count)
	}
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("output (-want +got), update with -rewrite:\n%s", d)
	}
}
