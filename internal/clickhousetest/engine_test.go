package clickhousetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
)

// The tests here verify the properties of ClickHouse on which the schemas of this project depend.

const events = `CREATE TABLE events (k String, v Int64, at DateTime64(3), ver UInt64)
	ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(at) ORDER BY k TTL toDateTime(at) + INTERVAL 30 DAY`

func TestFinalShowsTheLastVersion(t *testing.T) {
	onWays(t, func(t *testing.T, s *clickhousetest.Server, w way, database string) {
		c := connect(t, s, w, "default", database)
		run(t, c, events)
		now := time.Now()
		for ver := range uint64(3) {
			insert(t, c, "INSERT INTO events", [][]any{{"a", int64(ver), now, ver}, {"b", -int64(ver), now, 9 - ver}})
		}
		if got := text(t, c, "SELECT toString(groupArray((k, v))) FROM (SELECT k, v FROM events FINAL ORDER BY k)"); got != "[('a',2),('b',0)]" {
			t.Errorf("rows %s", got)
		}
	})
}

func TestTTLRemovesOldRows(t *testing.T) {
	s := clickhousetest.Start(t)
	c := connect(t, s, way{}, "default", s.Database(t))
	run(t, c, events)
	run(t, c, "SYSTEM STOP TTL MERGES events")
	now := time.Now()
	insert(t, c, "INSERT INTO events", [][]any{{"old", int64(1), now.AddDate(0, 0, -40), uint64(1)}, {"new", int64(1), now, uint64(1)}})
	const ask = "SELECT toString(groupArray(k)) FROM (SELECT k FROM events ORDER BY k)"
	if got := text(t, c, ask); got != "['new','old']" {
		t.Errorf("before: %s", got)
	}
	run(t, c, "SYSTEM START TTL MERGES events")
	run(t, c, "OPTIMIZE TABLE events FINAL")
	if got := text(t, c, ask); got != "['new']" {
		t.Errorf("after: %s", got)
	}
}

func TestMaterializedView(t *testing.T) {
	s := clickhousetest.Start(t)
	c := connect(t, s, way{}, "default", s.Database(t))
	run(t, c, events)
	run(t, c, "CREATE TABLE sums (k String, n UInt64, v Int64) ENGINE = SummingMergeTree ORDER BY k")
	run(t, c, "CREATE MATERIALIZED VIEW view TO sums AS SELECT k, count() AS n, sum(v) AS v FROM events GROUP BY k")
	for ver := range uint64(2) {
		insert(t, c, "INSERT INTO events", [][]any{{"a", int64(3), time.Now(), ver}})
	}
	if got := text(t, c, "SELECT toString(groupArray((k, n, v))) FROM sums FINAL"); got != "[('a',2,6)]" {
		t.Errorf("rows %s", got)
	}
}

func TestRefreshableMaterializedView(t *testing.T) {
	s := clickhousetest.Start(t)
	c := connect(t, s, way{}, "default", s.Database(t))
	run(t, c, events)
	run(t, c, "CREATE TABLE counts (k String, n UInt64) ENGINE = MergeTree ORDER BY k")
	run(t, c, "CREATE MATERIALIZED VIEW view REFRESH EVERY 1 YEAR TO counts AS SELECT k, count() AS n FROM events FINAL GROUP BY k")
	run(t, c, "SYSTEM WAIT VIEW view")
	insert(t, c, "INSERT INTO events", [][]any{{"a", int64(3), time.Now(), uint64(1)}})
	const ask = "SELECT toString(groupArray((k, n))) FROM counts"
	if got := text(t, c, ask); got != "[]" {
		t.Errorf("before: %s", got)
	}
	run(t, c, "SYSTEM REFRESH VIEW view")
	run(t, c, "SYSTEM WAIT VIEW view")
	if got := text(t, c, ask); got != "[('a',1)]" {
		t.Errorf("after: %s", got)
	}
	if got := text(t, c, "SELECT concat(toString(status), exception) FROM system.view_refreshes WHERE view = 'view' AND database = currentDatabase()"); got != "Scheduled" {
		t.Errorf("status %s", got)
	}
}

func TestTableFunctionReadsS3(t *testing.T) {
	s := clickhousetest.Start(t)
	store := s3server.Versitygw(t)
	bucket := store.Bucket(t)
	b, err := s3.New(&s3.Options{Endpoint: store.Endpoint, Bucket: bucket, Region: store.Region, AccessKey: store.AccessKey, SecretKey: store.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		lines := fmt.Sprintf(`{"k":"a","n":%d}`+"\n"+`{"k":"b","n":5,"more":[1]}`+"\n", i)
		if err := b.Create(t.Context(), fmt.Sprintf("events/%d.jsonl.zst", i), storage.Bytes(z.EncodeAll([]byte(lines), nil))); err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, s, way{}, "default", s.Database(t))
	statement := fmt.Sprintf("SELECT toString(groupArray((k, n))) FROM (SELECT k, n FROM s3('http://%s/%s/events/*.jsonl.zst', '%s', '%s', 'JSONEachRow', 'k String, n Int64', 'zstd') ORDER BY k, n)",
		store.Endpoint, bucket, store.AccessKey, store.SecretKey)
	if got := text(t, c, statement+" SETTINGS input_format_skip_unknown_fields = 1"); got != "[('a',0),('a',1),('b',5),('b',5)]" {
		t.Errorf("rows %s", got)
	}
}

func TestExplainAndQuantiles(t *testing.T) {
	s := clickhousetest.Start(t)
	c := connect(t, s, way{}, "default", s.Database(t))
	run(t, c, events)
	insert(t, c, "INSERT INTO events", [][]any{{"a", int64(1), time.Now(), uint64(1)}, {"b", int64(3), time.Now(), uint64(1)}})
	if got := text(t, c, "SELECT toString(quantilesExact(0.5, 1)(v)) FROM events"); got != "[3,3]" {
		t.Errorf("quantiles %s", got)
	}
	rows, err := c.Query(t.Context(), "EXPLAIN indexes = 1 SELECT * FROM events WHERE k = 'a'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	key := false
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		key = key || strings.Contains(line, "PrimaryKey")
	}
	if rows.Err() != nil || !key {
		t.Errorf("the plan names no primary key, or %v", rows.Err())
	}
}
