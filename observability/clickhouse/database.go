package clickhouse

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Options says which database it is. Addresses are required.
type Options struct {
	// Addresses are host:port of one server, or of several that have the same data. They
	// are tried in order: the next one if one does not answer.
	Addresses []string
	// HTTP selects the HTTP protocol; the ports differ. Otherwise it is the native one.
	HTTP     bool
	Database string      // "" is parley. Created if it is not there and the user may, unless Existing.
	Username string      // "" is default.
	Password string      // "" with both HTTP and TLS is the certificate of TLS.
	TLS      *tls.Config // Nil is without TLS.
	// TTLDays is after how many days the server drops events, up to 15000; Migrate sets it.
	// 0 is never.
	TTLDays int
	// KeepExpiry makes TTLDays that of a new table only: for who does not own the database.
	KeepExpiry bool
	// Existing is for who only reads: a database that is not there is [ErrNoSchema].
	Existing bool
	// DialTimeout bounds a connection to one address, and how long a server may take
	// nothing of what it is sent by the native protocol. 0 is 5 s.
	DialTimeout time.Duration
	// ClaimWait is how long Migrate waits for a node that runs a migration, before it
	// takes that node for dead. 0 is 30 s.
	ClaimWait time.Duration
	Logger    *slog.Logger // Nil discards.
}

// maxTTLDays keeps the expiry of every moment that is stored within the server's dates,
// which end in 2149.
const maxTTLDays = 15_000

func (o Options) filled() (Options, error) {
	o.Addresses = slices.DeleteFunc(slices.Clone(o.Addresses), func(a string) bool { return a == "" })
	if len(o.Addresses) == 0 {
		return o, errors.New("open clickhouse: no address given")
	}
	for _, a := range o.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return o, fmt.Errorf("open clickhouse: address %q: want host:port", a)
		}
	}
	if o.TTLDays < 0 || o.TTLDays > maxTTLDays {
		return o, fmt.Errorf("open clickhouse: %d days until events expire, want 0 to %d", o.TTLDays, maxTTLDays)
	}
	o.Database = cmp.Or(o.Database, "parley")
	o.Username = cmp.Or(o.Username, "default")
	o.DialTimeout = cmp.Or(o.DialTimeout, 5*time.Second)
	o.ClaimWait = cmp.Or(o.ClaimWait, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o, nil
}

// Database is a database of events on a server.
type Database struct {
	opts     Options
	conn     driver.Conn
	version  string
	readOnly bool
	waiting  sync.Map // by key of a claim, when Migrate began to wait for it
}

// Open connects to a database, and creates it if it is not there, unless it shall exist
// already. It makes no tables.
// The error is a [*ConnectError] if no server answers or none lets the user in, and a
// [*DeniedError] if the database is not there and the user may not create it. The
// caller closes the Database.
func Open(ctx context.Context, opts Options) (*Database, error) {
	o, err := opts.filled()
	if err != nil {
		return nil, err
	}
	d := &Database{opts: o}
	err = d.connect(ctx)
	if hasCode(err, codeUnknownDatabase) {
		if o.Existing {
			return nil, d.explain("", err)
		}
		if err = d.create(ctx); err == nil {
			err = d.connect(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Close ends all connections.
func (d *Database) Close() error { return d.conn.Close() }

// ReadOnly reports whether the user may only read, as far as the server says: there is
// no use in a sink then.
func (d *Database) ReadOnly() bool { return d.readOnly }

// Name returns the name of the database.
func (d *Database) Name() string { return d.opts.Database }

// connect makes the pool and asks the server who it is. The error has the code of an
// unknown database if that is the reason.
func (d *Database) connect(ctx context.Context) error {
	conn, err := d.pool(d.opts.Database)
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	var readonly int64
	var mayInsert uint8
	err = conn.QueryRow(timeless{ctx}, "SELECT version(), toInt64(getSetting('readonly'))").Scan(&d.version, &readonly)
	if err != nil {
		_ = conn.Close()
		return d.unreachable(err)
	}
	d.conn = conn
	d.readOnly = readonly != 0
	// Servers that cannot tell find it out at the first insert.
	err = conn.QueryRow(timeless{ctx}, "CHECK GRANT INSERT ON "+quoted(d.opts.Database)+".events_raw").Scan(&mayInsert)
	if err == nil && mayInsert == 0 {
		d.readOnly = true
	}
	return nil
}

// create makes the database.
func (d *Database) create(ctx context.Context) error {
	conn, err := d.pool("default")
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	defer conn.Close()
	statement := "CREATE DATABASE IF NOT EXISTS " + quoted(d.opts.Database)
	if err := conn.Exec(timeless{ctx}, statement); err != nil {
		if isDenied(err) {
			return &DeniedError{User: d.opts.Username, Statement: statement, Err: err,
				Grant: "GRANT CREATE DATABASE ON " + quoted(d.opts.Database) + ".* TO " + quoted(d.opts.Username) + ", or " + statement + " as a user who may"}
		}
		return d.unreachable(err)
	}
	d.opts.Logger.Info("database created", "database", d.opts.Database)
	return nil
}

// unreachable says what to do about an error of the first statement.
func (d *Database) unreachable(err error) error {
	if hasCode(err, codeUnknownDatabase) {
		return err
	}
	return &ConnectError{Addresses: d.opts.Addresses, User: d.opts.Username, Remedy: d.remedy(err), Err: err}
}

// What a server that speaks something else begins with, as the driver shows it: the H of
// an answer of HTTP, and an alert of TLS.
const (
	saysHTTP = "unexpected packet [72]"
	saysTLS  = "unexpected packet [21]"
)

func (d *Database) remedy(err error) string {
	own, other := "of the native protocol (9000, with TLS 9440", "; HTTP has 8123 and 8443)"
	if d.opts.HTTP {
		own, other = "of the HTTP protocol (8123, with TLS 8443", "; the native protocol has 9000 and 9440)"
	}
	var record tls.RecordHeaderError
	switch text := err.Error(); {
	case hasCode(err, codeAuthentication, codeWrongPassword, codeUnknownUser):
		return "check the user and the password"
	case isDenied(err):
		return "the user needs at least GRANT SELECT ON " + quoted(d.opts.Database) + ".*"
	case strings.Contains(text, saysHTTP):
		return "an HTTP server answers there: choose HTTP, or name the port " + own + ")"
	case strings.Contains(text, saysTLS):
		return "the server wants TLS there: switch it on, or name the port " + own + ")"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "the server speaks without TLS there: switch it off, or name the port " + own + ")"
	}
	return "is it running, is this the port " + own + other + ", and does a firewall let it through?"
}

// explain makes errors of the server those of this package.
func (d *Database) explain(statement string, err error) error {
	switch {
	case err == nil:
		return nil
	case isDenied(err):
		return d.denied(statement, err)
	case lacksSchema(err):
		return fmt.Errorf("database %q: %w: %w", d.opts.Database, ErrNoSchema, err)
	}
	return err
}

func (d *Database) denied(statement string, err error) error {
	line, _, _ := strings.Cut(strings.TrimSpace(statement), "\n")
	rights := "SELECT, INSERT, ALTER, CREATE TABLE, CREATE VIEW, DROP TABLE, SYSTEM VIEWS"
	if strings.HasPrefix(line, "SELECT ") { // Who only reads is not told to take more.
		rights = "SELECT"
	}
	return &DeniedError{User: d.opts.Username, Statement: line, Err: err,
		Grant: fmt.Sprintf("GRANT %s ON %s.* TO %s", rights, quoted(d.opts.Database), quoted(d.opts.Username))}
}

// quoted is a name as statements have it.
func quoted(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}
