package grain

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLSFiles are the PEM files with a member's keys. They may be replaced while the member runs: each
// handshake checks them and reads them again if they changed. Files that do not match, such as half of
// a new pair, leave the old ones in use and are logged once.
type TLSFiles struct {
	// CA holds the certificates of the authorities that sign members, one or more.
	CA string
	// Cert and Key are this member's certificate, with intermediates, and its private key. The
	// certificate must be usable for servers and clients.
	Cert, Key string
	// Name is the DNS name in every member's certificate. Zero is "parley".
	Name string
}

// keyFiles reads TLSFiles when they have changed.
type keyFiles struct {
	files TLSFiles
	log   *slog.Logger

	mu   sync.Mutex
	seen [3]os.FileInfo // at the last attempt; nil for a missing file
	set  *keySet        // last valid set
	bad  bool           // the last attempt failed
}

func newKeyFiles(files TLSFiles, log *slog.Logger) (*keyFiles, error) {
	if files.Name == "" {
		files.Name = memberName
	}
	k := &keyFiles{files: files, log: log, seen: statFiles(files)}
	set, err := files.load()
	if err != nil {
		return nil, err
	}
	k.set = set
	return k, nil
}

func (k *keyFiles) current() *keySet {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Stat before reading: a change in between is found at the next handshake.
	now := statFiles(k.files)
	changed := !same(k.seen, now)
	if !changed && !k.bad {
		return k.set
	}
	k.seen = now
	// Failed files are read again even if unchanged: a certificate becomes valid, and a new owner of a
	// key file changes neither its size nor its time.
	set, err := k.files.load()
	if k.bad = err != nil; k.bad {
		if changed {
			k.log.Warn("TLS reload failed; keeping current files", "err", err)
		}
		return k.set
	}
	k.set = set
	k.log.Info("TLS files reloaded")
	return set
}

func statFiles(f TLSFiles) (seen [3]os.FileInfo) {
	for i, name := range []string{f.CA, f.Cert, f.Key} {
		if info, err := os.Stat(name); err == nil {
			seen[i] = info
		}
	}
	return seen
}

func same(a, b [3]os.FileInfo) bool {
	for i := range a {
		switch {
		case a[i] == nil && b[i] == nil:
		case a[i] == nil, b[i] == nil, !os.SameFile(a[i], b[i]),
			a[i].Size() != b[i].Size(), !a[i].ModTime().Equal(b[i].ModTime()):
			return false
		}
	}
	return true
}

// load reads the files and checks that another member with the same CA would accept the certificate.
func (f TLSFiles) load() (*keySet, error) {
	pool, err := f.loadCA()
	if err != nil {
		return nil, err
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("TLS certificate or key file is missing; set both")
	}
	certPEM, err := os.ReadFile(f.Cert)
	if err != nil {
		return nil, fmt.Errorf("read TLS certificate: %w; use one signed by the CA with the DNS name %q", err, f.Name)
	}
	keyPEM, err := os.ReadFile(f.Key)
	if err != nil {
		return nil, fmt.Errorf("read TLS key: %w; use the private key of %s", err, f.Cert)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read TLS certificate %s with key %s: %w; both must be PEM and match", f.Cert, f.Key, err)
	}
	chains, err := f.check(cert, pool)
	if err != nil {
		return nil, err
	}
	set := newKeySet(cert, pool, f.Name)
	set.expiry = expiryOf(cert.Leaf, chains)
	return set, nil
}

func (f TLSFiles) loadCA() (*x509.CertPool, error) {
	if f.CA == "" {
		return nil, errors.New("TLS CA file is missing; set the PEM file of the authority that signs the members")
	}
	caPEM, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("read TLS CA: %w; it must hold the PEM certificates of the authorities that sign the members", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(caPEM) {
		return nil, fmt.Errorf("read TLS CA %s: no certificate found; it must hold the PEM certificates of the authorities that sign the members", f.CA)
	}
	return pool, nil
}

// check returns the chains from the certificate to an authority.
func (f TLSFiles) check(cert tls.Certificate, pool *x509.CertPool) (chains [][]*x509.Certificate, err error) {
	leaf := cert.Leaf
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("read TLS certificate %s: %w", f.Cert, err)
		}
		between.AddCert(c)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		chains, err = leaf.Verify(x509.VerifyOptions{
			Roots: pool, Intermediates: between, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return nil, fmt.Errorf("check TLS certificate %s: %w; it must be signed by %s for servers and clients, and be valid now", f.Cert, err, f.CA)
		}
	}
	if err := carriesName([]*x509.Certificate{leaf}, f.Name); err != nil {
		return nil, fmt.Errorf("check TLS certificate %s: %w; use one with that name", f.Cert, err)
	}
	return chains, nil
}
