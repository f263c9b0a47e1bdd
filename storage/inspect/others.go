package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// journals checks every pending-work journal and its entries.
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
			return nil // It was replaced since it was listed.
		case errors.As(err, &corrupt):
			v.find(Corruption, KindJournal, k.Key, fmt.Sprintf(
				"the journal is unreadable: %v; its conversations with unsettled work continue only when a message arrives; restore the object from a copy",
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

// entry checks that the batch in a journal entry exists.
func (v *verifier) entry(ctx context.Context, key string, e storage.JournalEntry) error {
	if e.Seq < 0 {
		return nil // It was listed before its first batch was stored, which may have failed.
	}
	last, err := v.logs.Tail(ctx, e.Conv, e.Seq-1)
	switch {
	case err != nil && storage.IsCorrupt(err):
		return nil // The check of the conversation reports the cause.
	case err != nil || last >= e.Seq:
		return err
	}
	if _, err := v.bucket.Get(ctx, key); errors.Is(err, storage.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	v.emit(Finding{Severity: Corruption, Kind: KindJournal, Conv: e.Conv, Key: key, Seq: e.Seq, Text: fmt.Sprintf(
		"the journal lists conversation %s at batch %d, but its log ends before; restore the log folder from a copy", e.Conv, e.Seq)})
	return nil
}

// exports checks every export journal. The logs hold all data to export.
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
			return nil // It was replaced since it was listed.
		case errors.As(err, &corrupt):
			v.find(Note, KindExport, k.Key, fmt.Sprintf(
				"the export journal is unreadable: %v; events of its conversations may be missing in the sinks; replay events from the logs, then delete the object",
				corrupt.Err))
			return nil
		}
		return err
	})
}

// timers checks every timer. Only the key of a timer is essential.
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
			return nil // It was deleted since it was listed.
		case unreadable(err):
			v.emit(Finding{Severity: Note, Kind: KindTimer, Conv: name.Conv, Key: k.Key, Seq: name.First, Text: fmt.Sprintf(
				"the timer is unreadable: %v; its key suffices to resume the conversation, which deletes it", err)})
			return nil
		}
		return err
	})
}

// unreadable reports whether an object is corrupt or of another version.
func unreadable(err error) bool {
	var corrupt *storage.CorruptError
	var format *storage.FormatError
	return errors.As(err, &corrupt) || errors.As(err, &format)
}

// epochs checks the numbers of the epochs.
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
				"the member table is unreadable: %v; while it is the newest, no node starts; restore the object from a copy", err))
			return nil
		}
		return err
	})
}

// heartbeats reports heartbeats of members that have left.
func (v *verifier) heartbeats(ctx context.Context) error {
	epoch, _, err := storage.NewestEpoch(ctx, v.bucket, 0)
	if err != nil && away(err) {
		return err
	}
	known := err == nil // Other errors are reported already.
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
			v.find(Note, KindHeartbeat, k.Key, fmt.Sprintf("the heartbeat is unreadable: %v; the next one replaces it", err))
			return nil
		case err == nil && known && !epoch.Has(name.Member):
			v.find(Note, KindHeartbeat, k.Key, fmt.Sprintf("%s is not a member: it has left or is about to start; the object is harmless", name.Member))
		}
		return err
	})
}

// quarantine reports the quarantined conversations.
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
			return nil // It was put back since it was listed.
		case unreadable(err):
			a.Why = fmt.Sprintf("unreadable reason: %v", err)
		case err != nil:
			return err
		}
		v.emit(Finding{Severity: Note, Kind: KindQuarantine, Conv: name.Conv, Agent: a.Agent, ID: a.ID, Key: k.Key, Seq: -1, Text: fmt.Sprintf(
			"the conversation is quarantined: %s; repair the cause, then put it back with parley log quarantine --release or wait for the next try", a.Why)})
		return nil
	})
}

// deadLetters reports the dead letters.
func (v *verifier) deadLetters(ctx context.Context) error {
	return storage.EachDeadLetter(ctx, v.bucket, func(l storage.DeadLetter, err error) error {
		text := fmt.Sprintf("delivery of %s to %s failed: %s; resend or drop it with parley outbox", l.Post, l.Target, l.Reason)
		if err != nil {
			text = fmt.Sprintf("a dead letter is unreadable: %v; drop it with parley outbox", err)
		}
		v.emit(Finding{Severity: Note, Kind: KindDeadLetter, Conv: l.Conv, Key: storage.DeadLetterKey(l), Seq: -1, Text: text})
		return nil
	})
}

// index checks the index entries and the conversations that they name.
func (v *verifier) index(ctx context.Context) error {
	present := map[conversation.Key]bool{} // usually of one day
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
			err = fmt.Errorf("object names conversation %q of agent %q on %s", e.Address.ID, e.Address.Agent, e.Day)
		}
		if err != nil {
			v.find(Corruption, KindIndex, k.Key, fmt.Sprintf(
				"the entry does not match its key: %v; the conversation is complete but not listed for this day; restore the object from a copy", err))
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
				"conversation %q of agent %q was active on %s, but its log is missing; restore the folder %s from a copy",
				e.Address.ID, e.Address.Agent, e.Day, strings.TrimSuffix(storage.FolderOf(name.Conv), "/"))})
		}
		return nil
	})
}

// exists reports whether a conversation has a log.
func (v *verifier) exists(ctx context.Context, conv conversation.Key) (bool, error) {
	page, err := v.bucket.List(ctx, storage.ListQuery{Prefix: storage.FolderOf(conv) + "log/", Limit: 1})
	return len(page.Keys) > 0, err
}
