package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// ParseDSN parses clickhouse://user:password@host:port,host:port/database?secure=true; the schemes
// http and https are accepted too. Its errors never include the password.
func ParseDSN(dsn string) (clickhouse.Options, error) {
	const form = "write for example clickhouse://user:password@127.0.0.1:9000/parley"
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return clickhouse.Options{}, fmt.Errorf("--clickhouse is not the address of a database; %s", form)
	}
	o := clickhouse.Options{Database: strings.Trim(u.Path, "/")}
	port := "9000"
	// Other programs accept secure=1; ParseBool must not turn it into a connection without TLS.
	secure, err := strconv.ParseBool(cmp.Or(u.Query().Get("secure"), "false"))
	if err != nil {
		return o, errors.New("--clickhouse: secure is neither true nor false; write for example clickhouse://127.0.0.1:9440/parley?secure=true")
	}
	switch u.Scheme {
	case "clickhouse", "tcp":
		if secure {
			port = "9440"
		}
	case "http", "https":
		o.HTTP, port = true, "8123"
		if secure = secure || u.Scheme == "https"; secure {
			port = "8443"
		}
	default:
		return o, fmt.Errorf("--clickhouse begins with %q; %s, or with http or https instead of clickhouse", u.Scheme, form)
	}
	if secure {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if !strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":") {
			host += ":" + port
		}
		o.Addresses = append(o.Addresses, host)
	}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	return o, nil
}

// DatabaseOptions returns the client options of a configured ClickHouse.
func DatabaseOptions(c *config.ClickHouse) (clickhouse.Options, error) {
	o := clickhouse.Options{
		Addresses: c.Addresses, HTTP: c.Protocol == config.ProtocolHTTP, Database: c.Database,
		Username: c.Username, Password: c.Password, TTLDays: c.TTLDays,
	}
	if c.TLS == nil {
		return o, nil
	}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS.CA == "" {
		return o, nil
	}
	pem, err := os.ReadFile(c.TLS.CA)
	if err != nil {
		return o, fmt.Errorf("read events.clickhouse.tls.ca: %w", err)
	}
	o.TLS.RootCAs = x509.NewCertPool()
	if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
		return o, fmt.Errorf("read events.clickhouse.tls.ca: %s has no certificate in PEM form", c.TLS.CA)
	}
	return o, nil
}

// HostName returns the host name of this machine, "" if it has none.
func HostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
