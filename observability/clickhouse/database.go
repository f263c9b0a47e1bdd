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

// Options select a database. Addresses are required.
type Options struct {
	// Addresses are host:port of one server, or of several replicas. They are tried in order until one
	// answers.
	Addresses []string
	// Use the HTTP protocol, which has other ports, in place of the native one.
	HTTP     bool
	Database string      // "" is parley. Created if absent and the user may, unless Existing.
	Username string      // "" is default.
	Password string      // "" with both HTTP and TLS uses the TLS certificate.
	TLS      *tls.Config // Nil disables TLS.
	// TTLDays is the number of days after which the server drops events, up to 15000; Migrate sets it.
	// 0 is never.
	TTLDays int
	// KeepExpiry applies TTLDays to a new table only, for callers that do not own the database.
	KeepExpiry bool
	// Existing makes an absent database [ErrNoSchema], for callers that only read.
	Existing bool
	// DialTimeout bounds a connection to one address, and how long a server may stop reading the
	// native protocol. 0 is 5 s.
	DialTimeout time.Duration
	// ClaimWait is how long Migrate waits for a node that runs a migration before it counts as
	// crashed. 0 is 30 s.
	ClaimWait time.Duration
	Logger    *slog.Logger // Nil discards.
}

// maxTTLDays keeps every expiry within the server's dates, which end in 2149.
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
	waiting  sync.Map // by key of a claim: the time at which Migrate began to wait
}

// Open connects to a database and creates it if it is absent, unless Options.Existing. It creates no
// tables. It returns a [*ConnectError] if no server answers or all reject the user, and a
// [*DeniedError] if the user may not create the absent database. The caller closes the Database.
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

// Close closes all connections.
func (d *Database) Close() error { return d.conn.Close() }

// ReadOnly reports whether the server says that the user may only read, so that a sink is useless.
func (d *Database) ReadOnly() bool { return d.readOnly }

// Name returns the name of the database.
func (d *Database) Name() string { return d.opts.Database }

// connect creates the pool and checks the server and the user. Its error has the server's code for an
// unknown database in that case.
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
	// Servers without this statement report it at the first insert.
	err = conn.QueryRow(timeless{ctx}, "CHECK GRANT INSERT ON "+quoted(d.opts.Database)+".events_raw").Scan(&mayInsert)
	if err == nil && mayInsert == 0 {
		d.readOnly = true
	}
	return nil
}

// create creates the database.
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

// unreachable adds the remedy to an error of the first statement.
func (d *Database) unreachable(err error) error {
	if hasCode(err, codeUnknownDatabase) {
		return err
	}
	return &ConnectError{Addresses: d.opts.Addresses, User: d.opts.Username, Remedy: d.remedy(err), Err: err}
}

// First byte from a server of another protocol, as shown by the driver: the H of an HTTP response, and
// a TLS alert.
const (
	textHTTP = "unexpected packet [72]"
	textTLS  = "unexpected packet [21]"
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
	case strings.Contains(text, textHTTP):
		return "an HTTP server answers there: choose HTTP, or name the port " + own + ")"
	case strings.Contains(text, textTLS):
		return "the server wants TLS there: switch it on, or name the port " + own + ")"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "the server speaks without TLS there: switch it off, or name the port " + own + ")"
	}
	return "is it running, is this the port " + own + other + ", and does a firewall let it through?"
}

// explain maps errors of the server to those of this package.
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
	if strings.HasPrefix(line, "SELECT ") { // Readers do not need further grants.
		rights = "SELECT"
	}
	return &DeniedError{User: d.opts.Username, Statement: line, Err: err,
		Grant: fmt.Sprintf("GRANT %s ON %s.* TO %s", rights, quoted(d.opts.Database), quoted(d.opts.Username))}
}

// quoted quotes a name for a statement.
func quoted(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}
