package clickhousetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/internal/sample"
)

// allKinds is a table with a column of every kind that tests use.
const allKinds = `CREATE TABLE kinds (
	n UInt64, s String, low LowCardinality(String), at DateTime64(3), yes Bool, i Int64, f Float64,
	maybe Nullable(Int64), lowMaybe LowCardinality(Nullable(String)), attributes Map(LowCardinality(String), String),
	list Array(String), lows Array(LowCardinality(String)), made UInt64 MATERIALIZED n * 2
) ENGINE = MergeTree ORDER BY n`

type kinds struct {
	N          uint64            `ch:"n"`
	S          string            `ch:"s"`
	Low        string            `ch:"low"`
	At         time.Time         `ch:"at"`
	Yes        bool              `ch:"yes"`
	I          int64             `ch:"i"`
	F          float64           `ch:"f"`
	Maybe      *int64            `ch:"maybe"`
	LowMaybe   *string           `ch:"lowMaybe"`
	Attributes map[string]string `ch:"attributes"`
	List       []string          `ch:"list"`
	Lows       []string          `ch:"lows"`
}

func someKinds(rows uint64) []kinds {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)
	all := make([]kinds, rows)
	for n := range rows {
		k := kinds{
			N: n, S: fmt.Sprintf("row %d;\nSELECT '\\", n), Low: fmt.Sprint("kind ", n%300), At: at.Add(time.Duration(n) * time.Millisecond),
			Yes: n%2 == 0, I: -int64(n), F: float64(n) / 8, Attributes: map[string]string{}, List: []string{}, Lows: []string{},
		}
		if n%3 == 0 {
			k.Maybe, k.LowMaybe = new(int64(n)), new(fmt.Sprint("x", n%5))
			k.Attributes = map[string]string{"a": fmt.Sprint(n), "b": ""}
			k.List, k.Lows = []string{"", fmt.Sprint(n)}, []string{"p", "q", "p"}
		}
		all[n] = k
	}
	return all
}

func TestRowsOfAllKindsComeBack(t *testing.T) {
	onWays(t, func(t *testing.T, s *clickhousetest.Server, w way, database string) {
		c := connect(t, s, w, "default", database)
		run(t, c, allKinds)
		for _, rows := range []uint64{1, sample.Of[uint64](20_000, 2_000)} {
			run(t, c, "TRUNCATE TABLE kinds")
			want := someKinds(rows)
			b, err := c.PrepareBatch(t.Context(), "INSERT INTO kinds")
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if err := b.AppendStruct(&want[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Send(); err != nil {
				t.Fatal(err)
			}
			var got []kinds
			if err := c.Select(t.Context(), &got, "SELECT * FROM kinds ORDER BY n"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("of %d rows (-want +got):\n%.2000s", rows, diff)
			}
		}
		run(t, c, "INSERT INTO kinds (n, s) VALUES (100000, 'inline')")
		if got := text(t, c, "SELECT s FROM kinds WHERE made = 200000"); got != "inline" {
			t.Errorf("found %q", got)
		}
	})
}

func TestEmptyResultHasColumns(t *testing.T) {
	onWays(t, func(t *testing.T, s *clickhousetest.Server, w way, database string) {
		c := connect(t, s, w, "default", database)
		rows, err := c.Query(t.Context(), "SELECT 1 AS a, 'x' AS b WHERE {n:Int8} > 3", clickhouse.Named("n", 2))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		if rows.Next() || rows.Err() != nil {
			t.Errorf("rows, or %v", rows.Err())
		}
		if got := rows.Columns(); w.protocol == clickhouse.Native && !cmp.Equal(got, []string{"a", "b"}) {
			t.Errorf("columns %q", got)
		}
	})
}

func TestSettingsAndParameters(t *testing.T) {
	onWays(t, func(t *testing.T, s *clickhousetest.Server, w way, database string) {
		c := connect(t, s, w, "default", database)
		const ask = "SELECT toString(getSetting('max_block_size'))"
		before := text(t, c, ask)
		var during string
		ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_block_size": 17}))
		if err := c.QueryRow(ctx, ask).Scan(&during); err != nil || during != "17" {
			t.Errorf("with the setting: %s, %v", during, err)
		}
		if got := text(t, c, ask); got != before {
			t.Errorf("afterwards: %s, want %s", got, before)
		}
		ctx = clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"no_such_setting": 1}))
		if err := c.Exec(ctx, "SELECT 1"); code(err) != 115 {
			t.Errorf("an unknown setting: %v, want code 115", err)
		}
		const odd = "tab\t quote' back\\ line\n end"
		if got := text(t, c, "SELECT concat({s:String}, toString({n:UInt64}))", clickhouse.Named("s", odd), clickhouse.Named("n", uint64(7))); got != odd+"7" {
			t.Errorf("parameters: %q, want %q", got, odd+"7")
		}
	})
}

func TestExceptionsHaveCodes(t *testing.T) {
	onWays(t, func(t *testing.T, s *clickhousetest.Server, w way, database string) {
		c := connect(t, s, w, "default", database)
		run(t, c, "CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a")
		for statement, want := range map[string]int32{
			"SELEC 1":                         62,
			"SELECT * FROM none":              60,
			"SELECT a, b FROM t":              47,
			"SELECT throwIf(1, 'on purpose')": 395,
			"CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a": 57,
		} {
			err := c.Exec(t.Context(), statement)
			if code(err) != want {
				t.Errorf("%s: %v, want code %d", statement, err, want)
			}
			if err != nil && strings.Count(err.Error(), "DB::Exception") > 1 {
				t.Errorf("%s: error %v repeats the code or name", statement, err)
			}
		}
		if b, err := c.PrepareBatch(t.Context(), "INSERT INTO none"); code(err) != 60 {
			t.Errorf("insert into no table: %v, %v, want code 60", b, err)
		}
		if b, err := c.PrepareBatch(t.Context(), "INSERT INTO t (a, b)"); err == nil || w.protocol == clickhouse.Native && code(err) != 16 {
			t.Errorf("insert into no column: %v, %v, want code 16", b, err)
		}
		if err := connect(t, s, w, "default", "none").Ping(t.Context()); code(err) != 81 {
			t.Errorf("no database: %v, want code 81", err)
		}
		if got := text(t, c, "SELECT 'goes on'"); got != "goes on" {
			t.Errorf("afterwards: %q", got)
		}
	})
}

func TestReadonlyUserMayOnlyRead(t *testing.T) {
	onWays(t, func(t *testing.T, s *clickhousetest.Server, w way, database string) {
		run(t, connect(t, s, w, "default", database), "CREATE TABLE t (a String) ENGINE = MergeTree ORDER BY a")
		insert(t, connect(t, s, w, "somebody", database), "INSERT INTO t", [][]any{{"x"}})
		c := connect(t, s, w, "readonly", database)
		ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_execution_time": 60}))
		var got string
		if err := c.QueryRow(ctx, "SELECT a FROM t").Scan(&got); err != nil || got != "x" {
			t.Errorf("read %q, %v", got, err)
		}
		for _, statement := range []string{
			"CREATE TABLE u (a Int8) ENGINE = MergeTree ORDER BY a", "DROP TABLE t", "TRUNCATE TABLE t", "ALTER TABLE t ADD COLUMN b Int8",
			"INSERT INTO t VALUES ('y')", "INSERT INTO t SELECT 'y'", "OPTIMIZE TABLE t", "SET readonly = 0",
		} {
			if err := c.Exec(t.Context(), statement); code(err) != 164 {
				t.Errorf("%s: %v, want code 164", statement, err)
			}
		}
		b, err := c.PrepareBatch(t.Context(), "INSERT INTO t")
		if err == nil {
			err = errors.Join(b.Append("y"), b.Send())
		}
		if code(err) != 164 {
			t.Errorf("a batch: %v, want code 164", err)
		}
	})
}

func TestConnectionsRunAtOnce(t *testing.T) {
	onWays(t, func(t *testing.T, s *clickhousetest.Server, w way, database string) {
		run(t, connect(t, s, w, "default", database), "CREATE TABLE t (writer UInt64, n UInt64) ENGINE = MergeTree ORDER BY (writer, n)")
		const writers, batches, rows = 8, 5, 200
		var group sync.WaitGroup
		for writer := range uint64(writers) {
			c := connect(t, s, w, "default", database)
			group.Go(func() {
				for batch := range uint64(batches) {
					b, err := c.PrepareBatch(t.Context(), "INSERT INTO t")
					if err != nil {
						t.Error(err)
						return
					}
					for n := range uint64(rows) {
						err = errors.Join(err, b.Append(writer, batch*rows+n))
					}
					var n uint64
					err = errors.Join(err, b.Send(), c.QueryRow(t.Context(), "SELECT count() FROM t WHERE writer = ?", writer).Scan(&n))
					if err != nil || n != (batch+1)*rows {
						t.Errorf("writer %d finds %d rows after batch %d, %v", writer, n, batch, err)
						return
					}
				}
			})
		}
		group.Wait()
	})
}

// TestCancelledStatementEnds cancels a statement that would take 100 seconds.
func TestCancelledStatementEnds(t *testing.T) {
	const slow = "SELECT sleepEachRow(0.01) FROM numbers(10000) SETTINGS max_block_size = 10, function_sleep_max_microseconds_per_block = 0"
	const running = "SELECT toString(count()) FROM system.processes WHERE query LIKE 'SELECT sleepEachRow%'"
	s := clickhousetest.Start(t)
	for _, w := range []way{{protocol: clickhouse.Native}, {protocol: clickhouse.HTTP}} {
		t.Run(w.protocol.String(), func(t *testing.T) {
			watcher := connect(t, s, way{}, "default", "")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- connect(t, s, w, "default", "").Exec(ctx, slow) }()
			for text(t, watcher, running) == "0" {
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("it ends with %v", err)
			}
			for begin := time.Now(); text(t, watcher, running) != "0"; {
				if time.Since(begin) > 30*time.Second {
					t.Fatal("statement still runs")
				}
			}
		})
	}
}

// TestBatchThatIsLeftInsertsNothing closes the connection in the middle of a batch.
func TestBatchThatIsLeftInsertsNothing(t *testing.T) {
	s := clickhousetest.Start(t)
	database := s.Database(t)
	c := connect(t, s, way{}, "default", database)
	run(t, c, "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a")
	b, err := c.PrepareBatch(t.Context(), "INSERT INTO t")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Append(int64(1)), b.Flush(), b.Abort()); err != nil {
		t.Fatal(err)
	}
	empty, err := c.PrepareBatch(t.Context(), "INSERT INTO t")
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.Send(); err != nil {
		t.Errorf("a batch of no rows: %v", err)
	}
	insert(t, c, "INSERT INTO t (a) SETTINGS max_insert_threads = 1", [][]any{{int64(2)}})
	if got := text(t, c, "SELECT toString(groupArray(a)) FROM t"); got != "[2]" {
		t.Errorf("rows %s, want [2]", got)
	}
}

func TestColumnsAreTakenInTheirOrder(t *testing.T) {
	onWays(t, func(t *testing.T, s *clickhousetest.Server, w way, database string) {
		c := connect(t, s, w, "default", database)
		run(t, c, "CREATE TABLE `odd name` (a Int64, `b c` String, d String DEFAULT 'def') ENGINE = MergeTree ORDER BY a")
		if w.protocol == clickhouse.Native { // The driver rejects such names over HTTP.
			insert(t, c, "INSERT INTO `odd name` (`b c`, a)", [][]any{{"x", int64(1)}})
		} else {
			run(t, c, "INSERT INTO `odd name` (`b c`, a) VALUES ('x', 1)")
		}
		if got := text(t, c, "SELECT concat(toString(a), `b c`, d) FROM `odd name`"); got != "1xdef" {
			t.Errorf("row %s", got)
		}
		rows, err := c.Query(t.Context(), "INSERT INTO `odd name` (a) VALUES (1)")
		if err == nil {
			rows.Close()
		} else if !errors.Is(err, io.EOF) {
			t.Errorf("a query without a result: %v", err)
		}
	})
}
