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

// Options say what the program brings along. Nil and every zero field work.
type Options struct {
	// Env looks up an environment variable; nil means os.LookupEnv.
	Env func(name string) (string, bool)
	// Needs are the keys, as events.clickhouse, below which variables must be set; one that
	// is named elsewhere and not set is as if nobody had named it. Nil is all of the file.
	Needs []string
	// APIs are the slugs the api of a provider may be; empty accepts every slug.
	APIs []string
	// Providers are the ids of the built-in providers, which a model may name
	// beside those of the file; empty accepts every id.
	Providers []string
	// Agents are those that the program brings along, valid and of different names. A file
	// may say where one is mounted, and override some of what it says about itself; those
	// it does not name are mounted at [DefaultMount].
	Agents []*agent.Agent
	// Workflows are the names of those that the program brings along, all different.
	Workflows []string
	// Catalog are those of Providers whose registration may leave out what it says where
	// and how models are called.
	Catalog []string
}

// exampleServer and exampleSingle are what a newcomer may begin with.
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

// Load reads a parley.yaml. The error is an [*Error] if the file was read, and
// otherwise says what to do; a file that is not there is [fs.ErrNotExist].
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

// Parse reads what a parley.yaml holds; file is its name in errors. The error is
// an [*Error].
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

// ParseSingle reads what the file of one agent holds; file is its name in errors,
// and the agent's if it has none. The error is an [*Error].
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
	// Nothing was written, so closing has nothing to report.
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("read %s: is a folder; name a file in it", file)
	}
	// One byte more tells a file that is too large.
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w; make the file readable, or name another one", err)
	}
	return src, nil
}
