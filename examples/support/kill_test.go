package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/client"
)

// childEnv holds what this binary needs to be the program, as JSON.
const childEnv = "SUPPORT_TEST_CHILD"

// childConfig is what another process is told; it finds the model by a variable.
type childConfig struct{ Data, Model, Shop string }

func TestMain(m *testing.M) {
	var child childConfig
	if json.Unmarshal([]byte(os.Getenv(childEnv)), &child) != nil {
		os.Exit(m.Run())
	}
	s := &branch{newStock(), child.Shop}
	os.Exit(serve(context.Background(), child.Data, s, slog.New(slog.DiscardHandler), os.Stdout, os.Stderr))
}

// branch is a shop that pays by a service, which outlives it.
type branch struct {
	*stock
	url string
}

type refundCall struct {
	Key, Order string
	Cents      int64
}

// Reserve implements shop.
func (b *branch) Reserve(ctx context.Context, key, order string) (cents int64, err error) {
	return cents, b.call(ctx, "/reserve", refundCall{Key: key, Order: order}, &cents)
}

// Pay implements shop.
func (b *branch) Pay(ctx context.Context, key string, cents int64) (receipt string, err error) {
	return receipt, b.call(ctx, "/pay", refundCall{Key: key, Cents: cents}, &receipt)
}

func (b *branch) call(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", b.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(out)
}

// service is what branches pay by. It notes every call, and calls kill once, when
// somebody pays: before the payment, or after it.
type service struct {
	*stock
	after bool
	kill  func()

	mu    sync.Mutex
	calls []string
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in refundCall
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := r.URL.Path == "/pay" && !strings.Contains(strings.Join(s.calls, " "), "/pay")
	s.calls = append(s.calls, r.URL.Path)
	if first && !s.after {
		s.kill()
		return
	}
	var out any
	if r.URL.Path == "/pay" {
		out, _ = s.Pay(r.Context(), in.Key, in.Cents)
	} else {
		out, _ = s.Reserve(r.Context(), in.Key, in.Order)
	}
	if first {
		s.kill()
		return
	}
	// Only a branch that was killed does not read the answer.
	_ = json.NewEncoder(w).Encode(out)
}

func (s *service) called() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.calls, " ")
}

// startChild runs the program in a process of its own.
func startChild(t *testing.T, child childConfig) (mount string, kill func()) {
	t.Helper()
	spec, err := json.Marshal(child)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(spec), "OPENAI_BASE_URL="+child.Model)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
			t.Errorf("the program ended with %v, want it killed", err)
		}
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), kill
}

// TestRefundIsPaidOnce kills the process between the two steps of a refund. The next
// one finishes the call: what was recorded is not done again, and what was done
// without a record is asked for under the same key.
func TestRefundIsPaidOnce(t *testing.T) {
	for name, after := range map[string]bool{"before the payment": false, "after the payment": true} {
		t.Run(name, func(t *testing.T) {
			model, url := startModel(t)
			pay := &service{stock: newStock(), after: after}
			server := httptest.NewServer(pay)
			defer server.Close()
			child := childConfig{Data: t.TempDir(), Model: url, Shop: server.URL}
			mount, kill := startChild(t, child)
			dead := make(chan struct{})
			pay.kill = func() { kill(); close(dead) }

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			receipt, err := open(t, mount, "ada").Send(ctx, client.Message{
				Body: `tool=refund {"order":"A1"}`, InitialData: caller{"c-1"},
			})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-dead:
			case <-ctx.Done():
				t.Fatal("nobody paid")
			}

			mount, _ = startChild(t, child)
			reply, err := open(t, mount, "ada").Wait(ctx, receipt)
			if err != nil {
				t.Fatal(err)
			}
			if want := `The tool said: {"receipt":"payment 1 of 29.00","cents":2900}`; reply.Text != want {
				t.Errorf("said %q, want %q", reply.Text, want)
			}
			if got := pay.called(); got != "/reserve /pay /pay" {
				t.Errorf("the service was called for %s, want one reservation and a repeated payment", got)
			}
			if n := payments(pay.stock); n != 1 {
				t.Errorf("%d payments, want 1", n)
			}
			requests := model.Requests()
			if got := requests[len(requests)-1].System; !strings.Contains(got, "Refunds so far: 1.") {
				t.Errorf("the model was told %q, want one refund", got)
			}
		})
	}
}
