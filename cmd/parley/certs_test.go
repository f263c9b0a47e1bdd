package main

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

	"github.com/parleyrun/parley/internal/config"
)

// certificates makes a folder of "parley cluster certs".
func certificates(t *testing.T, dir string, args ...string) config.TLS {
	t.Helper()
	code, out, errOut := output(t, append([]string{"cluster", "certs", dir}, args...)...)
	if code != 0 || errOut != "" {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	_, paste, _ := strings.Cut(out, "\ncluster:\n")
	src := "bucket: {endpoint: s3.example.com, name: words}\nagents: {echo: {model: demo/parrot}}\ncluster:\n  listen: 10.0.0.5:7946\n" + paste
	conf, err := config.Parse("p.yaml", []byte(src), configOptions())
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return *conf.Cluster.TLS
}

// mutual is how a node connects and is connected to.
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

// handshake connects two nodes and returns what either says.
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
		// What the server thinks of the client's certificate comes after it.
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			client = err
		}
	}
	here.Close()
	return client, <-done
}

func TestClusterCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "certs")
	first := certificates(t, dir)
	for name, mode := range map[string]os.FileMode{caFile: 0o644, caKeyFile: 0o600, nodeFile: 0o644, nodeKeyFile: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %v", name, info, err, mode)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 4 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
	if err := checkCertificates(&first); err != nil {
		t.Error(err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	ca, caKey, node, nodeKey := read(caFile), read(caKeyFile), read(nodeFile), read(nodeKeyFile)
	old := t.TempDir()
	for name, data := range map[string][]byte{caFile: ca, nodeFile: node, nodeKeyFile: nodeKey} {
		write(t, filepath.Join(old, name), string(data))
	}
	rotated := certificates(t, dir, "--hosts", "node-1.example.com,10.0.0.5,fd00::5", "--days", "36500")
	if !bytes.Equal(read(caFile), ca) || !bytes.Equal(read(caKeyFile), caKey) {
		t.Error("the authority was not used again")
	}
	if bytes.Equal(read(nodeFile), node) || bytes.Equal(read(nodeKeyFile), nodeKey) {
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
	// The old pair and the new one know each other, in both directions.
	before := config.TLS{CA: filepath.Join(old, caFile), Cert: filepath.Join(old, nodeFile), Key: filepath.Join(old, nodeKeyFile), Name: "parley"}
	for _, way := range [][2]config.TLS{{before, rotated}, {rotated, before}} {
		if client, server := handshake(t, way[0], way[1]); client != nil || server != nil {
			t.Errorf("handshake: %v, %v", client, server)
		}
	}
	stranger := certificates(t, t.TempDir())
	if client, server := handshake(t, stranger, rotated); client == nil || server == nil {
		t.Errorf("a stranger: %v, %v", client, server)
	}
	if client, _ := handshake(t, certificates(t, dir, "--name", "others"), before); client == nil {
		t.Error("a node of another name took the certificate")
	}
}

func TestClusterCertsMistakes(t *testing.T) {
	good := t.TempDir()
	certificates(t, good)
	folder := func(names ...string) string {
		dir := t.TempDir()
		for _, name := range names {
			data, err := os.ReadFile(filepath.Join(good, name))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, name), string(data))
		}
		return dir
	}
	mixed := folder(caFile)
	other := t.TempDir()
	certificates(t, other)
	key, err := os.ReadFile(filepath.Join(other, caKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(mixed, caKeyFile), string(key))
	garbage := folder(caKeyFile)
	write(t, filepath.Join(garbage, caFile), "garbage")
	expired := t.TempDir()
	if err := makeCertificates(expired, certsConfig{name: "parley", days: 1, caDays: 1}, time.Now().AddDate(0, 0, -2), io.Discard); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no folder":          {nil, "parley cluster certs certs"},
		"two folders":        {[]string{"a", "b"}, "parley cluster certs certs"},
		"folder is a file":   {[]string{write(t, filepath.Join(t.TempDir(), "f"), "")}, "not a directory"},
		"key is missing":     {[]string{folder(caFile)}, "not its key ca-key.pem: put the key there"},
		"authority missing":  {[]string{folder(caKeyFile)}, "not its certificate ca.pem: put the certificate there"},
		"key of another":     {[]string{mixed}, "is not the key of the first certificate"},
		"no certificate":     {[]string{garbage}, "holds no certificate"},
		"authority is old":   {[]string{expired}, "make a new one in another folder"},
		"days are none":      {[]string{good, "--days", "0"}, "from 1 to 36500"},
		"name is an address": {[]string{good, "--name", "10.0.0.5"}, "leave it out"},
	} {
		if code, out, errOut := output(t, append([]string{"cluster", "certs"}, tt.args...)...); code != 1 || out != "" || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q, %q; want %q", name, code, out, errOut, tt.want)
		}
	}
}

// TestServeChecksCertificates starts nodes with files that other nodes would refuse.
func TestServeChecksCertificates(t *testing.T) {
	good, other, expired := t.TempDir(), t.TempDir(), t.TempDir()
	certificates(t, good)
	certificates(t, other, "--name", "others")
	if err := makeCertificates(expired, certsConfig{name: "parley", days: 1, caDays: 9}, time.Now().AddDate(0, 0, -2), io.Discard); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(good, "none.pem")
	in := func(dir string) config.TLS {
		return config.TLS{CA: filepath.Join(dir, caFile), Cert: filepath.Join(dir, nodeFile), Key: filepath.Join(dir, nodeKeyFile), Name: "parley"}
	}
	for name, tt := range map[string]struct {
		change func() config.TLS
		want   string
	}{
		"good":            {func() config.TLS { return in(good) }, ""},
		"no certificate":  {func() config.TLS { f := in(good); f.Cert = none; return f }, none},
		"no authority":    {func() config.TLS { f := in(good); f.CA = none; return f }, none},
		"authority empty": {func() config.TLS { f := in(good); f.CA = f.Key; return f }, "holds no certificate"},
		"another key":     {func() config.TLS { f := in(good); f.Key = in(other).Key; return f }, "does not match"},
		"another CA":      {func() config.TLS { f := in(good); f.CA = in(other).CA; return f }, "other nodes would refuse"},
		"another name":    {func() config.TLS { return in(other) }, "other nodes would refuse"},
		"expired":         {func() config.TLS { return in(expired) }, "expired"},
	} {
		files := tt.change()
		conf := &config.Server{Cluster: &config.Cluster{Listen: "10.0.0.5:7946", TLS: &files}}
		err := checkCluster("p.yaml", conf, false)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `"parley cluster certs" makes a pair that fits`)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}
