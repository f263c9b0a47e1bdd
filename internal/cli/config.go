package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/parleyrun/parley/internal/config"
)

const (
	// MountPath is where "parley dev" mounts its agent.
	MountPath = "/agents/assistant"
	// DefaultData is the data folder of "parley dev", DefaultConfig the file of "parley
	// serve".
	DefaultData   = "./.parley"
	DefaultConfig = "./parley.yaml"
	// DevEvents is the file of events in the data folder of "parley dev".
	DevEvents = "events.jsonl"
)

// check refuses agents that cannot be, before a command does anything.
func (p *Program) check() error {
	names := map[string]bool{}
	for _, a := range p.Agents {
		if err := a.Validate(); err != nil {
			return err
		}
		if names[a.Name] {
			return fmt.Errorf("two agents of the program are named %q; give each a name of its own", a.Name)
		}
		names[a.Name] = true
	}
	return nil
}

// ConfigOptions say what a configuration file may name.
func (p *Program) ConfigOptions() *config.Options {
	return &config.Options{
		Env: os.LookupEnv, Agents: p.Agents, Catalog: catalogProviders(),
		APIs:      append(protocols(), slices.Sorted(maps.Keys(p.Protocols))...),
		Providers: append(BuiltinProviders(), slices.Sorted(maps.Keys(p.Providers))...),
	}
}

// Config reads a configuration. A program with agents of its own needs none, unless
// somebody has named the file.
func (p *Program) Config(file string, named bool) (*config.Server, error) {
	conf, err := config.Load(file, p.ConfigOptions())
	if errors.Is(err, fs.ErrNotExist) && !named && len(p.Agents) > 0 {
		return config.Default(p.ConfigOptions())
	}
	return conf, err
}

// NewKey mints an idempotency key.
func NewKey() string { return ulid.Make().String() }
