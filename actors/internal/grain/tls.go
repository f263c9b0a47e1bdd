package grain

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// keyPair is what one member shows to others and demands of them, in both directions.
type keyPair struct {
	server *tls.Config
	client *tls.Config
}

// newKeyPair makes an authority, signs one certificate for host and forgets the authority's key: no
// other process can ever get a certificate that this one accepts.
func newKeyPair(host string) (*keyPair, error) {
	now := time.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate authority key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate member key: %w", err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "parley member authority"},
		// A certificate outlives every process; an hour back allows for a clock that is set while it runs.
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	member := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "parley member"},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.ParseIP(host)},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, caKey.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("sign authority certificate: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, member, authority, key.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("sign member certificate: %w", err)
	}
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, fmt.Errorf("parse authority certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return mutual(tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool), nil
}

func mutual(cert tls.Certificate, pool *x509.CertPool) *keyPair {
	return &keyPair{
		server: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{cert},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    pool,
		},
		client: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{cert},
			RootCAs:      pool,
		},
	}
}
