package server

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/operator"
	"github.com/parleyrun/parley/internal/config"
)

func TestServeChecksCertificates(t *testing.T) {
	good, other, expired := t.TempDir(), t.TempDir(), t.TempDir()
	program.Certificates(t, good)
	program.Certificates(t, other, "--name", "others")
	if err := operator.MakeCertificates(expired, operator.Certs{Name: "parley", Days: 1, CADays: 9}, time.Now().AddDate(0, 0, -2), io.Discard); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(good, "none.pem")
	in := func(dir string) config.TLS {
		return config.TLS{CA: filepath.Join(dir, operator.CAFile), Cert: filepath.Join(dir, operator.NodeFile), Key: filepath.Join(dir, operator.NodeKeyFile), Name: "parley"}
	}
	for name, tt := range map[string]struct {
		change func() config.TLS
		want   string
	}{
		"good":            {func() config.TLS { return in(good) }, ""},
		"no certificate":  {func() config.TLS { f := in(good); f.Cert = none; return f }, none},
		"no authority":    {func() config.TLS { f := in(good); f.CA = none; return f }, none},
		"authority empty": {func() config.TLS { f := in(good); f.CA = f.Key; return f }, "has no certificate"},
		"another key":     {func() config.TLS { f := in(good); f.Key = in(other).Key; return f }, "does not match"},
		"another CA":      {func() config.TLS { f := in(good); f.CA = in(other).CA; return f }, "other nodes would reject"},
		"another name":    {func() config.TLS { return in(other) }, "other nodes would reject"},
		"expired":         {func() config.TLS { return in(expired) }, "expired"},
	} {
		files := tt.change()
		conf := &config.Server{Cluster: &config.Cluster{Listen: "10.0.0.5:7946", TLS: &files}}
		err := checkCluster("p.yaml", conf, false)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `"parley cluster certs" creates a valid pair`)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

func TestServeRefusesClusters(t *testing.T) {
	e := clitest.NewEndpoint(t, nil)
	dir := t.TempDir()
	program.Certificates(t, dir)
	files := fmt.Sprintf("tls: {ca: %q, cert: %q, key: %q}", filepath.Join(dir, operator.CAFile), filepath.Join(dir, operator.NodeFile), filepath.Join(dir, operator.NodeKeyFile))
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken := busy.Addr().String()
	for name, tt := range map[string]struct {
		lines []string
		flags []string
		want  []string
	}{
		"no certificates":   {[]string{"cluster: {listen: \"127.0.0.1:0\"}"}, nil, []string{"cluster has no tls", "parley cluster certs", "--insecure-cluster"}},
		"insecure, open":    {[]string{"cluster: {listen: \"10.0.0.5:7946\"}"}, []string{"--insecure-cluster"}, []string{"is 10.0.0.5:7946", "loopback address such as 127.0.0.1:7946"}},
		"insecure, any":     {[]string{"cluster: {listen: \"0.0.0.0:7946\", advertise: \"127.0.0.1:7946\"}"}, []string{"--insecure-cluster"}, []string{"write a loopback address"}},
		"insecure and tls":  {[]string{"cluster: {listen: \"127.0.0.1:0\", " + files + "}"}, []string{"--insecure-cluster"}, []string{"names certificates at cluster.tls; omit the flag"}},
		"insecure, alone":   {nil, []string{"--insecure-cluster"}, []string{"has no section cluster; add one"}},
		"admin is taken":    {[]string{"admin: {listen: \"" + taken + "\"}"}, nil, []string{taken, "set another address at admin.listen"}},
		"cluster is taken":  {[]string{"cluster: {listen: \"" + taken + "\", " + files + "}"}, nil, []string{taken, "set another address at cluster.listen"}},
		"intervals unsound": {[]string{"cluster: {listen: \"127.0.0.1:0\", fence: 1h, " + files + "}"}, nil, []string{"lower fence to", "suspect"}},
		"not this machine":  {[]string{"cluster: {listen: \"192.0.2.1:7946\", " + files + "}"}, nil, []string{"correct cluster.listen"}},
	} {
		file := clitest.EchoConfig(t, t.TempDir(), append(tt.lines, e.Line)...)
		code, out, errOut := program.Output(t, append([]string{"serve", "--config", file}, tt.flags...)...)
		for _, want := range tt.want {
			if code != 1 || out != "" || !strings.Contains(errOut, want) {
				t.Errorf("%s: exit %d, %q, %q; want exit 1 and %q", name, code, out, errOut, want)
			}
		}
	}
	file := clitest.EchoConfig(t, t.TempDir(), e.Line, "cluster: {listen: \"127.0.0.1:0\"}")
	if code, _, errOut := program.Output(t, "dev", "--config", file); code != 1 || !strings.Contains(errOut, "dev does not support cluster") {
		t.Errorf("dev: exit %d, %q", code, errOut)
	}
}
