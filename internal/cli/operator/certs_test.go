package operator

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/config"
)

// mutual returns the TLS configuration of a node for both directions.
func mutual(t *testing.T, files config.TLS) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, ServerName: files.Name,
	}
}

// handshake connects two nodes and returns the error of each.
func handshake(t *testing.T, from, to config.TLS) (client, server error) {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	done := make(chan error)
	go func() {
		c := tls.Server(there, mutual(t, to))
		err := c.HandshakeContext(t.Context())
		if err == nil {
			_, err = c.Write([]byte{1})
		}
		there.Close()
		done <- err
	}()
	c := tls.Client(here, mutual(t, from))
	client = c.HandshakeContext(t.Context())
	if client == nil {
		// The server rejects the client's certificate after the handshake of the client.
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			client = err
		}
	}
	here.Close()
	return client, <-done
}

func TestClusterCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "certs")
	first := program.Certificates(t, dir)
	for name, mode := range map[string]os.FileMode{CAFile: 0o644, caKeyFile: 0o600, NodeFile: 0o644, NodeKeyFile: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %v", name, info, err, mode)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 4 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
	if err := cli.CheckCertificates(&first); err != nil {
		t.Error(err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	ca, caKey, node, nodeKey := read(CAFile), read(caKeyFile), read(NodeFile), read(NodeKeyFile)
	old := t.TempDir()
	for name, data := range map[string][]byte{CAFile: ca, NodeFile: node, NodeKeyFile: nodeKey} {
		clitest.Write(t, filepath.Join(old, name), string(data))
	}
	rotated := program.Certificates(t, dir, "--hosts", "node-1.example.com,10.0.0.5,fd00::5", "--days", "36500")
	if !bytes.Equal(read(CAFile), ca) || !bytes.Equal(read(caKeyFile), caKey) {
		t.Error("the authority was not used again")
	}
	if bytes.Equal(read(NodeFile), node) || bytes.Equal(read(NodeKeyFile), nodeKey) {
		t.Error("the pair is the old one")
	}
	pair, err := tls.LoadX509KeyPair(rotated.Cert, rotated.Key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := parseFirst(ca)
	if err != nil {
		t.Fatal(err)
	}
	if !pair.Leaf.NotAfter.Equal(authority.NotAfter) {
		t.Errorf("the pair is valid until %v, its authority until %v", pair.Leaf.NotAfter, authority.NotAfter)
	}
	for _, host := range []string{"parley", "node-1.example.com", "10.0.0.5", "fd00::5"} {
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	// The old pair and the new one accept each other in both directions.
	before := config.TLS{CA: filepath.Join(old, CAFile), Cert: filepath.Join(old, NodeFile), Key: filepath.Join(old, NodeKeyFile), Name: "parley"}
	for _, way := range [][2]config.TLS{{before, rotated}, {rotated, before}} {
		if client, server := handshake(t, way[0], way[1]); client != nil || server != nil {
			t.Errorf("handshake: %v, %v", client, server)
		}
	}
	foreign := program.Certificates(t, t.TempDir())
	if client, server := handshake(t, foreign, rotated); client == nil || server == nil {
		t.Errorf("certificate of another authority: got errors %v, %v, want two", client, server)
	}
	if client, _ := handshake(t, program.Certificates(t, dir, "--name", "others"), before); client == nil {
		t.Error("a node of another name took the certificate")
	}
}

func TestClusterCertsMistakes(t *testing.T) {
	good := t.TempDir()
	program.Certificates(t, good)
	folder := func(names ...string) string {
		dir := t.TempDir()
		for _, name := range names {
			data, err := os.ReadFile(filepath.Join(good, name))
			if err != nil {
				t.Fatal(err)
			}
			clitest.Write(t, filepath.Join(dir, name), string(data))
		}
		return dir
	}
	mixed := folder(CAFile)
	other := t.TempDir()
	program.Certificates(t, other)
	key, err := os.ReadFile(filepath.Join(other, caKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, filepath.Join(mixed, caKeyFile), string(key))
	garbage := folder(caKeyFile)
	clitest.Write(t, filepath.Join(garbage, CAFile), "garbage")
	expired := t.TempDir()
	if err := MakeCertificates(expired, Certs{Name: "parley", Days: 1, CADays: 1}, time.Now().AddDate(0, 0, -2), io.Discard); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no folder":          {nil, "parley cluster certs certs"},
		"two folders":        {[]string{"a", "b"}, "parley cluster certs certs"},
		"folder is a file":   {[]string{clitest.Write(t, filepath.Join(t.TempDir(), "f"), "")}, "not a directory"},
		"key is missing":     {[]string{folder(CAFile)}, "not its key ca-key.pem: put the key there"},
		"authority missing":  {[]string{folder(caKeyFile)}, "not its certificate ca.pem: put the certificate there"},
		"key of another":     {[]string{mixed}, "is not the key of the first certificate"},
		"no certificate":     {[]string{garbage}, "file has no certificate"},
		"authority is old":   {[]string{expired}, "create a new one in another folder"},
		"days are none":      {[]string{good, "--days", "0"}, "from 1 to 36500"},
		"name is an address": {[]string{good, "--name", "10.0.0.5"}, "omit it"},
	} {
		wantCode := 1
		if name == "no folder" || name == "two folders" {
			wantCode = cli.ExitUsage
		}
		if code, out, errOut := program.Output(t, append([]string{"cluster", "certs"}, tt.args...)...); code != wantCode || out != "" || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q, %q; want %q", name, code, out, errOut, tt.want)
		}
	}
}
