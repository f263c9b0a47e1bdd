package clickhouse

import (
	"errors"
	"fmt"
	"strings"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// ErrNoSchema reports that the database lacks tables of this package; [Database.Migrate] creates them.
var ErrNoSchema = errors.New("the database has no schema of this version: run its migrations")

// ConnectError reports that no server answered, or that all rejected the user.
type ConnectError struct {
	Addresses []string
	User      string
	Remedy    string
	Err       error
}

// Error implements error. The remedy precedes the driver's text.
func (e *ConnectError) Error() string {
	return fmt.Sprintf("connect to clickhouse at %s as %q: %s (%v)", strings.Join(e.Addresses, ", "), e.User, e.Remedy, e.Err)
}

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// DeniedError reports that the user may not run a statement.
type DeniedError struct {
	User      string
	Statement string // Its first line.
	Grant     string // Grant that permits it.
	Err       error
}

// Error implements error. The remedy precedes the server's text.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("user %q may not run %q; run %s (%v)", e.User, e.Statement, e.Grant, e.Err)
}

// Unwrap returns the cause.
func (e *DeniedError) Unwrap() error { return e.Err }

// NewerSchemaError reports a schema of a newer version, which requires programs that know version
// Need.
type NewerSchemaError struct {
	Database             string
	Version, Known, Need int
}

// Error implements error.
func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("database %q has schema version %d, which needs a program that knows version %d: this one knows %d, upgrade it",
		e.Database, e.Version, e.Need, e.Known)
}

// ServerVersionError reports that the server is too old for the aggregates.
type ServerVersionError struct{ Version, Least string }

// Error implements error.
func (e *ServerVersionError) Error() string {
	return fmt.Sprintf("clickhouse has version %s, refreshable views need at least %s", e.Version, e.Least)
}

// Error codes of the server.
const (
	codeNoSuchColumn    = 16
	codeUnknownTable    = 60
	codeUnknownDatabase = 81
	codeReadonly        = 164
	codeUnknownUser     = 192
	codeWrongPassword   = 193
	codeProhibited      = 392
	codeAccessDenied    = 497
	codeAuthentication  = 516
)

// hasCode reports whether the server returned one of the codes.
func hasCode(err error, codes ...int32) bool {
	var ex *ch.Exception
	if !errors.As(err, &ex) {
		return false
	}
	for _, c := range codes {
		if ex.Code == c {
			return true
		}
	}
	return false
}

func isDenied(err error) bool { return hasCode(err, codeReadonly, codeProhibited, codeAccessDenied) }

// lacksSchema reports whether the error is about a missing table or column.
func lacksSchema(err error) bool {
	return hasCode(err, codeUnknownTable, codeUnknownDatabase, codeNoSuchColumn)
}
