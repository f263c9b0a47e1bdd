package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/internal/fakemodel"
)

// startModel starts a model that does what messages tell it.
func startModel(t *testing.T) (m *fakemodel.Model, url string) {
	t.Helper()
	m = fakemodel.New(nil)
	server := httptest.NewServer(m)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return m, server.URL + "/v1"
}

// start runs the program over a model, and returns where its conversations are, and what
// ends it.
func start(t *testing.T, model string, s shop, log *slog.Logger) (mount string, stop func()) {
	t.Helper()
	t.Setenv("OPENAI_BASE_URL", model)
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var logs bytes.Buffer
	ended := make(chan int, 1)
	data := t.TempDir() // made first, it goes last
	go func() {
		ended <- serve(ctx, data, s, log, w, &logs)
		w.Close()
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("exit %d, %s", code, &logs)
		}
	})
	t.Cleanup(stop)
	line := make([]byte, 1024)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(line[:n])), stop
}

// serve is the program with another shop.
func serve(ctx context.Context, data string, s shop, log *slog.Logger, out, errOut io.Writer) int {
	p := &parley.Program{Agents: []*agent.Agent{newAgent("openai/m1", s, log)}}
	return p.Run(ctx, []string{"dev", "--quiet", "--listen", "127.0.0.1:0", "--data", data}, out, errOut)
}

func open(t *testing.T, mount, id string) *client.Conversation {
	t.Helper()
	c, err := client.New(client.JoinID(mount, id), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a message of customer c-1 and waits for the answer.
func ask(t *testing.T, c *client.Conversation, body string) *client.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	receipt, err := c.Send(ctx, client.Message{Body: body, InitialData: caller{"c-1"}})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.Wait(ctx, receipt)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func payments(s *stock) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.paid)
}

func TestDesk(t *testing.T) {
	model, url := startModel(t)
	goods := newStock()
	var log bytes.Buffer
	mount, stop := start(t, url, goods, slog.New(slog.NewTextHandler(&log, nil)))
	ada := open(t, mount, "ada")
	told := func() string {
		requests := model.Requests()
		_, about, _ := strings.Cut(requests[len(requests)-1].System, "\n\n")
		return about
	}

	got := ask(t, ada, `say="Let me look." tool=order {"order":"A1"} then say="It was delivered."`)
	if want := "Let me look.\n\nIt was delivered."; got.Text != want {
		t.Errorf("said %q, want %q", got.Text, want)
	}
	var card order
	if cards := got.Data["order"]; len(cards) != 1 || json.Unmarshal(cards[0], &card) != nil || card != (order{"A1", "c-1", "kettle", 2900, "delivered"}) {
		t.Errorf("cards are %s, want the one of A1", cards)
	}
	if want := "The customer is Ada. Refunds so far: 0."; told() != want {
		t.Errorf("the model was told %q, want %q", told(), want)
	}

	// Somebody else's order does not exist for Ada.
	got = ask(t, ada, `tool=refund {"order":"B1"}`)
	if want := `The tool said: Error: there is no order "B1"`; got.Text != want {
		t.Errorf("said %q, want %q", got.Text, want)
	}

	got = ask(t, ada, `tool=refund {"order":"A1"} then tool=refund {"order":"A1"}`)
	if want := `The tool said: Error: order "A1" cannot be refunded`; got.Text != want {
		t.Errorf("a second time it said %q, want %q", got.Text, want)
	}
	got = ask(t, ada, `tool=refund {"order":"A2"}`)
	if want := `The tool said: {"receipt":"payment 2 of 39.00","cents":3900}`; got.Text != want {
		t.Errorf("said %q, want %q", got.Text, want)
	}
	if want := "Refunds so far: 2. That is a lot"; !strings.Contains(told(), want) {
		t.Errorf("after two refunds the model was told %q, want %q", told(), want)
	}
	if n := payments(goods); n != 2 {
		t.Errorf("%d payments, want 2", n)
	}

	stop()
	if got := strings.Count(log.String(), `msg="message settled" conversation=ada outcome=completed attempts=1`); got != 4 {
		t.Errorf("%d settlements logged, want 4:\n%s", got, &log)
	}
}

// TestDeskKnowsItsCustomers: who is not a customer is not served, and is told nothing
// of why.
func TestDeskKnowsItsCustomers(t *testing.T) {
	model, url := startModel(t)
	mount, _ := start(t, url, newStock(), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	eve := open(t, mount, "eve")
	if _, err := eve.Send(ctx, client.Message{Body: "Hello"}); err == nil || !strings.Contains(err.Error(), "initialData") {
		t.Errorf("without initial data: %v, want a refusal that names it", err)
	}
	receipt, err := eve.Send(ctx, client.Message{Body: "Hello", InitialData: caller{"c-9"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eve.Wait(ctx, receipt); err == nil || strings.Contains(err.Error(), "c-9") {
		t.Errorf("a stranger: %v, want a failure without its cause", err)
	}
	if diff := cmp.Diff([]fakemodel.Request{}, model.Requests()); diff != "" {
		t.Errorf("the model was asked (-want +got):\n%s", diff)
	}
}
