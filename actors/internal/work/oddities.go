package work

import (
	"sync"

	"github.com/parleyrun/parley/providers"
)

// maxOddities bounds how many oddities a node remembers to have logged.
const maxOddities = 1 << 10

// oddities are those that a node has logged: each kind once for each model. The zero value is
// ready. It is safe for concurrent use.
type oddities struct {
	mu   sync.Mutex
	seen map[[2]string]bool // by model and kind
}

// add reports whether an oddity is new. A node that has seen too many remembers no more, and
// logs none.
func (o *oddities) add(model, kind string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := [2]string{model, kind}
	if o.seen[key] || len(o.seen) == maxOddities {
		return false
	}
	if o.seen == nil {
		o.seen = map[[2]string]bool{}
	}
	o.seen[key] = true
	return true
}

// odd logs what of a model's reply its format does not have.
func (n *Node) odd(model string, o providers.Oddity) {
	if n.oddness.add(model, o.Kind) {
		n.o.Logger.Warn("model reply has an oddity", "model", model, "kind", o.Kind, "word", o.Word)
	}
}
