package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/conversation"
)

const indexRoot = "index/"

// IndexEntry records that a conversation was active on a day, so that conversations can be listed
// without reading their logs.
type IndexEntry struct {
	Address conversation.Address
	Day     string // In UTC, as 2006-01-02.
}

// DayOf returns the day of t for an [IndexEntry].
func DayOf(t conversation.Time) string { return t.String()[:len(time.DateOnly)] }

// IndexKey returns the object key of an entry.
func IndexKey(e IndexEntry) string {
	return indexRoot + e.Address.Agent + "/" + e.Day + "/" + string(e.Address.Key())
}

type storedIndex struct {
	storedVersion
	Agent string `json:"agent"`
	ID    string `json:"id"`
	Day   string `json:"day"`
}

// PutIndex stores an entry. An existing entry is a success.
func (l *Logs) PutIndex(ctx context.Context, e IndexEntry) error {
	data, err := json.Marshal(storedIndex{storedVersion{SchemaVersion}, e.Address.Agent, e.Address.ID, e.Day})
	if err != nil {
		return fmt.Errorf("put index entry: %w", err)
	}
	data = append(data, '\n')
	err = createResolved(ctx, l.bucket, l.retry, IndexKey(e), func() Body { return Bytes(data) })
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("put index entry: %w", err)
	}
	return nil
}
