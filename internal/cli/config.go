package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/config"
)

const (
	// MountPath is where "parley dev" mounts its agent.
	MountPath = "/agents/assistant"
	// DefaultConfig is the configuration file, and DefaultData the data folder where there
	// is none: see [Place].
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
	return p.checkWorkflows()
}

// checkWorkflows refuses workflows that are none, or of one name. An agent may have the name of a workflow.
func (p *Program) checkWorkflows() error {
	names := map[string]bool{}
	for i, w := range p.Workflows {
		at := fmt.Sprintf("Workflows[%d]", i)
		switch {
		case !given(w):
			return &agent.DefinitionError{Issues: []agent.Issue{{Path: at, Problem: "is nil; make it with agent.NewWorkflow"}}}
		case names[w.Name()]:
			return &agent.DefinitionError{Agent: w.Name(), Issues: []agent.Issue{{Path: at, Problem: "has the name of another workflow; give each a name of its own"}}}
		}
		names[w.Name()] = true
		if err := w.Definition().Validate(); err != nil {
			return err
		}
	}
	return nil
}

// given reports whether there is a workflow.
func given(w agent.AnyWorkflow) bool { return w != nil && !reflect.ValueOf(w).IsZero() }

// ConfigOptions say what a configuration file may name.
func (p *Program) ConfigOptions() *config.Options {
	return &config.Options{
		Env: os.LookupEnv, Agents: p.Agents, Workflows: p.OwnWorkflows(), Catalog: catalogProviders(),
		APIs:      append(protocols(), slices.Sorted(maps.Keys(p.Protocols))...),
		Providers: append(BuiltinProviders(), slices.Sorted(maps.Keys(p.Providers))...),
	}
}

// Config reads a configuration. A program with agents or workflows of its own needs none, unless
// somebody has named the file.
func (p *Program) Config(file string, named bool) (*config.Server, error) {
	conf, err := config.Load(file, p.ConfigOptions())
	if errors.Is(err, fs.ErrNotExist) && !named && p.Brings() {
		return config.Default(p.ConfigOptions())
	}
	return conf, err
}

// Place is where a command finds conversations, agents and events: at --data or --config if
// somebody has named one, or else at ./parley.yaml, or else in ./.parley, where "parley dev"
// keeps them. All commands look there but "parley run" of a file.
type Place struct {
	program *Program
	// File and Data are the flags; they exclude each other.
	File, Data string
}

// NewPlace returns a place that the flags of a command name; what is what the command seeks
// there. Without data it has no flag --data.
func NewPlace(p *Program, cmd *cobra.Command, what string, data bool) *Place {
	at := &Place{program: p}
	cmd.Flags().StringVar(&at.File, "config", "", "the configuration file that names "+what+" (default "+DefaultConfig+" if it is there)")
	if data {
		cmd.Flags().StringVar(&at.Data, "data", "", "the data folder, in place of a configuration file (default "+DefaultData+" if there is none)")
		cmd.MarkFlagsMutuallyExclusive("config", "data")
	}
	return at
}

// Discovered is the configuration file that nobody has named, "" without one.
func Discovered() string {
	if _, err := os.Stat(DefaultConfig); err == nil {
		return DefaultConfig
	}
	return ""
}

// Find reads what is there: a configuration with its file, or a folder alone, whose file is "".
// needs are the keys of the configuration below which variables must be set.
func (at *Place) Find(needs ...string) (conf *config.Server, file string, err error) {
	file = at.File
	switch {
	case at.Data != "":
		return &config.Server{Bucket: config.Bucket{Dir: at.Data}}, "", nil
	case file == "":
		file = Discovered()
	}
	if file != "" {
		opts := at.program.ConfigOptions()
		opts.Needs = append([]string{}, needs...)
		conf, err = config.Load(file, opts)
		// A server has not run by that file yet, and "parley dev" may have.
		if err == nil && at.File == "" && conf.Bucket.Dir != "" && !isDir(conf.Bucket.Dir) && isDir(DefaultData) {
			conf.Bucket.Dir = DefaultData
		}
		return conf, file, err
	}
	if !isDir(DefaultData) && at.program.Brings() {
		conf, err = config.Default(at.program.ConfigOptions())
		return conf, "", err
	}
	if !isDir(DefaultData) {
		return nil, "", &NowhereError{}
	}
	return &config.Server{Bucket: config.Bucket{Dir: DefaultData}}, "", nil
}

// NowhereError is a folder in which Parley has nothing.
type NowhereError struct{}

// Error implements error.
func (*NowhereError) Error() string {
	return "there is neither " + DefaultConfig + " nor " + DefaultData + " here; name a configuration file with --config or a data folder with --data, or begin with parley dev"
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// NewKey mints an idempotency key.
func NewKey() string { return ulid.Make().String() }
