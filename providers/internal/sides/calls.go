package sides

// Calls are those of a run of messages, with the ids that they are sent with.
type Calls struct {
	// before are those of the messages before.
	before *Calls
	id     func(id string, n int) string
	// sent are the ids as they are sent, used the tools.
	sent, used map[string]bool
	// latest maps the ids of the latest reply to those sent.
	latest map[string]string
}

// Send returns the id that a call of the latest reply is sent with.
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

// Sent returns the id that a call of the latest reply was sent with.
func (c *Calls) Sent(id string) string { return c.latest[id] }

// Use notes that a tool was called.
func (c *Calls) Use(tool string) { put(&c.used, tool, true) }

func (c *Calls) taken(id string) bool {
	for ; c != nil; c = c.before {
		if c.sent[id] {
			return true
		}
	}
	return false
}

// size is what the calls hold, in bytes.
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
