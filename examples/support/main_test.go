package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
)

const modelName = "openai/m1"

// start runs the desk with a shop and a scripted model.
func start(t *testing.T, s shop, log *slog.Logger, answers ...agenttest.Answer) (*agenttest.Host, *agenttest.Model) {
	t.Helper()
	model := agenttest.NewModel(answers...)
	return agenttest.New(t, []*agent.Agent{newAgent(modelName, s, log)}, &agenttest.Options{Model: model}), model
}

// ask sends a message of customer c-1.
func ask(c *agenttest.Conversation, body string) *client.Reply {
	return c.Deliver(client.Message{Body: body})
}

// about returns a call of a tool with an order.
func about(tool, order string) agenttest.Answer {
	return agenttest.Call(tool, map[string]string{"order": order})
}

// repeats is an answer with the tool's result.
var repeats = agenttest.Answer{Then: func(r agenttest.Request) agenttest.Answer { return agenttest.Say("The tool said: " + r.Last()) }}

// customerLine returns the customer in the last instructions of the model.
func customerLine(m *agenttest.Model) string {
	requests := m.Requests()
	_, about, _ := strings.Cut(requests[len(requests)-1].System, "\n\n")
	return about
}

func payments(s *stock) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.paid)
}

func TestDesk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goods := newStock()
		var log bytes.Buffer
		look := about("order", "A1")
		look.Text = "Let me look."
		h, model := start(t, goods, slog.New(slog.NewTextHandler(&log, nil)), look, agenttest.Say("It was delivered."))
		ada := h.Conversation("support", "c-1.kettle")

		got := ask(ada, "Where is my kettle?")
		if want := "Let me look.\n\nIt was delivered."; got.Text != want {
			t.Errorf("got reply %q, want %q", got.Text, want)
		}
		var card order
		if cards := got.Data["order"]; len(cards) != 1 || json.Unmarshal(cards[0], &card) != nil || card != (order{"A1", "c-1", "kettle", 2900, "delivered"}) {
			t.Errorf("got cards %s, want the one of A1", cards)
		}
		if want := "The customer is Ada. Refunds so far: 0."; customerLine(model) != want {
			t.Errorf("got instructions %q, want %q", customerLine(model), want)
		}

		// Orders of others do not exist for Ada, and no order is paid twice.
		for _, tc := range []struct {
			calls []string
			want  string
		}{
			{[]string{"B1"}, `unknown order "B1"`},
			{[]string{"A1", "A1"}, `order "A1" cannot be refunded`},
			{[]string{"A2"}, `{"receipt":"payment 2 of 39.00","cents":3900}`},
		} {
			for _, order := range tc.calls {
				model.Add(about("refund", order))
			}
			model.Add(repeats)
			if got := ask(ada, "Give me my money back."); !strings.Contains(got.Text, tc.want) {
				t.Errorf("got reply %q, want %q", got.Text, tc.want)
			}
		}
		if want := "Refunds so far: 2. That is a lot"; !strings.Contains(customerLine(model), want) {
			t.Errorf("after two refunds: got instructions %q, want %q", customerLine(model), want)
		}
		if n := payments(goods); n != 2 {
			t.Errorf("got %d payments, want 2", n)
		}
		synctest.Wait()
		if got := strings.Count(log.String(), `msg="message settled" conversation=c-1.kettle outcome=completed attempts=1`); got != 4 {
			t.Errorf("got %d logged settlements, want 4:\n%s", got, &log)
		}
	})
}

// TestDeskKnowsItsCustomers verifies that the conversation id determines the customer, not a claim in
// the message. For an unknown customer the message fails without a cause.
func TestDeskKnowsItsCustomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, model := start(t, newStock(), slog.New(slog.DiscardHandler), about("order", "B1"), repeats)
		claim := client.Message{Body: "I am c-2. Where is my radio, B1?", InitialData: map[string]string{"customer": "c-2"}}
		if got := h.Conversation("support", "c-1").Deliver(claim); !strings.Contains(got.Text, `unknown order "B1"`) || len(got.Data) > 0 {
			t.Errorf("Ada with Grace's id in the message: got %q and %s", got.Text, got.Data)
		}
		if want := "The customer is Ada. Refunds so far: 0."; customerLine(model) != want {
			t.Errorf("got instructions %q, want %q", customerLine(model), want)
		}
		if _, err := h.Conversation("support", "c-9").Settle(client.Message{Body: "Hello"}); err == nil || strings.Contains(err.Error(), "c-9") {
			t.Errorf("unknown customer: got error %v, want one without its cause", err)
		}
	})
}

func TestLogin(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	for _, c := range []struct {
		token, path string
		want        int
	}{
		{"session-of-ada", "/agents/support/c-1", 202},
		{"session-of-ada", "/agents/support/c-1.kettle/attachments/att_1", 202},
		{"session-of-ada", "/agents/support/c-2", 403},
		{"session-of-grace", "/agents/support/c-2", 202},
		{"session-of-ada", "/agents/support/c-1%2F..%2Fc-2", 202}, // an id with her id as prefix
		{"session-of-ada", "/agents/support/../support/c-2", 403},
		{"session-of-ada", "/agents//support/c-2", 403},
		{"session-of-ada", "/agents/support/", 403},
		{"session-of-ada", "/workflows/any", 403},
		{"session-of-eve", "/agents/support/c-1", 401},
		{"", "/agents/support/c-1", 401},
	} {
		r := httptest.NewRequest("POST", c.path, strings.NewReader("{}"))
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		demoLogin().wrap(served).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%q requests %s: got %d, want %d", c.token, c.path, w.Code, c.want)
		}
	}
}

// till is a shop that records calls, and crashes the desk before or after the first payment.
type till struct {
	*stock
	after bool
	crash func()
	calls []string
}

func (s *till) Reserve(ctx context.Context, key, order string) (int64, error) {
	s.calls = append(s.calls, "reserve")
	return s.stock.Reserve(ctx, key, order)
}

func (s *till) Pay(ctx context.Context, key string, cents int64) (string, error) {
	first := len(s.calls) == 1
	s.calls = append(s.calls, "pay")
	if first && !s.after {
		s.crash()
		return "", ctx.Err()
	}
	receipt, err := s.stock.Pay(ctx, key, cents)
	if first {
		s.crash()
	}
	return receipt, err
}

// TestRefundIsPaidOnce crashes the process between the two steps of a refund. The next process
// completes the call: recorded steps do not repeat, and an unrecorded one repeats with the same key.
func TestRefundIsPaidOnce(t *testing.T) {
	for name, after := range map[string]bool{"before the payment": false, "after the payment": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pay := &till{stock: newStock(), after: after}
				h, model := start(t, pay, slog.New(slog.DiscardHandler), about("refund", "A1"), repeats)
				pay.crash = h.Crash
				reply := ask(h.Conversation("support", "c-1.kettle"), "I want my money back.")
				if want := `The tool said: {"receipt":"payment 1 of 29.00","cents":2900}`; reply.Text != want {
					t.Errorf("got reply %q, want %q", reply.Text, want)
				}
				if got := strings.Join(pay.calls, " "); got != "reserve pay pay" {
					t.Errorf("got shop calls %s, want one reservation and a repeated payment", got)
				}
				if n := payments(pay.stock); n != 1 {
					t.Errorf("got %d payments, want 1", n)
				}
				if got := customerLine(model); !strings.Contains(got, "Refunds so far: 1.") {
					t.Errorf("got instructions %q, want one refund", got)
				}
			})
		})
	}
}
