package cli

import (
	"os"

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

// ConfigOptions say what a configuration file may name.
func ConfigOptions() *config.Options {
	return &config.Options{Env: os.LookupEnv, APIs: protocols(), Providers: BuiltinProviders(), Catalog: catalogProviders()}
}

// NewKey mints an idempotency key.
func NewKey() string { return ulid.Make().String() }
