package local

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parleyrun/parley/storage"
)

// audit opens the store after a crash and compares its content with the history of the cycle and the
// content before. It returns the content found.
func audit(t *testing.T, fs vfs.FS, dir string, history []event, before map[string]uint64) (map[string]uint64, []string) {
	t.Helper()
	s, err := openStore(fs, dir, &Options{Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		return nil, []string{"open after the crash: " + err.Error()}
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	listed, flaws := listing(t, s)
	byKey := map[string][]event{}
	for _, e := range history {
		if e.Key != "" {
			byKey[e.Key] = append(byKey[e.Key], e)
		}
		if strings.Contains(e.Note, errCorrupt.Error()+": ") {
			flaws = append(flaws, e.Note)
		}
	}
	keys := map[string]bool{}
	for key := range before {
		keys[key] = true
	}
	for key := range byKey {
		keys[key] = true
	}
	for key := range listed {
		keys[key] = true
	}
	now := map[string]uint64{}
	large := 0
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value, err := read(t.Context(), s, key)
		if err != nil {
			flaws = append(flaws, fmt.Sprintf("get %s: %v", key, err))
			continue
		}
		size, isListed := listed[key]
		if value != 0 {
			now[key] = value
		}
		if isListed != (value != 0) || isListed && size != int64(len(bodyOf(value))) {
			flaws = append(flaws, fmt.Sprintf("%s: listed %t with %d bytes, read as %x", key, isListed, size, value))
		}
		if size > defaultLargeObjectBytes {
			large++
		}
		if !explain(byKey[key], before[key], value) {
			flaws = append(flaws, fmt.Sprintf("%s held %x and holds %x, which this does not explain:\n%s", key, before[key], value, formatHistory(byKey[key])))
		}
	}
	return now, append(flaws, leftovers(t, fs, dir, large)...)
}

// listing returns the size of every object of the bucket.
func listing(t *testing.T, b storage.Bucket) (sizes map[string]int64, flaws []string) {
	t.Helper()
	sizes = map[string]int64{}
	for after, more := "", true; more; {
		page, err := b.List(t.Context(), storage.ListQuery{After: after, Limit: 13})
		if err != nil {
			return sizes, append(flaws, "list: "+err.Error())
		}
		for _, k := range page.Keys {
			if k.Key <= after {
				flaws = append(flaws, fmt.Sprintf("%q is listed after %q", k.Key, after))
			}
			after = k.Key
			sizes[k.Key] = k.Size
		}
		more = page.More
	}
	return sizes, flaws
}

// leftovers returns files that belong to no object.
func leftovers(t *testing.T, fs vfs.FS, dir string, objects int) (flaws []string) {
	t.Helper()
	for folder, want := range map[string]int{"objects": objects, "tmp": 0} {
		names, err := fs.List(fs.PathJoin(dir, folder))
		if err != nil || len(names) != want {
			flaws = append(flaws, fmt.Sprintf("%s holds %d files instead of %d: %v", folder, len(names), want, err))
		}
	}
	return flaws
}

// checkEnd checks the end of a cycle: a fatal fault ends the process with a remedy, and nothing that
// began after it is acknowledged.
func (c cycle) checkEnd(d exitResult) (flaws []string) {
	opened := slices.ContainsFunc(d.history, func(e event) bool { return e.Phase == phaseOpened })
	switch d.status {
	case statusPower, statusKilled:
	case statusFatal:
		for _, part := range []string{"cannot be written durably", "free space", "restart the process"} {
			if !strings.Contains(d.stderr, part) {
				flaws = append(flaws, fmt.Sprintf("the message lacks %q", part))
			}
		}
	case statusNotOpen:
		if opened || !strings.Contains(d.stderr, "open local store") {
			flaws = append(flaws, "the child ended as if the store had not been opened")
		}
	default:
		flaws = append(flaws, "the child did not end as the product does")
	}
	if len(flaws) > 0 {
		flaws = append(flaws, fmt.Sprintf("status %d, standard error:\n%.3000s", d.status, d.stderr))
	}
	began := map[uint64]bool{}
	faulted := false
	for _, e := range d.history {
		switch e.Phase {
		case phaseFault:
			faulted = faulted || opened && faults()[c.Fault].fatal
		case phaseBegin:
			// A delete of an absent key writes nothing. The audit checks whether one that did write
			// was durable when acknowledged.
			began[e.Op] = faulted && e.isWrite() && e.Verb != verbDelete
		case phaseEnd:
			if began[e.Op] && e.Result == resultDone && (c.Fault == "log write" || c.Fault == "log sync") {
				flaws = append(flaws, fmt.Sprintf("%s %s was acknowledged after the log could not be written", e.Verb, e.Key))
			}
		}
	}
	return flaws
}

// formatHistory formats a history for people.
func formatHistory(history []event) string {
	var b strings.Builder
	for _, e := range history {
		fmt.Fprintf(&b, "  %-6s %d %s %x %s %s\n", e.Phase, e.Op, e.Verb, e.Value, e.Result, e.Note)
	}
	return b.String()
}
