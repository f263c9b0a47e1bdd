package clickhousetest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/internal/proc"
)

type way struct {
	protocol    clickhouse.Protocol
	compression clickhouse.CompressionMethod
}

func ways() map[string]way {
	return map[string]way{
		"native":      {clickhouse.Native, clickhouse.CompressionNone},
		"native lz4":  {clickhouse.Native, clickhouse.CompressionLZ4},
		"native zstd": {clickhouse.Native, clickhouse.CompressionZSTD},
		"http":        {clickhouse.HTTP, clickhouse.CompressionNone},
		"http lz4":    {clickhouse.HTTP, clickhouse.CompressionLZ4},
	}
}

// connect returns a driver connection of a user, in one of the ways.
func connect(t testing.TB, s *clickhousetest.Server, w way, user, database string) driver.Conn {
	t.Helper()
	o := &clickhouse.Options{
		Addr: []string{s.Addr()}, Protocol: w.protocol, MaxOpenConns: 16,
		Auth:        clickhouse.Auth{Username: user, Database: database},
		Compression: &clickhouse.Compression{Method: w.compression},
	}
	if w.protocol == clickhouse.HTTP {
		o.Addr = []string{s.HTTPAddr()}
	}
	c, err := clickhouse.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func run(t testing.TB, c driver.Conn, statement string, args ...any) {
	t.Helper()
	if err := c.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// text returns the single string of a result.
func text(t testing.TB, c driver.Conn, statement string, args ...any) string {
	t.Helper()
	var s string
	if err := c.QueryRow(t.Context(), statement, args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return s
}

func code(err error) int32 {
	var e *clickhouse.Exception
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// onWays runs a test in every way, each in its own database on one server.
func onWays(t *testing.T, test func(t *testing.T, s *clickhousetest.Server, w way, database string)) {
	s := clickhousetest.Start(t)
	for name, w := range ways() {
		t.Run(name, func(t *testing.T) { test(t, s, w, s.Database(t)) })
	}
}

func TestDSNs(t *testing.T) {
	s := clickhousetest.Start(t)
	database := s.Database(t)
	for _, dsn := range []string{s.DSN(database), s.HTTPDSN(database)} {
		o, err := clickhouse.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		c, err := clickhouse.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := text(t, c, "SELECT currentDatabase()"); got != database {
			t.Errorf("%s: in database %s, want %s", dsn, got, database)
		}
	}
}

func TestServersAndDatabasesAreApart(t *testing.T) {
	t.Setenv("PARLEY_TEST_CLICKHOUSE", "")
	first, second := clickhousetest.Start(t), clickhousetest.StartOwn(t)
	here, there := first.Database(t), first.Database(t)
	run(t, connect(t, first, way{}, "default", here), "CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a")
	if err := connect(t, first, way{}, "default", there).Exec(t.Context(), "SELECT * FROM t"); code(err) != 60 {
		t.Errorf("another database: %v, want code 60", err)
	}
	if err := connect(t, &second.Server, way{}, "default", here).Ping(t.Context()); code(err) != 81 {
		t.Errorf("another server: %v, want code 81", err)
	}
}

// TestTestsShareAServer checks that the shared server ends with the process.
func TestTestsShareAServer(t *testing.T) {
	t.Setenv("PARLEY_TEST_CLICKHOUSE", "")
	var s *clickhousetest.Server
	t.Run("inner", func(t *testing.T) { s = clickhousetest.Start(t) })
	if again := clickhousetest.Start(t); again != s {
		t.Errorf("another server at %s, want that at %s", again.Addr(), s.Addr())
	}
	if err := connect(t, s, way{}, "default", "").Ping(t.Context()); err != nil {
		t.Errorf("after a test that used it: %v", err)
	}
}

func TestDatabaseGoesWithItsTest(t *testing.T) {
	s := clickhousetest.Start(t)
	var name string
	t.Run("inner", func(t *testing.T) { name = s.Database(t) })
	if err := connect(t, s, way{}, "default", name).Ping(t.Context()); code(err) != 81 {
		t.Errorf("after the test: %v, want code 81", err)
	}
}

// TestKilledServerKeepsRows acknowledges rows across a merge and several parts, kills the server
// twice, and checks that they remain.
func TestKilledServerKeepsRows(t *testing.T) {
	s := clickhousetest.StartOwn(t)
	database, native, web := s.Database(t), s.Addr(), s.HTTPAddr()
	c := connect(t, &s.Server, way{}, "default", database)
	run(t, c, "CREATE TABLE t (k String, ver UInt64) ENGINE = ReplacingMergeTree(ver) PARTITION BY ver % 2 ORDER BY k")
	for incarnation := range uint64(2) {
		for i := range uint64(5) {
			insert(t, c, "INSERT INTO t", [][]any{{fmt.Sprint("k", i), 10*incarnation + i}, {fmt.Sprint("of", incarnation, "-", i), uint64(7)}})
		}
		s.Stop()
		if conn, err := net.Dial("tcp", native); err == nil {
			conn.Close()
			t.Fatal("server still runs after Stop")
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Addr() != native || s.HTTPAddr() != web {
			t.Errorf("after Restart it is at %s and %s, want %s and %s", s.Addr(), s.HTTPAddr(), native, web)
		}
		c = connect(t, &s.Server, way{}, "default", database)
		if got, want := text(t, c, "SELECT toString(uniqExact(k)) FROM t"), fmt.Sprint(5+5*(incarnation+1)); got != want {
			t.Errorf("%s keys after start %d, want %s", got, incarnation, want)
		}
	}
}

// TestKillInMidInsertKeepsWholeBatches kills the server under four writers. Every acknowledged batch
// remains, and no batch is partial.
func TestKillInMidInsertKeepsWholeBatches(t *testing.T) {
	s := clickhousetest.StartOwn(t)
	database := s.Database(t)
	run(t, connect(t, &s.Server, way{}, "default", database), "CREATE TABLE t (batch String, n UInt64) ENGINE = MergeTree ORDER BY (batch, n)")
	const writers, rows = 4, 500
	acknowledged := make(chan string, 1)
	var group sync.WaitGroup
	for writer := range writers {
		c := connect(t, &s.Server, way{}, "default", database)
		group.Go(func() {
			for i := 0; ; i++ {
				b, err := c.PrepareBatch(t.Context(), "INSERT INTO t")
				if err != nil {
					return
				}
				name := fmt.Sprintf("%d-%d", writer, i)
				for n := range uint64(rows) {
					err = errors.Join(err, b.Append(name, n))
				}
				if errors.Join(err, b.Send()) != nil {
					return
				}
				acknowledged <- name
			}
		})
	}
	var all []string
	for range 20 * writers {
		all = append(all, <-acknowledged)
	}
	s.Stop()
	go func() {
		group.Wait()
		close(acknowledged)
	}()
	for name := range acknowledged {
		all = append(all, name)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := connect(t, &s.Server, way{}, "default", database)
	if got := text(t, c, "SELECT toString(uniqExact(batch)) FROM t WHERE batch IN {names:Array(String)}", clickhouse.Named("names", all)); got != fmt.Sprint(len(all)) {
		t.Errorf("%s batches of %d that were acknowledged", got, len(all))
	}
	if got := text(t, c, fmt.Sprintf("SELECT toString(groupArray((batch, n))) FROM (SELECT batch, count() AS n FROM t GROUP BY batch HAVING n != %d)", rows)); got != "[]" {
		t.Errorf("parts of batches: %s", got)
	}
}

func TestServerEndsWithItsProcess(t *testing.T) {
	proc.EndsWithItsProcess(t, func() string { return clickhousetest.StartOwn(t).Addr() })
}

// failing is a testing.TB that is expected to fail.
type failing struct {
	testing.TB
	message string
}

// Fatalf records the message and ends the goroutine, as testing.TB does.
func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func fails(t *testing.T, start func(testing.TB)) string {
	f, done := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		start(f)
	}()
	<-done
	return f.message
}

func TestNoServerNamesTheRemedy(t *testing.T) {
	sh, err := exec.LookPath("sh")
	dir := t.TempDir()
	if err = errors.Join(err, os.Symlink(sh, filepath.Join(dir, "sh"))); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Chdir(moduleWithoutEngine(t))
	message := fails(t, func(f testing.TB) { clickhousetest.StartOwn(f) })
	for _, want := range []string{"make engine", "PATH", "PARLEY_TEST_CLICKHOUSE"} {
		if !strings.Contains(message, want) {
			t.Errorf("failed with %q, want %s", message, want)
		}
	}
}

func moduleWithoutEngine(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/go.mod", []byte("module none\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestNamedServer names a running server, in place of an external one.
func TestNamedServer(t *testing.T) {
	t.Setenv("PARLEY_TEST_CLICKHOUSE", "")
	s := clickhousetest.Start(t)
	_, port, err := net.SplitHostPort(s.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PARLEY_TEST_CLICKHOUSE", s.DSN("")+"?http_port="+port)
	named := clickhousetest.Start(t)
	if named == s || named.Addr() != s.Addr() || named.HTTPAddr() != s.HTTPAddr() {
		t.Errorf("it is at %s and %s", named.Addr(), named.HTTPAddr())
	}
	var database string
	t.Run("inner", func(t *testing.T) {
		database = named.Database(t)
		if got := text(t, connect(t, named, way{}, "default", database), "SELECT currentDatabase()"); got != database {
			t.Errorf("in database %s, want %s", got, database)
		}
	})
	if err := connect(t, s, way{}, "default", database).Ping(t.Context()); code(err) != 81 {
		t.Errorf("a database after its test: %v, want code 81", err)
	}
	t.Setenv("PARLEY_TEST_CLICKHOUSE", "localhost:9000")
	if message := fails(t, func(f testing.TB) { clickhousetest.Start(f) }); !strings.Contains(message, "PARLEY_TEST_CLICKHOUSE") {
		t.Errorf("invalid DSN: %q", message)
	}
}

// insert sends rows as one batch.
func insert(t testing.TB, c driver.Conn, into string, rows [][]any) {
	t.Helper()
	b, err := c.PrepareBatch(t.Context(), into)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := b.Append(row...); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Send(); err != nil {
		t.Fatal(err)
	}
}
