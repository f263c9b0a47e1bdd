package sides

// Calls contains the calls of a run of messages and their ids in the request.
type Calls struct {
	// before contains the calls of earlier messages.
	before *Calls
	id     func(id string, n int) string
	// sent contains the ids in the request, used the tools.
	sent, used map[string]bool
	// latest maps the ids of the latest reply to those in the request.
	latest map[string]string
}

// Send assigns an id in the request to a call of the latest reply.
func (c *Calls) Send(id string) string {
	n := 1
	free := c.id(id, n)
	for c.taken(free) {
		n++
		free = c.id(id, n)
	}
	put(&c.sent, free, true)
	put(&c.latest, id, free)
	return free
}

// Sent returns the id in the request of a call of the latest reply.
func (c *Calls) Sent(id string) string { return c.latest[id] }

// Use records that a tool was called.
func (c *Calls) Use(tool string) { put(&c.used, tool, true) }

func (c *Calls) taken(id string) bool {
	for ; c != nil; c = c.before {
		if c.sent[id] {
			return true
		}
	}
	return false
}

// size returns the memory of the calls, in bytes.
func (c *Calls) size() (n int64) {
	for _, set := range []map[string]bool{c.sent, c.used} {
		for s := range set {
			n += int64(len(s))
		}
	}
	return n
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}
