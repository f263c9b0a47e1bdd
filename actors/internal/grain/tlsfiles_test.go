package grain_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors/internal/grain"
)

func TestInvalidTLSFiles(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "theirs")
	cert, key := ca.issue(t, nil)
	foreign, foreignKey := other.issue(t, nil)
	nameless, namelessKey := ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"elsewhere", "*"} })
	server, serverKey := ca.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] })
	old, oldKey := ca.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	tests := []struct {
		name  string
		files *grain.TLSFiles
		spoil func(*grain.TLSFiles)
		want  func(*grain.TLSFiles) []string // substrings of the error
	}{
		{"no CA file", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { os.Remove(f.CA) },
			func(f *grain.TLSFiles) []string { return []string{f.CA, "authorities that sign"} }},
		{"CA not set", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { f.CA = "" },
			func(*grain.TLSFiles) []string { return []string{"CA file is missing", "set the PEM file"} }},
		{"CA without certificate", files(t, []byte("nothing"), cert, key), nil,
			func(f *grain.TLSFiles) []string { return []string{f.CA, "no certificate found"} }},
		{"no certificate file", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { os.Remove(f.Cert) },
			func(f *grain.TLSFiles) []string { return []string{f.Cert, "signed by the CA", `"parley"`} }},
		{"no key file", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { os.Remove(f.Key) },
			func(f *grain.TLSFiles) []string { return []string{f.Key, "private key of " + f.Cert} }},
		{"key not set", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { f.Key = "" },
			func(*grain.TLSFiles) []string { return []string{"set both"} }},
		{"another key", files(t, ca.pem, cert, foreignKey), nil,
			func(f *grain.TLSFiles) []string { return []string{f.Cert, f.Key, "and match"} }},
		{"another authority", files(t, ca.pem, foreign, foreignKey), nil,
			func(f *grain.TLSFiles) []string { return []string{f.Cert, f.CA, "signed by"} }},
		{"without the name", files(t, ca.pem, nameless, namelessKey), nil,
			func(f *grain.TLSFiles) []string { return []string{f.Cert, `"parley"`, "use one with that name"} }},
		{"for servers only", files(t, ca.pem, server, serverKey), nil,
			func(f *grain.TLSFiles) []string { return []string{f.Cert, "for servers and clients"} }},
		{"expired", files(t, ca.pem, old, oldKey), nil,
			func(f *grain.TLSFiles) []string { return []string{f.Cert, "valid now"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.spoil != nil {
				tt.spoil(tt.files)
			}
			_, err := grain.New(kind, actorFunc(echo), &grain.Options{TLS: tt.files})
			if err == nil {
				t.Fatal("New succeeded, want an error")
			}
			for _, want := range tt.want(tt.files) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

func TestListenAndAdvertise(t *testing.T) {
	good := newAuthority(t, "ours").member(t)
	tests := []struct {
		name string
		opts grain.Options
		want string // substring of the error; "" is no error
	}{
		{"default", grain.Options{}, ""},
		{"everywhere with TLS", grain.Options{Listen: "0.0.0.0:7946", Advertise: "10.0.0.5:7946", TLS: good}, ""},
		{"an address with TLS", grain.Options{Listen: "10.0.0.5:7946", TLS: good}, ""},
		{"insecure on loopback", grain.Options{Listen: "[::1]:0", Insecure: true}, ""},
		{"everywhere without TLS", grain.Options{Listen: "0.0.0.0:7946", Advertise: "10.0.0.5:7946"}, "set TLS files or listen on 127.0.0.1"},
		{"insecure on an address", grain.Options{Listen: "10.0.0.5:7946", Insecure: true}, "set TLS files or listen on 127.0.0.1"},
		{"insecure on a name", grain.Options{Listen: "node-1:7946", Insecure: true}, "needs a loopback address"},
		{"insecure with TLS", grain.Options{Insecure: true, TLS: good}, "choose one"},
		{"everywhere and not advertised", grain.Options{Listen: ":7946", TLS: good}, "set the advertised address"},
		{"no port", grain.Options{Listen: "127.0.0.1"}, "want host:port"},
		{"no such port", grain.Options{Listen: "127.0.0.1:70000"}, "want a port"},
		{"advertised without port", grain.Options{Listen: "127.0.0.1:7946", Advertise: "node-1"}, "want host:port"},
		{"advertised without host", grain.Options{Listen: "127.0.0.1:7946", Advertise: ":7946"}, "host or port is missing"},
		{"advertised over a free port", grain.Options{Advertise: "127.0.0.1:7946"}, "set a listen port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := grain.New(kind, actorFunc(echo), &tt.opts)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestChangedTLSFilesAreReadAgain(t *testing.T) {
	ca, next := newAuthority(t, "ours"), newAuthority(t, "next")
	f := ca.member(t)
	log, lines := newLog()
	c := build(t, actorFunc(echo), &grain.Options{TLS: f, Logger: log})
	first := c.Certificate()
	if !same(first, c.Certificate()) {
		t.Error("certificate changed without a file change")
	}

	cert, key := ca.issue(t, nil)
	write(t, f.Cert, cert) // half of a pair
	for range 3 {
		if !same(first, c.Certificate()) {
			t.Fatal("half a pair is used")
		}
	}
	if n := lines.Count("TLS reload failed"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, lines)
	}
	write(t, f.Key, key)
	second := c.Certificate()
	if same(first, second) {
		t.Error("the new pair is not used")
	}

	write(t, f.CA, next.pem) // an authority that has not signed this certificate
	if !same(second, c.Certificate()) || lines.Count("TLS reload failed") != 2 {
		t.Errorf("unrelated CA: want 2 warnings:\n%s", lines)
	}
	if err := os.Remove(f.CA); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.Certificate()
	}
	if n := lines.Count("TLS reload failed"); n != 3 {
		t.Errorf("%d warnings after a file was removed, want 3:\n%s", n, lines)
	}
	write(t, f.CA, append(append([]byte(nil), next.pem...), ca.pem...)) // both, as in a rotation of authorities
	cert, key = next.issue(t, nil)
	write(t, f.Cert, cert)
	write(t, f.Key, key)
	if same(second, c.Certificate()) || lines.Count("TLS reload failed") != 3 {
		t.Errorf("a certificate of the second authority is not used:\n%s", lines)
	}
}

func same(a, b tls.Certificate) bool { return string(a.Certificate[0]) == string(b.Certificate[0]) }
