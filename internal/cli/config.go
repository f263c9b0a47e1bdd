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
	// MountPath is the path at which "parley dev" mounts its agent.
	MountPath = "/agents/assistant"
	// DefaultData and DefaultConfig are the locations that [Place] falls back to.
	DefaultData   = "./.parley"
	DefaultConfig = "./parley.yaml"
	// DevEvents is the events file in the data folder of "parley dev".
	DevEvents = "events.jsonl"
)

// check validates the agents and workflows of the program before a command runs.
func (p *Program) check() error {
	names := map[string]bool{}
	for _, a := range p.Agents {
		if err := a.Validate(); err != nil {
			return err
		}
		if names[a.Name] {
			return fmt.Errorf("two agents of the program are named %q; rename one of them", a.Name)
		}
		names[a.Name] = true
	}
	return p.checkWorkflows()
}

// checkWorkflows rejects nil workflows and duplicate names. An agent and a workflow may share a name.
func (p *Program) checkWorkflows() error {
	names := map[string]bool{}
	for i, w := range p.Workflows {
		at := fmt.Sprintf("Workflows[%d]", i)
		switch {
		case !given(w):
			return &agent.DefinitionError{Issues: []agent.Issue{{Path: at, Problem: "is nil; make it with agent.NewWorkflow"}}}
		case names[w.Name()]:
			return &agent.DefinitionError{Agent: w.Name(), Issues: []agent.Issue{{Path: at, Problem: "has the name of another workflow; rename one of them"}}}
		}
		names[w.Name()] = true
		if err := w.Definition().Validate(); err != nil {
			return err
		}
	}
	return nil
}

// given reports whether w is neither nil nor zero.
func given(w agent.AnyWorkflow) bool { return w != nil && !reflect.ValueOf(w).IsZero() }

// ConfigOptions returns the protocols and providers that a configuration file may name.
func (p *Program) ConfigOptions() *config.Options {
	return &config.Options{
		Env: os.LookupEnv, Agents: p.Agents, Workflows: p.OwnWorkflows(), Catalog: catalogProviders(),
		APIs:      append(protocols(), slices.Sorted(maps.Keys(p.Protocols))...),
		Providers: append(BuiltinProviders(), slices.Sorted(maps.Keys(p.Providers))...),
	}
}

// Config reads a configuration. If the file was not named explicitly, it may be missing in a program
// with agents or workflows of its own.
func (p *Program) Config(file string, named bool) (*config.Server, error) {
	conf, err := config.Load(file, p.ConfigOptions())
	if errors.Is(err, fs.ErrNotExist) && !named && p.HasOwn() {
		return config.Default(p.ConfigOptions())
	}
	return conf, err
}

// Place locates conversations, agents and events for a command. It uses --data or --config if set,
// then ./parley.yaml, then ./.parley, the default folder of "parley dev". All commands use it except
// "parley run" with a file.
type Place struct {
	program *Program
	// File and Data are the values of --config and --data, which exclude each other.
	File, Data string
}

// NewPlace adds the flags of a place to a command. The help of the flags describes the content as
// what. If data is false, the command has no flag --data.
func NewPlace(p *Program, cmd *cobra.Command, desc string, data bool) *Place {
	at := &Place{program: p}
	cmd.Flags().StringVar(&at.File, "config", "", "the configuration file with "+desc+" (default "+DefaultConfig+" if it exists)")
	if data {
		cmd.Flags().StringVar(&at.Data, "data", "", "the data folder, instead of a configuration file (default "+DefaultData+" if there is none)")
		cmd.MarkFlagsMutuallyExclusive("config", "data")
	}
	return at
}

// Discovered returns ./parley.yaml if it exists, otherwise "".
func Discovered() string {
	if _, err := os.Stat(DefaultConfig); err == nil {
		return DefaultConfig
	}
	return ""
}

// Find reads the configuration and returns its file name, which is "" for a data folder alone. needs
// lists the configuration keys below which environment variables must be set.
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
		// No server has used this configuration yet, but "parley dev" may have created its folder.
		if err == nil && at.File == "" && conf.Bucket.Dir != "" && !isDir(conf.Bucket.Dir) && isDir(DefaultData) {
			conf.Bucket.Dir = DefaultData
		}
		return conf, file, err
	}
	if !isDir(DefaultData) && at.program.HasOwn() {
		conf, err = config.Default(at.program.ConfigOptions())
		return conf, "", err
	}
	if !isDir(DefaultData) {
		return nil, "", &NowhereError{}
	}
	return &config.Server{Bucket: config.Bucket{Dir: DefaultData}}, "", nil
}

// NowhereError reports a working directory with neither a configuration file nor a data folder.
type NowhereError struct{}

// Error implements error.
func (*NowhereError) Error() string {
	return "found neither " + DefaultConfig + " nor " + DefaultData + "; name a configuration file with --config or a data folder with --data, or begin with parley dev"
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// NewKey returns a new idempotency key.
func NewKey() string { return ulid.Make().String() }
