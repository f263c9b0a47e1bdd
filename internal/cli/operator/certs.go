package operator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/config"
)

// Files of "parley cluster certs".
const (
	CAFile      = "ca.pem"
	caKeyFile   = "ca-key.pem"
	NodeFile    = "node.pem"
	NodeKeyFile = "node-key.pem"
)

// Certs holds the flags of "parley cluster certs".
type Certs struct {
	Name         string
	hosts        []string
	Days, CADays int
}

func clusterCertsCommand() *cobra.Command {
	cfg := Certs{}
	cmd := &cobra.Command{
		Use:   "certs DIR",
		Short: "Create the certificates of nodes",
		Long: "certs creates a certificate authority, and a key pair for nodes that it signs, in a folder:\n\n" +
			"  ca.pem        the authority's certificate; every node needs it\n" +
			"  ca-key.pem    its key; keep it where you create certificates, no node needs it\n" +
			"  node.pem      a node's certificate\n" +
			"  node-key.pem  its key\n\n" +
			"An existing authority is used again, and the pair is replaced: run it again before the pair\n" +
			"expires, or for a node that gets a pair of its own. Running nodes reload changed files.\n\n" +
			"A node is trusted if its certificate is signed by the authority and has the name, regardless of\n" +
			"its host. So copies of one pair may serve all nodes, and every holder of a pair can join.\n" +
			"Keys are ECDSA P-256 and readable only by you.",
		Example: "  parley cluster certs certs\n  parley cluster certs certs --days 30\n  parley cluster certs /etc/parley --name nodes.example.com --hosts node-1.example.com,10.0.0.5",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return errors.New("certs takes one folder: parley cluster certs certs")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return MakeCertificates(args[0], cfg, time.Now(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&cfg.Name, "name", config.DefaultTLSName, "the DNS name in every node's certificate")
	cmd.Flags().StringSliceVar(&cfg.hosts, "hosts", nil, "additional hosts and addresses in the certificate")
	cmd.Flags().IntVar(&cfg.Days, "days", 365, "days until the node's certificate expires")
	cmd.Flags().IntVar(&cfg.CADays, "ca-days", 3650, "days until a new authority expires")
	return cmd
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	made bool
}

// MakeCertificates writes the files and prints the configuration that names them.
func MakeCertificates(dir string, cfg Certs, now time.Time, out io.Writer) error {
	switch {
	case cfg.Days < 1 || cfg.CADays < 1 || cfg.Days > 36500 || cfg.CADays > 36500:
		return errors.New("make certificates: --days and --ca-days are from 1 to 36500")
	case cfg.Name == "" || net.ParseIP(cfg.Name) != nil:
		return fmt.Errorf("make certificates: --name %q is not a name; omit it, or write one such as %s", cfg.Name, config.DefaultTLSName)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	ca, err := openAuthority(dir, cfg, now)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	until, err := ca.sign(dir, cfg, now)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	verb := "used again"
	if ca.made {
		verb = "created; keep " + filepath.Join(dir, caKeyFile) + " away from the nodes"
	}
	_, err = fmt.Fprintf(out, `authority: %s, valid until %s, %s
node pair: %s and %s, for %q, valid until %s

Copy %s, %s and %s to every node, and write into its file:

cluster:
  tls: {ca: %s, cert: %s, key: %s, name: %s}
`, filepath.Join(dir, CAFile), ca.cert.NotAfter.Format(time.DateOnly), verb,
		filepath.Join(dir, NodeFile), filepath.Join(dir, NodeKeyFile), cfg.Name, until.Format(time.DateOnly),
		CAFile, NodeFile, NodeKeyFile,
		strconv.Quote(filepath.Join(dir, CAFile)), strconv.Quote(filepath.Join(dir, NodeFile)), strconv.Quote(filepath.Join(dir, NodeKeyFile)), cfg.Name)
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// openAuthority reads the authority of a folder, or creates one.
func openAuthority(dir string, cfg Certs, now time.Time) (*authority, error) {
	cert, certErr := os.ReadFile(filepath.Join(dir, CAFile))
	key, keyErr := os.ReadFile(filepath.Join(dir, caKeyFile))
	noCert, noKey := errors.Is(certErr, fs.ErrNotExist), errors.Is(keyErr, fs.ErrNotExist)
	switch {
	case noCert && noKey:
		return newAuthority(dir, cfg, now)
	case noKey && certErr == nil:
		return nil, fmt.Errorf("%s has %s but not its key %s: put the key there, or name another folder for a new authority", dir, CAFile, caKeyFile)
	case noCert && keyErr == nil:
		return nil, fmt.Errorf("%s has %s but not its certificate %s: put the certificate there, or name another folder for a new authority", dir, caKeyFile, CAFile)
	case certErr != nil || keyErr != nil:
		return nil, errors.Join(certErr, keyErr)
	}
	ca := &authority{}
	var err error
	if ca.cert, err = parseFirst(cert); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, CAFile), err)
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return nil, fmt.Errorf("read %s: file has no key", filepath.Join(dir, caKeyFile))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, caKeyFile), err)
	}
	own, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !own.PublicKey.Equal(ca.cert.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of the first certificate in %s: put the right one there, or name another folder for a new authority",
			filepath.Join(dir, caKeyFile), CAFile)
	}
	if !ca.cert.NotAfter.After(now) {
		return nil, fmt.Errorf("the authority in %s expired on %s: create a new one in another folder, and put both into the ca.pem of all nodes during the change",
			dir, ca.cert.NotAfter.Format(time.DateOnly))
	}
	ca.key = own
	return ca, nil
}

func parseFirst(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("file has no certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

// backdated allows for clock skew.
const backdated = time.Hour

func newAuthority(dir string, cfg Certs, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "parley cluster authority"},
		NotBefore: now.Add(-backdated), NotAfter: now.AddDate(0, 0, cfg.CADays),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority back: %w", err)
	}
	// The key is written first: a certificate without its key is useless.
	if err := errors.Join(writeKey(filepath.Join(dir, caKeyFile), key), writePEM(filepath.Join(dir, CAFile), "CERTIFICATE", der, 0o644)); err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, made: true}, nil
}

// sign writes the key pair of a node and returns its expiry.
func (ca *authority) sign(dir string, cfg Certs, now time.Time) (time.Time, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return time.Time{}, fmt.Errorf("generate a key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return time.Time{}, err
	}
	until := now.AddDate(0, 0, cfg.Days)
	if until.After(ca.cert.NotAfter) {
		until = ca.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "parley node"}, DNSNames: []string{cfg.Name},
		NotBefore: now.Add(-backdated), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range cfg.hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return time.Time{}, fmt.Errorf("sign the node's certificate: %w", err)
	}
	return until, errors.Join(writeKey(filepath.Join(dir, NodeKeyFile), key), writePEM(filepath.Join(dir, NodeFile), "CERTIFICATE", der, 0o644))
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	return serial, nil
}

func writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	return writePEM(name, "PRIVATE KEY", der, 0o600)
}

// writePEM replaces a file atomically, because a node may be reading it.
func writePEM(name, kind string, der []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	err = errors.Join(f.Chmod(mode), pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}
