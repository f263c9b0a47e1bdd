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
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

// memberName is the default DNS name of members' certificates.
const memberName = "parley"

type keys interface {
	// current is called at every handshake.
	current() *keySet
}

// keySet is immutable.
type keySet struct {
	cert   tls.Certificate
	pool   *x509.CertPool
	server credentials.TransportCredentials
	client credentials.TransportCredentials
	expiry Expiry // zero for keys without files
}

func (k *keySet) current() *keySet { return k }

// newKeySet requires TLS 1.3 and a peer certificate that chains to pool and has the name. Session
// tickets are off, so that every connection is a full handshake with these keys.
func newKeySet(cert tls.Certificate, pool *x509.CertPool, name string) *keySet {
	verify := func(s tls.ConnectionState) error { return carriesName(s.PeerCertificates, name) }
	return &keySet{
		cert: cert,
		pool: pool,
		server: credentials.NewTLS(&tls.Config{
			MinVersion:             tls.VersionTLS13,
			Certificates:           []tls.Certificate{cert},
			ClientAuth:             tls.RequireAndVerifyClientCert,
			ClientCAs:              pool,
			SessionTicketsDisabled: true,
			VerifyConnection:       verify,
		}),
		client: credentials.NewTLS(&tls.Config{
			MinVersion:             tls.VersionTLS13,
			Certificates:           []tls.Certificate{cert},
			RootCAs:                pool,
			ServerName:             name,
			SessionTicketsDisabled: true,
			VerifyConnection:       verify,
		}),
	}
}

// nameError reports a certificate of a known authority with other names.
type nameError struct {
	want string
	has  []string
}

// Error implements error.
func (e *nameError) Error() string {
	return fmt.Sprintf("certificate has the DNS names %q, want %q among them", e.has, e.want)
}

// carriesName requires the exact name; a wildcard does not match.
func carriesName(chain []*x509.Certificate, name string) error {
	if len(chain) > 0 && slices.ContainsFunc(chain[0].DNSNames, func(n string) bool { return strings.EqualFold(n, name) }) {
		return nil
	}
	e := &nameError{want: name}
	if len(chain) > 0 {
		e.has = chain[0].DNSNames
	}
	return e
}

// newKeys creates an authority, signs one certificate and discards the authority's key. No other
// process can get a certificate that this one accepts.
func newKeys() (*keySet, error) {
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
		// The certificate outlives the process. The hour before now allows for a clock that is set
		// back.
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
		DNSNames:     []string{memberName},
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
	return newKeySet(tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool, memberName), nil
}
