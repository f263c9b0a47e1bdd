package grain_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors/internal/grain"
)

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(tb testing.TB, name string) *authority {
	tb.Helper()
	return newAuthorityFor(tb, name, time.Hour)
}

func newAuthorityFor(tb testing.TB, name string, validity time.Duration) *authority {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	key := newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// issue signs a certificate, modified by change, and returns it and its key as PEM.
func (a *authority) issue(tb testing.TB, change func(*x509.Certificate)) (cert, key []byte) {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "a node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"node-1", "parley"},
	}
	if change != nil {
		change(template)
	}
	private := newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", keyDER)
}

// files writes a CA, a certificate and a key to a folder.
func files(tb testing.TB, ca, cert, key []byte) *grain.TLSFiles {
	tb.Helper()
	dir := tb.TempDir()
	f := &grain.TLSFiles{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "node.pem"), Key: filepath.Join(dir, "node-key.pem"),
	}
	write(tb, f.CA, ca)
	write(tb, f.Cert, cert)
	write(tb, f.Key, key)
	return f
}

// write replaces a file atomically, as a rotation does.
func write(tb testing.TB, name string, content []byte) {
	tb.Helper()
	next := name + ".next"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(next, name); err != nil {
		tb.Fatal(err)
	}
}

func (a *authority) member(tb testing.TB) *grain.TLSFiles {
	tb.Helper()
	cert, key := a.issue(tb, nil)
	return files(tb, a.pem, cert, key)
}

// client returns a configuration that trusts a's members and presents the certificate, if any.
func (a *authority) client(tb testing.TB, cert, key []byte) *tls.Config {
	tb.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	conf := &tls.Config{RootCAs: pool, ServerName: "parley", NextProtos: []string{"h2"}}
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			tb.Fatal(err)
		}
		// Present it even to a server that asks for one of another authority.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return conf
}
