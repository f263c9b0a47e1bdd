package cli_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/providers"
)

// A start decodes the catalog only if an agent uses a model of it. The test measures allocations in a
// process of its own because other tests here decode the catalog: decoding takes several megabytes,
// the rest about 0.1 MB.
// covers: providers/116
func TestStartLeavesTheCatalogPacked(t *testing.T) {
	const child, enough = "PARLEY_TEST_PACKED", 1 << 20
	if os.Getenv(child) == "" {
		clitest.WithoutKeys(t)
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStartLeavesTheCatalogPacked$", "-test.count=1")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	allocated := func(spec string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		(&cli.Program{}).ConfigOptions()
		reg, err := (&cli.Program{}).NewProviders(0, os.Getenv, map[string]providers.Registration{
			"own": {API: "openai-completions", BaseURL: "http://own/v1"}, "groq": {},
		})
		if err != nil {
			t.Fatal(err)
		}
		reg.Secrets()
		if err := cli.CheckModel(reg, spec, ""); err != nil {
			t.Error(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for _, spec := range []string{cli.DemoModel, "own/m"} {
		if got := allocated(spec); got > enough {
			t.Errorf("a start with %s allocates %d bytes", spec, got)
		}
	}
	t.Setenv("GROQ_API_KEY", "k")
	if got := allocated("groq/new"); got < enough {
		t.Errorf("a start with a model of the catalog allocates %d bytes alone: nothing is seen here", got)
	}
}
