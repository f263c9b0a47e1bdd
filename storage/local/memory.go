package local

import (
	"context"
	"slices"
	"sort"
	"sync"
)

// chunkLen bounds a chunk of the memory engine's key list, so that an insertion moves few keys.
const chunkLen = 512

// memoryEngine is an ordered map in memory. Visible changes count as durable.
type memoryEngine struct {
	mu      sync.RWMutex
	objects map[string]object
	// chunks hold the keys of objects in order. Invariant: no chunk is empty.
	chunks [][]string
}

var _ engine = (*memoryEngine)(nil)

func newMemoryEngine() *memoryEngine {
	return &memoryEngine{objects: make(map[string]object)}
}

func (e *memoryEngine) get(ctx context.Context, key string) (object, error) {
	if err := ctx.Err(); err != nil {
		return object{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	o, ok := e.objects[key]
	if !ok {
		return object{}, errNoKey
	}
	return o, nil
}

func (e *memoryEngine) put(ctx context.Context, key string, o object, create bool) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	_, exists := e.objects[key]
	if exists && create {
		return "", errExists
	}
	if !exists {
		e.insert(key)
	}
	e.objects[key] = o
	return "", nil
}

func (e *memoryEngine) remove(ctx context.Context, key string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if _, ok := e.objects[key]; !ok {
		return "", nil
	}
	delete(e.objects, key)
	c, i := e.seek(key)
	e.chunks[c] = slices.Delete(e.chunks[c], i, i+1)
	if len(e.chunks[c]) == 0 {
		e.chunks = slices.Delete(e.chunks, c, c+1)
	}
	return "", nil
}

func (e *memoryEngine) scan(ctx context.Context, from, end string, visit visitor) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for c, i := e.seek(from); c < len(e.chunks); {
		if i == len(e.chunks[c]) {
			c, i = c+1, 0
			continue
		}
		key := e.chunks[c][i]
		if end != "" && key >= end {
			return nil
		}
		o := e.objects[key]
		o.inline = nil
		next, more := visit(key, o)
		if !more {
			return nil
		}
		if next == "" {
			i++
		} else {
			c, i = e.seek(next)
		}
	}
	return nil
}

func (e *memoryEngine) close() error { return nil }

// seek returns the position of the first key >= key: a chunk and an index in it. If all keys are
// smaller, chunk is the number of chunks.
func (e *memoryEngine) seek(key string) (chunk, index int) {
	chunk = sort.Search(len(e.chunks), func(c int) bool {
		return e.chunks[c][len(e.chunks[c])-1] >= key
	})
	if chunk < len(e.chunks) {
		index = sort.SearchStrings(e.chunks[chunk], key)
	}
	return chunk, index
}

// insert adds an absent key.
func (e *memoryEngine) insert(key string) {
	c, i := e.seek(key)
	if c == len(e.chunks) {
		if c == 0 {
			e.chunks = [][]string{{key}}
			return
		}
		c--
		i = len(e.chunks[c])
	}
	e.chunks[c] = slices.Insert(e.chunks[c], i, key)
	if n := len(e.chunks[c]); n > chunkLen {
		half := slices.Clone(e.chunks[c][n/2:])
		e.chunks[c] = slices.Clip(e.chunks[c][:n/2])
		e.chunks = slices.Insert(e.chunks, c+1, half)
	}
}
