package work

import (
	"sync"

	"github.com/parleyrun/parley/providers"
)

// maxOddities bounds the number of remembered oddities.
const maxOddities = 1 << 10

// oddities remembers the logged oddities: each kind once for each model. The zero value is ready. It
// is safe for concurrent use.
type oddities struct {
	mu   sync.Mutex
	seen map[[2]string]bool // by model and kind
}

// add reports whether an oddity is new. At maxOddities it reports none.
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

func (n *Node) odd(model string, o providers.Oddity) {
	if n.oddities.add(model, o.Kind) {
		n.o.Logger.Warn("unexpected model reply", "model", model, "kind", o.Kind, "word", o.Word)
	}
}
