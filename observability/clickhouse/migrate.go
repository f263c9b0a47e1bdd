package clickhouse

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/storage"
)

//go:embed migrations/*.sql sql/*.sql
var files embed.FS

// migration is one file: a version of the schema with the statements that upgrade the previous one.
// Every statement may be repeated.
type migration struct {
	version    int
	min        int // Lowest version that programs must know to use the schema.
	checksum   string
	statements []string
}

// versions reads the files: 0001_name.sql and so on, each with a line "-- min: n".
func versions() ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var list []migration
	for i, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m := migration{version: i + 1}
		least := regexp.MustCompile(`(?m)^-- min: (\d+)$`).FindSubmatch(text)
		if !strings.HasPrefix(name, fmt.Sprintf("migrations/%04d_", m.version)) || least == nil {
			return nil, fmt.Errorf("read %s: version number or min line is missing", name)
		}
		m.min, _ = strconv.Atoi(string(least[1])) // The pattern matches digits only.
		sum := sha256.Sum256(text)
		m.checksum = hex.EncodeToString(sum[:])
		for s := range strings.SplitSeq(string(text), ";\n") {
			if s = uncommented(s); s != "" {
				m.statements = append(m.statements, s)
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// uncommented removes comment lines.
func uncommented(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, ""))
}

// leastServer is the first version of the server with stable refreshable views.
const leastServer = "24.10"

const migrationsTable = `CREATE TABLE IF NOT EXISTS parley_migrations
(version UInt32, min_version UInt32, checksum String, node String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3))
ENGINE = MergeTree ORDER BY version`

// Migrate brings the schema to the version of this program, and the expiry of events to
// Options.TTLDays unless Options.KeepExpiry. Several nodes may call it at once. An object in the
// bucket claims each version, so that one node runs its statements and the others wait. If claims is
// nil or does not answer, all nodes run them, which is harmless. node is recorded in the claim and in
// the table parley_migrations.
//
// A current schema needs only read access. A [*DeniedError] names the statement that the user may not
// run; other errors are [*NewerSchemaError] and [*ServerVersionError].
func (d *Database) Migrate(ctx context.Context, claims storage.Bucket, node string) error {
	list, err := versions()
	if err != nil {
		return err
	}
	have, err := d.schema(ctx)
	if hasCode(err, codeUnknownDatabase) && !d.opts.Existing {
		// It existed at Open and was dropped since.
		if err = d.create(ctx); err == nil {
			have, err = d.schema(ctx)
		}
	}
	if err != nil {
		return err
	}
	if err := d.compatible(have, list); err != nil {
		return err
	}
	if have.version < len(list) {
		if err := d.upgrade(ctx, claims, node, list[have.version:]); err != nil {
			return err
		}
	}
	if d.opts.KeepExpiry && have.version > 0 {
		return nil
	}
	return d.expire(ctx)
}

// Check reports whether this program can read the database: nil, [ErrNoSchema] or a
// [*NewerSchemaError].
func (d *Database) Check(ctx context.Context) error {
	list, err := versions()
	if err != nil {
		return err
	}
	have, err := d.schema(ctx)
	if err != nil {
		return err
	}
	if have.version < len(list) {
		return fmt.Errorf("database %q has schema version %d of %d: %w", d.opts.Database, have.version, len(list), ErrNoSchema)
	}
	return d.compatible(have, list)
}

// schema is the content of parley_migrations. Version 0 is an empty database.
type schema struct {
	version, need int
	checksums     map[int]string
}

func (d *Database) schema(ctx context.Context) (schema, error) {
	s := schema{checksums: map[int]string{}}
	rows, err := d.conn.Query(timeless{ctx}, "SELECT version, min_version, checksum FROM parley_migrations ORDER BY version, applied_at")
	if hasCode(err, codeUnknownTable) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read schema version: %w", d.explain("SELECT version FROM parley_migrations", err))
	}
	defer rows.Close()
	for rows.Next() {
		var version, need uint32
		var checksum string
		if err := rows.Scan(&version, &need, &checksum); err != nil {
			return s, fmt.Errorf("read schema version: %w", err)
		}
		s.version, s.need = max(s.version, int(version)), max(s.need, int(need))
		s.checksums[int(version)] = checksum
	}
	if err := rows.Err(); err != nil {
		return s, fmt.Errorf("read schema version: %w", err)
	}
	return s, nil
}

func (d *Database) compatible(have schema, list []migration) error {
	if have.need > len(list) {
		return &NewerSchemaError{Database: d.opts.Database, Version: have.version, Known: len(list), Need: have.need}
	}
	for _, m := range list {
		if sum, ok := have.checksums[m.version]; ok && sum != m.checksum {
			return fmt.Errorf("database %q: version %d of the schema was created by other statements than this program's", d.opts.Database, m.version)
		}
	}
	return nil
}

// upgrade runs migrations in order.
func (d *Database) upgrade(ctx context.Context, claims storage.Bucket, node string, list []migration) error {
	if !atLeast(d.version, leastServer) {
		return &ServerVersionError{Version: d.version, Least: leastServer}
	}
	if err := d.exec(ctx, migrationsTable); err != nil {
		return err
	}
	for _, m := range list {
		c, err := d.claim(ctx, claims, node, m.version)
		if err != nil {
			return fmt.Errorf("claim schema version %d: %w", m.version, err)
		}
		err = d.apply(ctx, node, m)
		c.release(ctx)
		if err != nil {
			return err
		}
	}
	return nil
}

// apply runs a migration unless it has run.
func (d *Database) apply(ctx context.Context, node string, m migration) error {
	have, err := d.schema(ctx)
	if err != nil || have.version >= m.version {
		return err
	}
	for _, statement := range m.statements {
		if err := d.exec(ctx, statement); err != nil {
			return fmt.Errorf("migrate to schema version %d: %w", m.version, err)
		}
	}
	const record = "INSERT INTO parley_migrations (version, min_version, checksum, node) SELECT ?, ?, ?, ?"
	if err := d.exec(ctx, record, m.version, m.min, m.checksum, node); err != nil {
		return fmt.Errorf("record schema version %d: %w", m.version, err)
	}
	d.opts.Logger.Info("schema migrated", "database", d.opts.Database, "version", m.version)
	return nil
}

// exec runs a statement without a result.
func (d *Database) exec(ctx context.Context, statement string, args ...any) error {
	return d.explain(statement, d.conn.Exec(timeless{ctx}, statement, args...))
}

// expire sets the expiry of events to the days of the options. If the user may not, it stays
// unchanged.
func (d *Database) expire(ctx context.Context) error {
	var engine string
	const query = "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'events_raw'"
	switch err := d.conn.QueryRow(timeless{ctx}, query).Scan(&engine); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("database %q has no table events_raw, but parley_migrations lists it; run DROP TABLE parley_migrations, then restart to create the missing tables", d.opts.Database)
	case err != nil:
		return fmt.Errorf("read expiry of events: %w", d.explain(query, err))
	}
	want, statement := "", "ALTER TABLE events_raw REMOVE TTL"
	if d.opts.TTLDays > 0 {
		want = fmt.Sprintf("toDate(ts) + toIntervalDay(%d)", d.opts.TTLDays)
		statement = "ALTER TABLE events_raw MODIFY TTL " + want
	}
	if expiry(engine) == want {
		return nil
	}
	err := d.exec(ctx, statement)
	if err != nil && d.conn.QueryRow(timeless{ctx}, query).Scan(&engine) == nil && expiry(engine) == want {
		return nil // Another node has just removed it.
	}
	if isDenied(err) {
		d.opts.Logger.Warn("expiry of events left as it is", "database", d.opts.Database, "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("set expiry of events to %d days: %w", d.opts.TTLDays, err)
	}
	d.opts.Logger.Info("expiry of events changed", "database", d.opts.Database, "days", d.opts.TTLDays)
	return nil
}

// expiry extracts the TTL from the description of a table, "" if it has none.
func expiry(engine string) string {
	_, ttl, _ := strings.Cut(engine, " TTL ")
	ttl, _, _ = strings.Cut(ttl, " SETTINGS ")
	return ttl
}

// atLeast compares the first two numbers of versions.
func atLeast(version, least string) bool {
	number := func(s string) (major, minor int) {
		_, _ = fmt.Sscanf(s, "%d.%d", &major, &minor) // Parts that are not numbers stay 0.
		return major, minor
	}
	major, minor := number(version)
	leastMajor, leastMinor := number(least)
	return major > leastMajor || major == leastMajor && minor >= leastMinor
}
