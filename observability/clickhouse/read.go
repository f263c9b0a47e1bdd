package clickhouse

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// Filter selects events. Empty fields select all.
type Filter struct {
	Submission conversation.SubmissionID
	Agent      string
	Instance   string
	Types      []observability.Type
	// Since and Until bound the times of events: Since is inclusive, Until exclusive, 0 is no bound.
	// They make a query much cheaper.
	Since, Until conversation.Time
}

func (f *Filter) where() (string, []any) {
	conditions, args := between(f.Since, f.Until)
	add := func(condition string, values ...any) {
		conditions, args = append(conditions, condition), append(args, values...)
	}
	if f.Submission != "" {
		add("submission_id = ?", string(f.Submission))
	}
	if f.Agent != "" {
		add("agent = ?", f.Agent)
	}
	if f.Instance != "" {
		add("instance_id = ?", f.Instance)
	}
	if len(f.Types) > 0 {
		names := make([]any, len(f.Types))
		for i, t := range f.Types {
			names[i] = string(t)
		}
		add("type IN (?"+strings.Repeat(", ?", len(names)-1)+")", names...)
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(conditions, " AND "), args
}

// Events reads events, each once, as they were written. They are grouped by conversation: the durable
// ones by seq and index, then the live ones by time and index. It stops at the first error, such as
// [ErrNoSchema]. A type that this version does not know is an [*observability.UnknownTypeError].
func (d *Database) Events(ctx context.Context, f Filter) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		if err := d.each(ctx, f, func(e observability.Event) bool { return yield(e, nil) }); err != nil {
			yield(observability.Event{}, fmt.Errorf("read events: %w", err))
		}
	}
}

const eventColumns = `toInt64(v), event_id, event_index, seq, toUnixTimestamp64Milli(ts), toString(type),
toString(agent), instance_id, submission_id, conversation_id, session, parent_session, task_id,
toString(harness), operation_id, turn_id, payload`

// each visits events until visit returns false.
func (d *Database) each(ctx context.Context, f Filter, visit func(observability.Event) bool) error {
	where, args := f.where()
	query := "SELECT " + eventColumns + " FROM events" + where +
		" ORDER BY agent, instance_id, live, seq, if(live, toUnixTimestamp64Milli(ts), 0), event_index, event_id"
	rows, err := d.conn.Query(timeless{ctx}, query, args...)
	if err != nil {
		return d.explain("SELECT FROM events", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e observability.Event
		var v, at int64
		var payload string
		err := rows.Scan(&v, &e.ID, &e.Index, &e.Seq, &at, (*string)(&e.Type),
			&e.Agent, &e.Instance, (*string)(&e.Submission), (*string)(&e.Conversation), &e.Session, &e.ParentSession, &e.Task,
			&e.Harness, &e.Operation, (*string)(&e.Turn), &payload)
		if err != nil {
			return err
		}
		e.Version, e.At = int(v), conversation.Time(at)
		if e.Version != observability.Version {
			return fmt.Errorf("event %s has version %d, supported is %d", e.ID, e.Version, observability.Version)
		}
		if e.Payload, err = observability.DecodePayload(e.Type, []byte(payload)); err != nil {
			return fmt.Errorf("event %s: %w", e.ID, err)
		}
		if !visit(e) {
			return nil
		}
	}
	return rows.Err()
}
