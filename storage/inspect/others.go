package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// journals looks at every pending-work journal and what it lists.
func (v *verifier) journals(ctx context.Context) error {
	return eachKey(ctx, v.bucket, "pending/", func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil {
			v.foreign(k.Key)
			return nil
		}
		j, err := storage.ReadJournal(ctx, v.bucket, name.Member, name.First)
		var corrupt *storage.CorruptError
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil // It was replaced meanwhile.
		case errors.As(err, &corrupt):
			v.find(Corruption, KindJournal, k.Key, fmt.Sprintf(
				"the journal cannot be read: %v; it lists conversations with unsettled work, which go on only when somebody writes to them; restore the object from a copy",
				corrupt.Err))
			return nil
		case err != nil:
			return err
		}
		v.mu.Lock()
		v.sum.Journals++
		v.mu.Unlock()
		for _, e := range j.Entries {
			if err := v.entry(ctx, k.Key, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// entry looks for the batch that a journal says was there.
func (v *verifier) entry(ctx context.Context, key string, e storage.JournalEntry) error {
	if e.Seq < 0 {
		return nil // It was listed before its first batch was stored, which may never have come.
	}
	last, err := v.logs.Tail(ctx, e.Conv, e.Seq-1)
	switch {
	case err != nil && storage.IsCorrupt(err):
		return nil // What stands in the way was found with the conversation.
	case err != nil || last >= e.Seq:
		return err
	}
	if _, err := v.bucket.Get(ctx, key); errors.Is(err, storage.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	v.emit(Finding{Severity: Corruption, Kind: KindJournal, Conv: e.Conv, Key: key, Seq: e.Seq, Text: fmt.Sprintf(
		"the journal lists conversation %s, which was at batch %d, and its log ends before that; restore the log folder from a copy", e.Conv, e.Seq)})
	return nil
}

// exports looks at every export journal. The logs have all that is to be exported.
func (v *verifier) exports(ctx context.Context) error {
	return eachKey(ctx, v.bucket, "export/", func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil {
			v.foreign(k.Key)
			return nil
		}
		_, err = storage.ReadExportJournal(ctx, v.bucket, name.Member, name.Shard, name.First)
		var corrupt *storage.CorruptError
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil // It was replaced meanwhile.
		case errors.As(err, &corrupt):
			v.find(Note, KindExport, k.Key, fmt.Sprintf(
				"the export journal cannot be read: %v; events of the conversations it lists may be missing in the sinks; replay events from the logs, then delete the object",
				corrupt.Err))
			return nil
		}
		return err
	})
}

// timers looks at every timer. Nothing rests on what is in one: its key is enough.
func (v *verifier) timers(ctx context.Context) error {
	return eachKey(ctx, v.bucket, "timer/", func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil {
			v.foreign(k.Key)
			return nil
		}
		_, err = storage.ReadTimer(ctx, v.bucket, storage.TimerRef{Key: k.Key, Conv: name.Conv, Seq: name.First})
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil // It was answered meanwhile.
		case unreadable(err):
			v.emit(Finding{Severity: Note, Kind: KindTimer, Conv: name.Conv, Key: k.Key, Seq: name.First, Text: fmt.Sprintf(
				"the timer cannot be read: %v; its key is enough to wake the conversation, and it is deleted then", err)})
			return nil
		}
		return err
	})
}

// unreadable reports whether an object is damaged or of another version.
func unreadable(err error) bool {
	var corrupt *storage.CorruptError
	var format *storage.FormatError
	return errors.As(err, &corrupt) || errors.As(err, &format)
}

// epochs looks at the members' numbers.
func (v *verifier) epochs(ctx context.Context) error {
	return eachKey(ctx, v.bucket, "members/", func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil {
			v.foreign(k.Key)
			return nil
		}
		_, err = storage.ReadEpoch(ctx, v.bucket, name.First)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil
		case unreadable(err):
			v.find(Corruption, KindEpoch, k.Key, fmt.Sprintf(
				"the list of members cannot be read: %v; while it is the newest one, no node starts; restore the object from a copy", err))
			return nil
		}
		return err
	})
}

// heartbeats looks for those that nobody sends any more.
func (v *verifier) heartbeats(ctx context.Context) error {
	epoch, _, err := storage.NewestEpoch(ctx, v.bucket, 0)
	if err != nil && away(err) {
		return err
	}
	known := err == nil // Otherwise that was found before.
	return eachKey(ctx, v.bucket, "heartbeat/", func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil {
			v.foreign(k.Key)
			return nil
		}
		_, err = storage.ReadHeartbeat(ctx, v.bucket, name.Member)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil
		case unreadable(err):
			v.find(Note, KindHeartbeat, k.Key, fmt.Sprintf("the heartbeat cannot be read: %v; it is a hint, and the next one replaces it", err))
			return nil
		case err == nil && known && !epoch.Has(name.Member):
			v.find(Note, KindHeartbeat, k.Key, fmt.Sprintf("%s is no member: it is gone, or about to start; the object does no harm", name.Member))
		}
		return err
	})
}

// asides tells of the conversations that nobody opens.
func (v *verifier) quarantine(ctx context.Context) error {
	return eachKey(ctx, v.bucket, "quarantine/", func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil {
			v.foreign(k.Key)
			return nil
		}
		a, err := storage.ReadQuarantine(ctx, v.bucket, name.Conv)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil // It was put back meanwhile.
		case unreadable(err):
			a.Why = fmt.Sprintf("why cannot be read: %v", err)
		case err != nil:
			return err
		}
		v.emit(Finding{Severity: Note, Kind: KindQuarantine, Conv: name.Conv, Agent: a.Agent, ID: a.ID, Key: k.Key, Seq: -1, Text: fmt.Sprintf(
			"the conversation is quarantined: %s; repair the cause, then put it back with parley log quarantine --release or wait for the next try", a.Why)})
		return nil
	})
}

// letters tells of the posts that were given up.
func (v *verifier) letters(ctx context.Context) error {
	return storage.EachDeadLetter(ctx, v.bucket, func(l storage.DeadLetter, err error) error {
		text := fmt.Sprintf("%s to %s was given up: %s; parley outbox sends it again, or drops it", l.Post, l.Target, l.Reason)
		if err != nil {
			text = fmt.Sprintf("a dead letter cannot be read: %v; parley outbox drops it", err)
		}
		v.emit(Finding{Severity: Note, Kind: KindDeadLetter, Conv: l.Conv, Key: storage.DeadLetterKey(l), Seq: -1, Text: text})
		return nil
	})
}

// index looks at the index entries and for the conversations that they name.
func (v *verifier) index(ctx context.Context) error {
	present := map[conversation.Key]bool{} // one day's, mostly
	return eachKey(ctx, v.bucket, "index/", func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil {
			v.foreign(k.Key)
			return nil
		}
		data, err := v.bucket.Get(ctx, k.Key)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := storage.DecodeIndex(data)
		if err == nil && storage.IndexKey(e) != k.Key {
			err = fmt.Errorf("it is of conversation %q of agent %q on %s", e.Address.ID, e.Address.Agent, e.Day)
		}
		if err != nil {
			v.find(Corruption, KindIndex, k.Key, fmt.Sprintf(
				"the entry is not what its key says: %v; the conversation is whole without it, and is not found by this day; restore the object from a copy", err))
			return nil
		}
		if _, seen := present[name.Conv]; !seen {
			if len(present) >= 1<<16 {
				clear(present)
			}
			if present[name.Conv], err = v.exists(ctx, name.Conv); err != nil {
				return err
			}
		}
		if !present[name.Conv] {
			v.emit(Finding{Severity: Corruption, Kind: KindIndex, Conv: name.Conv, Agent: e.Address.Agent, ID: e.Address.ID, Key: k.Key, Seq: -1, Text: fmt.Sprintf(
				"conversation %q of agent %q was active on %s, and nothing of its log is there; restore the folder %s from a copy",
				e.Address.ID, e.Address.Agent, e.Day, strings.TrimSuffix(storage.FolderOf(name.Conv), "/"))})
		}
		return nil
	})
}

// exists reports whether there is a log.
func (v *verifier) exists(ctx context.Context, conv conversation.Key) (bool, error) {
	page, err := v.bucket.List(ctx, storage.ListQuery{Prefix: storage.FolderOf(conv) + "log/", Limit: 1})
	return len(page.Keys) > 0, err
}
