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

func TestTLSFilesThatDoNotWork(t *testing.T) {
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
		want  func(*grain.TLSFiles) []string // in the error
	}{
		{"no CA file", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { os.Remove(f.CA) },
			func(f *grain.TLSFiles) []string { return []string{f.CA, "authorities that sign"} }},
		{"CA not named", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { f.CA = "" },
			func(*grain.TLSFiles) []string { return []string{"CA is not named", "name the PEM file"} }},
		{"CA without certificate", files(t, []byte("nothing"), cert, key), nil,
			func(f *grain.TLSFiles) []string { return []string{f.CA, "no certificate in it"} }},
		{"no certificate file", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { os.Remove(f.Cert) },
			func(f *grain.TLSFiles) []string { return []string{f.Cert, "make one that the CA signs", `"parley"`} }},
		{"no key file", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { os.Remove(f.Key) },
			func(f *grain.TLSFiles) []string { return []string{f.Key, "private key of " + f.Cert} }},
		{"key not named", files(t, ca.pem, cert, key), func(f *grain.TLSFiles) { f.Key = "" },
			func(*grain.TLSFiles) []string { return []string{"name both"} }},
		{"another key", files(t, ca.pem, cert, foreignKey), nil,
			func(f *grain.TLSFiles) []string { return []string{f.Cert, f.Key, "belong together"} }},
		{"another authority", files(t, ca.pem, foreign, foreignKey), nil,
			func(f *grain.TLSFiles) []string { return []string{f.Cert, f.CA, "must sign it"} }},
		{"without the name", files(t, ca.pem, nameless, namelessKey), nil,
			func(f *grain.TLSFiles) []string { return []string{f.Cert, `"parley"`, "make one with that name"} }},
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
				t.Fatal("accepted")
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
		want string // in the error, "" is none
	}{
		{"default", grain.Options{}, ""},
		{"everywhere with TLS", grain.Options{Listen: "0.0.0.0:7946", Advertise: "10.0.0.5:7946", TLS: good}, ""},
		{"an address with TLS", grain.Options{Listen: "10.0.0.5:7946", TLS: good}, ""},
		{"insecure on loopback", grain.Options{Listen: "[::1]:0", Insecure: true}, ""},
		{"everywhere without TLS", grain.Options{Listen: "0.0.0.0:7946", Advertise: "10.0.0.5:7946"}, "name TLS files or listen on 127.0.0.1"},
		{"insecure on an address", grain.Options{Listen: "10.0.0.5:7946", Insecure: true}, "name TLS files or listen on 127.0.0.1"},
		{"insecure on a name", grain.Options{Listen: "node-1:7946", Insecure: true}, "only a loopback address"},
		{"insecure with TLS", grain.Options{Insecure: true, TLS: good}, "choose one"},
		{"everywhere and not advertised", grain.Options{Listen: ":7946", TLS: good}, "advertise one"},
		{"no port", grain.Options{Listen: "127.0.0.1"}, "want host:port"},
		{"no such port", grain.Options{Listen: "127.0.0.1:70000"}, "want a port"},
		{"advertised without port", grain.Options{Listen: "127.0.0.1:7946", Advertise: "node-1"}, "want host:port"},
		{"advertised without host", grain.Options{Listen: "127.0.0.1:7946", Advertise: ":7946"}, "needs a host and a port"},
		{"advertised over a free port", grain.Options{Advertise: "127.0.0.1:7946"}, "listen at a port of your choice"},
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
		t.Error("another certificate without a change")
	}

	cert, key := ca.issue(t, nil)
	write(t, f.Cert, cert) // half of a pair
	for range 3 {
		if !same(first, c.Certificate()) {
			t.Fatal("half a pair is in force")
		}
	}
	if n := lines.Count("changed TLS files do not work"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, lines)
	}
	write(t, f.Key, key)
	second := c.Certificate()
	if same(first, second) {
		t.Error("the new pair is not in force")
	}

	write(t, f.CA, next.pem) // an authority that has not signed this certificate
	if !same(second, c.Certificate()) || lines.Count("changed TLS files do not work") != 2 {
		t.Errorf("a CA that disowns the certificate:\n%s", lines)
	}
	if err := os.Remove(f.CA); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.Certificate()
	}
	if n := lines.Count("changed TLS files do not work"); n != 3 {
		t.Errorf("%d warnings after a file is gone, want 3:\n%s", n, lines)
	}
	write(t, f.CA, append(append([]byte(nil), next.pem...), ca.pem...)) // both, as in a rotation of authorities
	cert, key = next.issue(t, nil)
	write(t, f.Cert, cert)
	write(t, f.Key, key)
	if same(second, c.Certificate()) || lines.Count("changed TLS files do not work") != 3 {
		t.Errorf("a certificate of the second authority is not in force:\n%s", lines)
	}
}

func same(a, b tls.Certificate) bool { return string(a.Certificate[0]) == string(b.Certificate[0]) }
