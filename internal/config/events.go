package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/agent"
)

// Defaults of the section events.
const (
	DefaultEventsDatabase = "parley"
	DefaultTTLDays        = 90
)

// maxTTLDays is the maximum for a server, whose dates end in 2149.
const maxTTLDays = 15_000

// Protocols of ClickHouse.
const (
	ProtocolNative = "native"
	ProtocolHTTP   = "http"
)

// Events configures the destinations of observability events. Each destination gets all events.
type Events struct {
	// Live enables live events. Default true.
	Live bool
	// ClickHouse, JSONL and OTel are nil if they are not configured.
	ClickHouse *ClickHouse
	JSONL      *JSONL
	// Stdout prints events as JSON, one on a line.
	Stdout bool
	OTel   *OTel
}

// Anywhere reports whether there is a destination.
func (e Events) Anywhere() bool {
	return e.ClickHouse != nil || e.JSONL != nil || e.OTel != nil || e.Stdout
}

// ClickHouse is a database of events.
type ClickHouse struct {
	// Addresses are host:port, at least one; each holds the whole database.
	Addresses []string
	// Protocol is native or http. Default native.
	Protocol string
	// Database is the name of the database. Default "parley".
	Database string
	// Username is "" for the server's default. Password is resolved from the named variable.
	Username, Password string
	// TLS is nil for connections without TLS.
	TLS *EventsTLS
	// TTLDays is the retention of events in days; 0 is unlimited. Default 90.
	TTLDays int
	// BatchRows, BatchBytes and FlushEvery bound one write; zero is the default of the sink.
	BatchRows, BatchBytes int
	FlushEvery            time.Duration
}

// EventsTLS configures the verification of a server.
type EventsTLS struct {
	// CA is a file with the certificates of the authorities; "" uses those of the system.
	CA string
}

// JSONL is a file with an event on every line.
type JSONL struct {
	// File is relative to the working directory of the process.
	File string
}

// OTel is a collector of OpenTelemetry.
type OTel struct {
	// Endpoint is the URL of OTLP over HTTP.
	Endpoint string
	// Headers are sent with every request, resolved from the named variable.
	Headers map[string]string
	// Content includes texts of users, models and tools in spans, for the agents whose events include
	// content.
	Content bool
}

func (r *reader) events(dst *Events) func(value) {
	return func(v value) {
		r.fields(v, []field{
			{name: "live", example: "true", read: r.truth(func(t bool) { dst.Live = t })},
			{name: "clickhouse", example: `{addresses: ["clickhouse.example.com:9000"]}`, read: r.clickhouse(&dst.ClickHouse)},
			{name: "jsonl", example: "{file: events.jsonl}", read: r.jsonl(&dst.JSONL)},
			{name: "stdout", example: "true", read: r.truth(func(t bool) { dst.Stdout = t })},
			{name: "otel", example: `{endpoint: "http://127.0.0.1:4318"}`, read: r.otel(&dst.OTel)},
		})
	}
}

// agentEvents reads the content settings of an agent's events.
func (r *reader) agentEvents(dst *agent.Events) func(value) {
	return func(v value) {
		r.fields(v, []field{{name: "content", example: "true", read: r.truth(func(t bool) { dst.Content = t })}})
	}
}

func (r *reader) clickhouse(dst **ClickHouse) func(value) {
	return func(v value) {
		if !r.is(v, mapping) {
			return
		}
		c := &ClickHouse{Protocol: ProtocolNative, Database: DefaultEventsDatabase, TTLDays: DefaultTTLDays}
		r.fields(v, []field{
			{name: "addresses", example: `["clickhouse.example.com:9000"]`, read: r.addresses(&c.Addresses), required: true},
			{name: "protocol", example: ProtocolNative, read: r.text(&c.Protocol, oneOf("protocol", ProtocolNative, ProtocolHTTP))},
			{name: "database", example: DefaultEventsDatabase, read: r.text(&c.Database, checkDatabase)},
			{name: "username", example: "parley", read: r.text(&c.Username, checkUsername)},
			{name: "passwordEnv", example: "CLICKHOUSE_PASSWORD", read: r.variable(&c.Password)},
			{name: "tls", example: "{ca: ca.pem}", read: r.eventsTLS(&c.TLS)},
			{name: "ttlDays", example: "90", read: r.between(0, maxTTLDays, func(n int64) { c.TTLDays = int(n) })},
			{name: "batchRows", example: "20000", read: r.between(1, 1_000_000, func(n int64) { c.BatchRows = int(n) })},
			{name: "batchBytes", example: "8388608", read: r.between(1, 1<<30, func(n int64) { c.BatchBytes = int(n) })},
			{name: "flushEvery", example: "1s", read: r.interval(&c.FlushEvery)},
		})
		*dst = c
	}
}

// addresses reads the hosts of a database.
func (r *reader) addresses(dst *[]string) func(value) {
	return func(v value) {
		r.texts(dst, checkAddress)(v)
		if v.node.kind == list && len(v.node.items) == 0 {
			r.blame(v, fault{"is empty", "write for example " + v.example})
		}
	}
}

// checkAddress accepts addresses that can be dialled.
func checkAddress(s string) fault {
	const remedy = "write host:port, for example clickhouse.example.com:9000, or port 8123 for protocol http"
	if f := checkBare(s); f != (fault{}) {
		return fault{f.problem, f.remedy + ", and name the variable of the password with passwordEnv"}
	}
	if f := checkListen(s); f != (fault{}) {
		return fault{f.problem, remedy}
	}
	if host, port, _ := net.SplitHostPort(s); host == "" || port == "0" {
		return fault{quote(s) + " has no host or no port", remedy}
	}
	return fault{}
}

// oneOf accepts a fixed set of words.
func oneOf(desc string, words ...string) check {
	return func(s string) fault {
		if slices.Contains(words, s) {
			return fault{}
		}
		f := fault{problem: quote(s) + " is not a known " + desc, remedy: "use one of " + strings.Join(words, ", ")}
		if near := nearest(s, words); near != "" {
			f.remedy = "did you mean " + near + "?"
		}
		return f
	}
}

func checkDatabase(s string) fault {
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`).MatchString(s) {
		return fault{quote(s) + " is not the name of a database", "write letters, digits and \"_\", for example " + DefaultEventsDatabase}
	}
	return fault{}
}

func checkUsername(s string) fault {
	if !regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`).MatchString(s) {
		return fault{"is not the name of a user", "write letters, digits, \"_\", \".\" and \"-\", for example parley"}
	}
	return fault{}
}

// eventsTLS reads true, false or the file of the authorities.
func (r *reader) eventsTLS(dst **EventsTLS) func(value) {
	return func(v value) {
		if v.node.kind == boolean {
			r.truth(func(t bool) {
				if t {
					*dst = &EventsTLS{}
				}
			})(v)
			return
		}
		if v.node.kind != mapping && v.node.kind != broken && v.node.kind != null {
			r.blameKey(v, fault{fmt.Sprintf("is %s, want true, false or a mapping", v.node.kind), "write tls: true, or " + v.example})
			return
		}
		if !r.is(v, mapping) {
			return
		}
		t := &EventsTLS{}
		r.fields(v, []field{{name: "ca", example: "ca.pem", read: r.text(&t.CA, checkFile), required: true}})
		*dst = t
	}
}

func (r *reader) jsonl(dst **JSONL) func(value) {
	return func(v value) {
		if !r.is(v, mapping) {
			return
		}
		j := &JSONL{}
		r.fields(v, []field{{name: "file", example: "events.jsonl", read: r.text(&j.File, checkEventsFile)}})
		if !r.written(v, "file") {
			r.missing(v, "file", "events.jsonl")
		}
		*dst = j
	}
}

// checkEventsFile rejects invalid file names.
func checkEventsFile(s string) fault {
	const remedy = "write the path of a file, for example /var/lib/parley/events.jsonl"
	if f := checkDir(s); f != (fault{}) {
		return fault{f.problem, remedy}
	}
	if strings.HasSuffix(s, "/") || strings.ContainsAny(s, "\x00\r\n") {
		return fault{quote(s) + " is not the name of a file", remedy}
	}
	return fault{}
}

func (r *reader) otel(dst **OTel) func(value) {
	return func(v value) {
		if !r.is(v, mapping) {
			return
		}
		o := &OTel{}
		r.fields(v, []field{
			{name: "endpoint", example: `"http://127.0.0.1:4318"`, read: r.text(&o.Endpoint, checkURL)},
			{name: "headersEnv", example: "OTEL_EXPORTER_OTLP_HEADERS", read: r.variableHeaders(&o.Headers)},
			{name: "content", example: "true", read: r.truth(func(t bool) { o.Content = t })},
		})
		if !r.written(v, "endpoint") {
			r.missing(v, "endpoint", `"http://127.0.0.1:4318"`)
		}
		*dst = o
	}
}

// variableHeaders reads the name of a variable that holds headers in the form of OpenTelemetry:
// name=value, separated by commas, values URL-encoded.
func (r *reader) variableHeaders(dst *map[string]string) func(value) {
	return func(v value) {
		var held string
		r.variable(&held)(v)
		if held == "" {
			return
		}
		headers := map[string]string{}
		for pair := range strings.SplitSeq(held, ",") {
			name, encoded, ok := strings.Cut(pair, "=")
			decoded, err := url.PathUnescape(encoded)
			if !ok || err != nil || checkHeaderName(name) != (fault{}) || strings.ContainsAny(decoded, "\x00\r\n") {
				// The value of the variable is not shown.
				r.blame(v, fault{
					"the variable " + quote(v.node.text) + " has no headers",
					"put name=value into it, several with commas between them, and spaces as %20",
				})
				return
			}
			headers[name] = decoded
		}
		*dst = headers
	}
}
