package config

import (
	"fmt"
	"slices"

	"github.com/parleyrun/parley/agent"
)

// Default returns the configuration of a server without a parley.yaml, which requires agents of the
// program.
func Default(opts *Options) (*Server, error) { return Parse("parley.yaml", []byte("{}\n"), opts) }

// DefaultMount returns the mount of an agent of the program unless the file sets one.
func DefaultMount(agent string) string { return "/agents/" + agent }

// own returns a copy of an agent of the program by name.
func (r *reader) own(name string) (*agent.Agent, bool) {
	for _, a := range r.opts.Agents {
		if a.Name == name {
			c := *a
			return &c, true
		}
	}
	return nil, false
}

// overriding returns the keys with which a file may override an agent of the program: its mounts and
// limits, but not its parts.
func (r *reader) overriding(a *agent.Agent) []field {
	fields := r.definition(a)
	for i := range fields {
		f := &fields[i]
		read := f.read
		switch f.name {
		case "model":
			f.required = false
		case "fallbacks":
			f.read = func(v value) { a.Fallbacks = nil; read(v) }
		case "instructions":
			f.read = func(v value) {
				if read(v); v.node.kind == text && v.node.text != "" {
					a.InstructionsFunc = nil
				}
			}
		case "subagents", "initialData":
			f.read = func(v value) {
				r.blameKey(v, fault{"is defined by the program, which has this agent", "remove it"})
			}
		}
	}
	return fields
}

// complete adds the agents of the program that a file does not name, and the default mounts.
func (r *reader) complete(dst *[]Agent, agents *path) {
	for _, brought := range r.opts.Agents {
		i := slices.IndexFunc(*dst, func(a Agent) bool { return a.Agent.Name == brought.Name })
		if i < 0 {
			a, _ := r.own(brought.Name)
			*dst = append(*dst, Agent{Agent: a})
			i = len(*dst) - 1
		} else if _, ok := r.seen[agents.key(brought.Name).key("mounts").String()]; ok {
			continue
		}
		mount := DefaultMount(brought.Name)
		if other, ok := r.mounted[mount]; ok {
			r.blame(other, fault{
				fmt.Sprintf("%s is the mount of agent %s of the program", quote(mount), quote(brought.Name)),
				fmt.Sprintf("choose another path, or set the mounts of that one at agents.%s", brought.Name),
			})
			continue
		}
		(*dst)[i].Mounts = []string{mount}
	}
}
