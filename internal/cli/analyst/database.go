package analyst

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/observability/stats"
)

// databaseSource is a ClickHouse with events.
type databaseSource struct {
	*clickhouse.Database
	at clickhouse.Options
}

// openDatabase opens for reading the database of --clickhouse, or of a configuration file if dsn is
// empty.
func openDatabase(ctx context.Context, at clickhouse.Options, dsn, file string) (*databaseSource, error) {
	at.Existing = true
	db, err := clickhouse.Open(ctx, at)
	s := &databaseSource{db, at}
	if err != nil {
		return nil, s.explain(dsn, file, err)
	}
	if err := db.Check(ctx); err != nil {
		return nil, errors.Join(s.explain(dsn, file, err), db.Close())
	}
	return s, nil
}

func (s *databaseSource) String() string { return databaseName(s.at) }

// databaseName formats a database without its password.
func databaseName(at clickhouse.Options) string {
	name := at.Database
	if name == "" {
		name = config.DefaultEventsDatabase
	}
	return fmt.Sprintf("database %s of clickhouse at %s", name, strings.Join(at.Addresses, ", "))
}

// explain adds the remedy for a database without tables.
func (s *databaseSource) explain(dsn, file string, err error) error {
	if !errors.Is(err, clickhouse.ErrNoSchema) {
		return atDatabase(dsn, file, err)
	}
	same := "--config " + file
	if dsn != "" {
		same = "with this --clickhouse"
	}
	return fmt.Errorf("%s has no tables for events; a server that sends events there creates them, or run parley events migrate %s (%w)", s, same, err)
}

// atDatabase adds the source of the address to an error of the server.
func atDatabase(dsn, file string, err error) error {
	var connect *clickhouse.ConnectError
	switch {
	case !errors.As(err, &connect):
		return err
	case dsn != "":
		return fmt.Errorf("--clickhouse: %w", err)
	}
	return fmt.Errorf("events.clickhouse in %s: %w", file, err)
}

func (s *databaseSource) trace(ctx context.Context, id conversation.SubmissionID) iter.Seq2[observability.Event, error] {
	return s.Events(ctx, clickhouse.Filter{Submission: id})
}

func (s *databaseSource) summary(ctx context.Context, f stats.Filter) (*stats.Summary, error) {
	return s.Summary(ctx, f)
}

func (s *databaseSource) newest(ctx context.Context) (conversation.SubmissionID, error) {
	return s.Newest(ctx)
}

func (s *databaseSource) close() error { return s.Close() }
