package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/parleyrun/parley/internal/config"
)

// CheckCertificates checks the certificate files of a node as its peers will.
func CheckCertificates(t *config.TLS) error {
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return fmt.Errorf("read the pair %s and %s: %w", t.Cert, t.Key, err)
	}
	authorities, err := os.ReadFile(t.CA)
	if err != nil {
		return fmt.Errorf("read the authorities: %w", err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return fmt.Errorf("read the authorities: %s has no certificate", t.CA)
	}
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	if !slices.ContainsFunc(pair.Leaf.DNSNames, func(n string) bool { return strings.EqualFold(n, t.Name) }) {
		return fmt.Errorf("other nodes would reject %s: it has the names %q, not %q", t.Cert, pair.Leaf.DNSNames, t.Name)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}})
		if err != nil {
			return fmt.Errorf("other nodes would reject %s with %s: %w", t.Cert, t.CA, err)
		}
	}
	return nil
}
