package cli_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability/clickhouse"
)

func TestDatabaseOptions(t *testing.T) {
	dir := t.TempDir()
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	good := clitest.Write(t, filepath.Join(dir, "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	c := config.ClickHouse{Addresses: []string{"ch:9440"}, Protocol: config.ProtocolHTTP, Database: "words", Username: "u", Password: "p", TTLDays: 7}
	o, err := cli.DatabaseOptions(&c)
	if err != nil || !o.HTTP || o.Database != "words" || o.Username != "u" || o.Password != "p" || o.TTLDays != 7 || o.TLS != nil {
		t.Errorf("%+v, %v", o, err)
	}
	c.TLS = &config.EventsTLS{}
	if o, err = cli.DatabaseOptions(&c); err != nil || o.TLS == nil || o.TLS.RootCAs != nil {
		t.Errorf("the system's authorities: %+v, %v", o, err)
	}
	c.TLS.CA = good
	if o, err = cli.DatabaseOptions(&c); err != nil || o.TLS == nil || o.TLS.RootCAs == nil {
		t.Errorf("an authority: %+v, %v", o, err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none.pem"):                                    "no such file",
		clitest.Write(t, filepath.Join(dir, "bad.pem"), "no certificate"): "has no certificate in PEM form",
	} {
		c.TLS.CA = file
		if _, err := cli.DatabaseOptions(&c); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "events.clickhouse.tls.ca") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestParseDSN(t *testing.T) {
	for dsn, want := range map[string]clickhouse.Options{
		"clickhouse://u:p%40@ch:9001/words":     {Addresses: []string{"ch:9001"}, Username: "u", Password: "p@", Database: "words"},
		"clickhouse://a,b:9001":                 {Addresses: []string{"a:9000", "b:9001"}},
		"clickhouse://[fd00::1]":                {Addresses: []string{"[fd00::1]:9000"}},
		"clickhouse://ch/?secure=true":          {Addresses: []string{"ch:9440"}},
		"clickhouse://ch?secure=1":              {Addresses: []string{"ch:9440"}},
		"http://ch/words":                       {Addresses: []string{"ch:8123"}, HTTP: true, Database: "words"},
		"https://reader@ch:8444/words?secure=0": {Addresses: []string{"ch:8444"}, HTTP: true, Username: "reader", Database: "words"},
	} {
		got, err := cli.ParseDSN(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		if secure := strings.Contains(dsn, "https:") || strings.Contains(dsn, "secure=true") || strings.Contains(dsn, "secure=1"); secure != (got.TLS != nil) {
			t.Errorf("%s: TLS %v", dsn, got.TLS)
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(clickhouse.Options{}, "TLS")); d != "" {
			t.Errorf("%s (-want +got):\n%s", dsn, d)
		}
	}
	for _, dsn := range []string{"", "ch:9000", "mysql://u:secret@ch/words", "clickhouse://", "clickhouse://u:secret@ch:x y", "clickhouse://u:secret@ch?secure=yes"} {
		if _, err := cli.ParseDSN(dsn); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
