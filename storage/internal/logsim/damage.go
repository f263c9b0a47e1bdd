package logsim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// spoil damages objects of the log that others stand in for.
func (p *proc) spoil(ctx context.Context) {
	for p.busy() {
		p.nap(ctx, 10*time.Second)
		page, err := p.opts.Store.List(ctx, storage.ListQuery{Prefix: p.net.folder})
		if err != nil || len(page.Keys) == 0 {
			continue
		}
		key := page.Keys[p.below(len(page.Keys))].Key
		if what := p.spare(key, page.Keys); what != "" {
			p.harm(ctx, key, what)
		}
	}
}

// spare returns what an object is that the log can do without, "" if it cannot.
func (p *proc) spare(key string, all []storage.ListedKey) (what string) {
	held := func(seq int64) (inLog, inSegment bool) {
		for _, k := range all {
			if k.Key == key {
				continue
			}
			first, last, ok := segmentSpan(p.net.short(k.Key))
			inLog = inLog || k.Key == storage.LogKey(p.conv, seq)
			inSegment = inSegment || ok && first <= seq && seq <= last
		}
		return inLog, inSegment
	}
	var seq int64
	if _, err := fmt.Sscanf(p.net.short(key), "log/%d", &seq); err == nil {
		if _, ok := held(seq); ok {
			return "batch"
		}
		return ""
	}
	first, last, ok := segmentSpan(p.net.short(key))
	if !ok {
		return "shortcut"
	}
	for seq := first; seq <= last; seq++ {
		if ok, _ := held(seq); !ok {
			return ""
		}
	}
	return "segment"
}

// harm flips a bit of an object, or deletes it if it is a shortcut.
func (p *proc) harm(ctx context.Context, key, what string) {
	data, err := p.opts.Store.Get(ctx, key)
	if err != nil {
		return
	}
	if what == "shortcut" && p.chance(2) {
		err = p.opts.Store.Delete(ctx, key)
	} else {
		data = slices.Clone(data)
		data[p.below(len(data))] ^= 1 << p.below(8)
		err = p.opts.Store.Put(ctx, key, storage.Bytes(data))
	}
	p.shown.Add(didSpoil + schedule.Deed(what))
	p.trace.Add(p.name, "damages %s: %v", p.net.short(key), err)
}
