package server

import (
	"log/slog"
	"net"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/waiting"
)

// pipes is a listener of in-process connections, which a synctest bubble can wait for.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// covers: upgrade/1
func TestServeWithoutMounts(t *testing.T) {
	for _, mounts := range [][]string{nil, {"/echo"}} {
		conf, logs := named("echo"), &waiting.Log{}
		conf.Bucket.Dir, conf.Agents[0].Mounts = t.TempDir(), mounts
		b, err := newConfigured(t.Context(), conf, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, manner{program: &cli.Program{}}, slog.New(slog.NewTextHandler(logs, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
		if warned := logs.With("level=WARN", "no agent has a mount") != ""; warned != (mounts == nil) {
			t.Errorf("mounts %v: logged %s", mounts, logs.String())
		}
	}
}
