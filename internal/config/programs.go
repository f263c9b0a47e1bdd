package config

import (
	"fmt"
	"slices"

	"github.com/parleyrun/parley/agent"
)

// Default is what a server without a parley.yaml does, which needs agents of the program.
func Default(opts *Options) (*Server, error) { return Parse("parley.yaml", []byte("{}\n"), opts) }

// DefaultMount is where an agent of the program is mounted of which the file says nothing
// else.
func DefaultMount(agent string) string { return "/agents/" + agent }

// own returns a copy of the agent that the program brings along by a name.
func (r *reader) own(name string) (*agent.Agent, bool) {
	for _, a := range r.opts.Agents {
		if a.Name == name {
			c := *a
			return &c, true
		}
	}
	return nil, false
}

// overriding is what a file may say about an agent of the program: where it is, and how
// much it may, but not what it is made of.
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
				r.blameKey(v, fault{"is for the program to say, which brings this agent along", "remove it"})
			}
		}
	}
	return fields
}

// complete adds the agents of the program that a file does not name, and gives those
// without mounts of their own the default ones.
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
				fmt.Sprintf("%s is where agent %s of the program is", quote(mount), quote(brought.Name)),
				fmt.Sprintf("choose another path, or give that one mounts of its own at agents.%s", brought.Name),
			})
			continue
		}
		(*dst)[i].Mounts = []string{mount}
	}
}
