package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/parleyrun/parley/agent"
)

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// Options describes the program. Nil and zero fields are valid.
type Options struct {
	// Env looks up an environment variable; nil means os.LookupEnv.
	Env func(name string) (string, bool)
	// Needs lists keys, such as events.clickhouse, below which named variables must be set. An unset
	// variable elsewhere is ignored. Nil means the whole file.
	Needs []string
	// APIs are the valid slugs for the api of a provider; empty accepts every slug.
	APIs []string
	// Providers are the ids of the built-in providers, which a model may name in addition to those of
	// the file; empty accepts every id.
	Providers []string
	// Agents are those of the program, valid and with different names. A file may mount one elsewhere
	// and override some of its fields. Those that the file does not name are mounted at
	// [DefaultMount].
	Agents []*agent.Agent
	// Workflows are the names of the program's workflows, all different.
	Workflows []string
	// Catalog lists the members of Providers whose registration may omit the settings of the catalog.
	Catalog []string
}

// exampleServer and exampleSingle are examples for new users.
const (
	exampleServer = `agents:
  echo:
    mounts: [/agents/echo]
    model: demo/parrot
    instructions: You are terse.
`
	exampleSingle = `model: demo/parrot
instructions: You are terse.
`
)

// Load reads a parley.yaml. The error is an [*Error] if the file was read. Otherwise it includes a
// remedy, and wraps [fs.ErrNotExist] for a missing file.
func Load(file string, opts *Options) (*Server, error) {
	src, err := read(file, exampleServer)
	if err != nil {
		return nil, err
	}
	return Parse(file, src, opts)
}

// LoadSingle reads the file of one agent. Its errors are those of Load.
func LoadSingle(file string, opts *Options) (*Single, error) {
	src, err := read(file, exampleSingle)
	if err != nil {
		return nil, err
	}
	return ParseSingle(file, src, opts)
}

// Parse parses the content of a parley.yaml; file is its name in errors. The error is an [*Error].
func Parse(file string, src []byte, opts *Options) (*Server, error) {
	r, root := newReader(file, src, opts, "agents")
	var s *Server
	if root != nil {
		s = r.server(value{node: root, line: 1, column: 1, example: "agents: {echo: {mounts: [/agents/echo], model: openai/gpt-5}}"})
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// ParseSingle parses the file of one agent. file is its name in errors, and the default for the
// agent's name. The error is an [*Error].
func ParseSingle(file string, src []byte, opts *Options) (*Single, error) {
	r, root := newReader(file, src, opts, "model")
	var s *Single
	if root != nil {
		s = r.single(value{node: root, line: 1, column: 1, example: "model: openai/gpt-5"})
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

func read(file, example string) (_ []byte, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w; name another file, or create it with, for example:\n\n%s", file, fs.ErrNotExist, example)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w; make the file readable, or name another one", err)
	}
	// read only
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("read %s: is a folder; name a file in it", file)
	}
	// One more byte detects a file that is too large.
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w; make the file readable, or name another one", err)
	}
	return src, nil
}
