package clickhouse_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// current is the version of the newest migration.
const current = 3

// bucket is an empty bucket in memory.
func bucket(t *testing.T) storage.Bucket {
	t.Helper()
	store := local.NewMemory()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// keys lists the keys of a bucket.
func keys(t *testing.T, b storage.Bucket) []storage.ListedKey {
	t.Helper()
	page, err := b.List(t.Context(), storage.ListQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Keys
}

// TestMigrateFromEmpty migrates an absent database twice, with claims and without.
func TestMigrateFromEmpty(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	for name, claims := range map[string]storage.Bucket{"claims": bucket(t), "none": nil} {
		t.Run(name, func(t *testing.T) {
			o := options(t, s, s.Database(t))
			o.Database += "_new"
			conn := direct(t, s, "default")
			t.Cleanup(func() { _ = conn.Exec(t.Context(), "DROP DATABASE IF EXISTS "+o.Database+" SYNC") })
			db := open(t, o)
			if err := db.Check(t.Context()); !errors.Is(err, clickhouse.ErrNoSchema) {
				t.Errorf("Check of an empty database: got %v, want %v", err, clickhouse.ErrNoSchema)
			}
			for range 2 {
				if err := db.Migrate(t.Context(), claims, "n1"); err != nil {
					t.Fatal(err)
				}
				if err := db.Check(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if got := value(t, direct(t, s, o.Database), "SELECT count() FROM parley_migrations WHERE node = 'n1'"); got != current {
				t.Errorf("%d migrations are recorded, want %d", got, current)
			}
			if claims != nil {
				if left := keys(t, claims); len(left) > 0 {
					t.Errorf("got remaining claims %v, want none", left)
				}
			}
			write(t, db, traffic(3, 1))
			if err := db.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMigrateFromVersion1 checks that a database of version 1 gets the aggregates, including its
// existing events.
func TestMigrateFromVersion1(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	db := migrated(t, o)
	conn := direct(t, s, o.Database)
	events := traffic(50, 1)
	write(t, db, events)
	// Remove the additions of version 2.
	for _, statement := range []string{
		"DROP TABLE usage_hourly", "DROP TABLE latency_hourly", "DROP TABLE outcomes_hourly", "DROP TABLE queue_hourly",
		"DROP TABLE recoveries_hourly", "DROP TABLE active_hourly",
		"ALTER TABLE parley_migrations DELETE WHERE version > 1 SETTINGS mutations_sync = 1",
	} {
		if err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if got := value(t, conn, "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name NOT LIKE '.%'"); got != 3 {
		t.Fatalf("version 1 has %d tables, want 3", got)
	}
	if err := db.Check(t.Context()); !errors.Is(err, clickhouse.ErrNoSchema) {
		t.Errorf("Check of version 1: got %v, want %v", err, clickhouse.ErrNoSchema)
	}
	write(t, db, events[:9]) // A program of a newer version still writes to version 1.
	if err := db.Migrate(t.Context(), bucket(t), "n2"); err != nil {
		t.Fatal(err)
	}
	if err := db.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameEvents(t, events, read(t, db, clickhouse.Filter{}))
	if got := value(t, conn, "SELECT sum(submissions) FROM outcomes_hourly"); got != 50 {
		t.Errorf("outcomes_hourly has %d submissions, want 50", got)
	}
}

// TestMigrateAtOnce checks that concurrent nodes run each version once, and get the same schema
// without claims.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	const nodes = 4
	s := clickhousetest.Start(t)
	for name, claims := range map[string]storage.Bucket{"claims": bucket(t), "none": nil} {
		t.Run(name, func(t *testing.T) {
			o := options(t, s, s.Database(t))
			o.TTLDays = 15000
			errs := make([]error, nodes)
			var all sync.WaitGroup
			for i := range nodes {
				db := open(t, o)
				all.Go(func() { errs[i] = db.Migrate(t.Context(), claims, fmt.Sprint("n", i)) })
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			conn := direct(t, s, o.Database)
			if got := value(t, conn, "SELECT count() FROM parley_migrations"); claims != nil && got != current {
				t.Errorf("%d migrations ran, want %d", got, current)
			}
			db := open(t, o)
			if err := db.Check(t.Context()); err != nil {
				t.Error(err)
			}
			write(t, db, traffic(5, 1))
		})
	}
}

// TestExpiredClaim checks that the claim of a crashed node expires.
func TestExpiredClaim(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	claims := bucket(t)
	// Learn the keys of claims from a first migration.
	var key string
	spy := &spy{Bucket: claims, created: func(k string) {
		if key == "" {
			key = k
		}
	}}
	if err := open(t, o).Migrate(t.Context(), spy, "n1"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(key, "migrate/") || !strings.HasSuffix(key, "/0001") {
		t.Fatalf("got first claim %q", key)
	}
	conn := direct(t, s, o.Database)
	if err := conn.Exec(t.Context(), "TRUNCATE TABLE parley_migrations"); err != nil {
		t.Fatal(err)
	}
	if err := claims.Create(t.Context(), key, storage.Bytes([]byte(`{"node":"dead"}`))); err != nil {
		t.Fatal(err)
	}
	// The caller's deadline is shorter than the wait, like that of a sink; it retries.
	o.ClaimWait = 6 * time.Second
	db := open(t, o)
	err, calls := context.DeadlineExceeded, 0
	for ; errors.Is(err, context.DeadlineExceeded) && calls < 10; calls++ {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err = db.Migrate(ctx, claims, "n2")
		cancel()
	}
	if err != nil || calls == 1 {
		t.Fatalf("after %d calls: got %v", calls, err)
	}
	if got := value(t, conn, "SELECT count() FROM parley_migrations WHERE node = 'n2'"); got != current {
		t.Errorf("%d migrations are recorded, want %d", got, current)
	}
	if left := keys(t, claims); len(left) > 0 {
		t.Errorf("got remaining claims %v, want none", left)
	}
}

// TestEmptiedServer checks that a database dropped while open is created again, unless it is only
// read.
func TestEmptiedServer(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	conn := direct(t, s, "default")
	for _, o := range []clickhouse.Options{o, overHTTP(s, o)} {
		db := migrated(t, o)
		if err := conn.Exec(t.Context(), "DROP DATABASE "+o.Database+" SYNC"); err != nil {
			t.Fatal(err)
		}
		if err := db.Migrate(t.Context(), nil, "n1"); err != nil {
			t.Fatalf("HTTP %v: %v", o.HTTP, err)
		}
		write(t, db, traffic(3, 1))
	}
	o.Existing = true
	db := open(t, o)
	if err := conn.Exec(t.Context(), "DROP DATABASE "+o.Database+" SYNC"); err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), nil, "n1"); !errors.Is(err, clickhouse.ErrNoSchema) {
		t.Errorf("missing database: got %v, want %v", err, clickhouse.ErrNoSchema)
	}
}

// TestDroppedTable checks that the error of a dropped table has a remedy.
func TestDroppedTable(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	db := migrated(t, o)
	conn := direct(t, s, o.Database)
	if err := conn.Exec(t.Context(), "DROP TABLE events_raw SYNC"); err != nil {
		t.Fatal(err)
	}
	const remedy = "DROP TABLE parley_migrations"
	if err := db.Migrate(t.Context(), nil, "n1"); err == nil || !strings.Contains(err.Error(), remedy) {
		t.Fatalf("Migrate without events_raw: got %v, want %s", err, remedy)
	}
	if err := conn.Exec(t.Context(), remedy+" SYNC"); err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), nil, "n1"); err != nil {
		t.Fatal(err)
	}
	write(t, db, traffic(3, 1))
	if err := db.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
}

// spy records the objects created in a bucket.
type spy struct {
	storage.Bucket
	created func(key string)
}

// Create implements storage.Bucket.
func (s *spy) Create(ctx context.Context, key string, body storage.Body) error {
	s.created(key)
	return s.Bucket.Create(ctx, key, body)
}

func TestReadOnlyUser(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	ro := o
	ro.Username, ro.Password = "readonly", ""

	for _, ro := range []clickhouse.Options{ro, overHTTP(s, ro)} {
		db := open(t, ro)
		if !db.ReadOnly() {
			t.Error("ReadOnly: got false, want true")
		}
		var denied *clickhouse.DeniedError
		err := db.Migrate(t.Context(), bucket(t), "n1")
		if !errors.As(err, &denied) || !strings.Contains(err.Error(), "CREATE TABLE IF NOT EXISTS parley_migrations") || !strings.Contains(err.Error(), "GRANT ") {
			t.Errorf("Migrate without a schema: got %v, want a DeniedError with the statement and the grant", err)
		}
	}

	events := traffic(9, 1)
	write(t, migrated(t, o), events)
	ro.TTLDays = 5 // This must not fail.
	for _, ro := range []clickhouse.Options{ro, overHTTP(s, ro)} {
		db := open(t, ro)
		if err := db.Migrate(t.Context(), bucket(t), "n1"); err != nil {
			t.Errorf("Migrate with the schema: got %v", err)
		}
		sameEvents(t, events, read(t, db, clickhouse.Filter{}))
	}

	ro.Database += "_none"
	var denied *clickhouse.DeniedError
	if _, err := clickhouse.Open(t.Context(), ro); !errors.As(err, &denied) || !strings.Contains(err.Error(), "CREATE DATABASE") {
		t.Errorf("Open of a missing database: got %v, want a DeniedError", err)
	}
}

func TestNewerSchema(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	db := migrated(t, o)
	conn := direct(t, s, o.Database)
	record := func(version, least int) {
		t.Helper()
		if err := conn.Exec(t.Context(), "INSERT INTO parley_migrations (version, min_version) SELECT ?, ?", version, least); err != nil {
			t.Fatal(err)
		}
	}
	record(current+1, current)
	if err := errors.Join(db.Migrate(t.Context(), nil, "n1"), db.Check(t.Context())); err != nil {
		t.Errorf("newer compatible schema: got %v", err)
	}
	record(current+2, current+1)
	for _, err := range []error{db.Migrate(t.Context(), nil, "n1"), db.Check(t.Context())} {
		var newer *clickhouse.NewerSchemaError
		if !errors.As(err, &newer) {
			t.Fatalf("newer schema: got %v, want a NewerSchemaError", err)
		}
		want := clickhouse.NewerSchemaError{Database: o.Database, Version: current + 2, Known: current, Need: current + 1}
		if diff := cmp.Diff(want, *newer); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
	}
}

// TestExpiry checks that the expiry follows the option, and that the server drops older events.
func TestExpiry(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	conn := direct(t, s, o.Database)
	for _, days := range []int{0, 90, 30, 30, 0, 7} {
		o.TTLDays = days
		migrated(t, o)
		want := "0"
		if days > 0 {
			want = fmt.Sprintf("position(engine_full, 'TTL toDate(ts) + toIntervalDay(%d)') > 0", days)
		} else {
			want = "position(engine_full, ' TTL ') = 0"
		}
		if value(t, conn, "SELECT "+want+" FROM system.tables WHERE database = currentDatabase() AND name = 'events_raw'") != 1 {
			t.Errorf("%d days: got another expiry of the table", days)
		}
	}
	now := conversation.TimeOf(time.Now())
	events := traffic(2, 1)[:2]
	events[0].At, events[1].At = now, now-8*86_400_000
	write(t, open(t, o), events)
	if err := conn.Exec(t.Context(), "OPTIMIZE TABLE events_raw FINAL"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, open(t, o), clickhouse.Filter{}); len(got) != 1 || got[0].ID != events[0].ID {
		t.Errorf("%d events are left, want the new one", len(got))
	}
}

// TestExpiryAtOnce checks that concurrent nodes change the expiry once without errors.
func TestExpiryAtOnce(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	errs := make([]error, 8)
	for range 4 {
		o.TTLDays = 90
		migrated(t, o)
		o.TTLDays = 0
		var all sync.WaitGroup
		for i := range errs {
			db := open(t, o)
			all.Go(func() { errs[i] = db.Migrate(t.Context(), nil, "n1") })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPublished checks that a released migration never changes. Add a line for each new file.
func TestPublished(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	migrated(t, o)
	rows, err := direct(t, s, o.Database).Query(t.Context(), "SELECT version, checksum FROM parley_migrations ORDER BY version")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := map[uint32]string{}
	for rows.Next() {
		var version uint32
		var checksum string
		if err := rows.Scan(&version, &checksum); err != nil {
			t.Fatal(err)
		}
		got[version] = checksum
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/published.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[uint32]string
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("checksums (-published +got):\n%s", diff)
	}
}
