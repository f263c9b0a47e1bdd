package channels_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

type dispatcher struct {
	conversation.Dispatcher
	admit func(context.Context, conversation.Admission) (conversation.Receipt, error)
}

func (d dispatcher) Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	return d.admit(ctx, a)
}

// minimal returns a delivery with only the required fields.
func minimal() channels.Delivery {
	return channels.Delivery{Channel: "notes", Agent: "a", InstanceID: "i", DeliveryID: "evt_1", Text: "Hello."}
}

// covers: channels/90 initial_data, channels/90 signal, channels/90 user, channels/91 id_not_UTF-8
// covers: channels/91 id_of_256_characters_with_its_channel, channels/91 long_id, channels/154 reply
// covers: upgrade/38 initial_data
func TestDeliver(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*channels.Delivery)
		want   func(*conversation.Admission)
	}{
		"user": {func(*channels.Delivery) {}, func(*conversation.Admission) {}},
		"signal": {
			func(d *channels.Delivery) {
				d.SignalType, d.TagName, d.Attributes = "notes.page", "page", map[string]string{"id": "p"}
			},
			func(a *conversation.Admission) {
				a.Delivery = conversation.Delivery{Kind: conversation.KindSignal, Body: "Hello.", Type: "notes.page", TagName: "page", Attributes: map[string]string{"id": "p"}}
			},
		},
		"initial data": {
			func(d *channels.Delivery) { d.InitialData = map[string]int{"n": 1} },
			func(a *conversation.Admission) { a.InitialData = []byte(`{"n":1}`) },
		},
		"reply": {
			func(d *channels.Delivery) { d.Notify, d.ReplyAddress = "notes", "there" },
			func(a *conversation.Admission) { a.Notify, a.ReplyAddress = "notes", "there" },
		},
		"long id": {
			func(d *channels.Delivery) { d.DeliveryID = strings.Repeat("é", 256) },
			func(a *conversation.Admission) {
				a.Key = "channel-sha256:" + sum("channel:notes:"+strings.Repeat("é", 256))
			},
		},
		"id of 256 characters with its channel": {
			func(d *channels.Delivery) { d.DeliveryID = strings.Repeat("é", 256-len("channel:notes:")) },
			func(a *conversation.Admission) {
				a.Key = "channel:notes:" + strings.Repeat("é", 256-len("channel:notes:"))
			},
		},
		"id not UTF-8": {
			func(d *channels.Delivery) { d.DeliveryID = "\xff" },
			func(a *conversation.Admission) { a.Key = "channel-sha256:" + sum("channel:notes:\xff") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := conversation.Admission{
				Address: conversation.Address{Agent: "a", ID: "i"}, Key: "channel:notes:evt_1", KeepKey: 8 * 24 * time.Hour, Dispatched: true, Channel: "notes",
				Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "Hello."},
			}
			tt.want(&want)
			var got conversation.Admission
			d := minimal()
			tt.change(&d)
			receipt, err := channels.Deliver(t.Context(), dispatcher{admit: func(_ context.Context, a conversation.Admission) (conversation.Receipt, error) {
				got = a
				return conversation.Receipt{SubmissionID: "sub_1"}, nil
			}}, d)
			if err != nil || receipt.SubmissionID != "sub_1" || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v\n got %+v\nwant %+v", receipt, err, got, want)
			}
		})
	}
}

// covers: channels/92
func TestDeliverRefuses(t *testing.T) {
	for name, change := range map[string]func(*channels.Delivery){
		"no channel": func(d *channels.Delivery) { d.Channel = "" }, "no id": func(d *channels.Delivery) { d.DeliveryID = "" },
		"long channel": func(d *channels.Delivery) { d.Channel = strings.Repeat("x", 1025) }, "channel that is no text": func(d *channels.Delivery) { d.Channel = "\xff" },
		"long address": func(d *channels.Delivery) { d.ReplyAddress = strings.Repeat("x", 1025) }, "address that is no text": func(d *channels.Delivery) { d.ReplyAddress = "\xff" },
		"no agent": func(d *channels.Delivery) { d.Agent = "" }, "no instance": func(d *channels.Delivery) { d.InstanceID = "" },
		"long instance":     func(d *channels.Delivery) { d.InstanceID = strings.Repeat("x", 513) },
		"instance of a dot": func(d *channels.Delivery) { d.InstanceID = "." }, "instance of dots": func(d *channels.Delivery) { d.InstanceID = ".." },
		"instance not UTF-8":   func(d *channels.Delivery) { d.InstanceID = "\xff" },
		"attributes of a user": func(d *channels.Delivery) { d.Attributes = map[string]string{"a": "b"} },
		"tag of a user":        func(d *channels.Delivery) { d.TagName = "a" },
		"bad tag":              func(d *channels.Delivery) { d.SignalType, d.TagName = "x", "<" },
		"no JSON":              func(d *channels.Delivery) { d.InitialData = func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			d := minimal()
			change(&d)
			_, err := channels.Deliver(t.Context(), dispatcher{admit: func(context.Context, conversation.Admission) (conversation.Receipt, error) {
				t.Error("got an admission, want none")
				return conversation.Receipt{}, nil
			}}, d)
			if conversation.CodeOf(err) != conversation.CodeInvalidRequest {
				t.Errorf("got error %v", err)
			}
		})
	}
}

// hook serves a channel that delivers every POST, and returns its log.
func hook(t *testing.T, deadline time.Duration, to conversation.Dispatcher, d func(*http.Request) channels.Delivery) (*parleyhttp.Handler, *bytes.Buffer) {
	t.Helper()
	e := channels.Endpoint{Method: "POST", Path: "/webhook", Deadline: deadline, Accept: func(r *http.Request, _ []byte) (channels.Call, error) {
		if r.Header.Get("X-Forged") != "" {
			return nil, channels.Refuse(http.StatusUnauthorized, "signature")
		}
		return func(ctx context.Context) (any, error) {
			_, err := channels.Deliver(ctx, to, d(r))
			return nil, err
		}, nil
	}}
	log := &bytes.Buffer{}
	h, err := parleyhttp.New(nil, nil, nil, &parleyhttp.Options{
		Channels: map[string]channels.Channel{"hook": routes{e.Route()}},
		Logger:   slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, log
}

func post(h http.Handler, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/channels/hook/webhook", strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestOutcomes verifies status, counter and log of each result; none of them contains content of the
// delivery.
// covers: channels/100, channels/101, channels/95 other_content, channels/99 not_known, channels/99 unavailable
func TestOutcomes(t *testing.T) {
	conflict := conversation.Errorf(conversation.CodeSubmissionConflict, "confidential")
	conflict.Meta = map[string]any{"submissionId": "sub_7"}
	unknown := conversation.InDoubt(conversation.CodeAdmissionUnknown, time.Second, nil)
	unknown.Meta = map[string]any{"idempotencyKey": "confidential"}
	for name, tt := range map[string]struct {
		receipt conversation.Receipt
		err     error
		status  int
		result  channels.Result
		log     string
	}{
		"admitted":      {conversation.Receipt{SubmissionID: "sub_7"}, nil, 200, channels.ResultAdmitted, "submission=sub_7"},
		"again":         {conversation.Receipt{SubmissionID: "sub_7", Deduplicated: true}, nil, 200, channels.ResultDuplicate, "submission=sub_7"},
		"other content": {conversation.Receipt{}, conflict, 200, channels.ResultConflict, "level=INFO msg=\"webhook handled\" channel=hook result=conflict submission=sub_7"},
		"unavailable":   {conversation.Receipt{}, conversation.Unavailable(time.Second, errors.New("confidential")), 503, channels.ResultUnavailable, "result=unavailable"},
		"not known":     {conversation.Receipt{}, unknown, 503, channels.ResultUnavailable, "result=unavailable"},
		"refused":       {conversation.Receipt{}, conversation.Errorf(conversation.CodeInvalidRequest, "Unfit."), 400, channels.ResultRefused, "result=refused"},
		"quarantined":   {conversation.Receipt{}, conversation.Errorf(conversation.CodeQuarantined, "Quarantined."), 423, channels.ResultRefused, "result=refused"},
	} {
		t.Run(name, func(t *testing.T) {
			h, log := hook(t, 0, dispatcher{admit: func(context.Context, conversation.Admission) (conversation.Receipt, error) {
				return tt.receipt, tt.err
			}}, func(*http.Request) channels.Delivery { return minimal() })
			w := post(h, "confidential")
			if w.Code != tt.status || strings.Contains(w.Body.String(), "confidential") {
				t.Errorf("got response %d %s", w.Code, w.Body)
			}
			if got := h.Deliveries(); !reflect.DeepEqual(got, []parleyhttp.Deliveries{{Channel: "hook", Result: tt.result, Count: 1}}) {
				t.Errorf("got counters %+v", got)
			}
			if !strings.Contains(log.String(), tt.log) || strings.Contains(log.String(), "Hello.") {
				t.Errorf("got log %s", log)
			}
		})
	}
	t.Run("rejected", func(t *testing.T) {
		h, _ := hook(t, 0, nil, nil)
		w := post(h, "", "X-Forged", "1")
		if got := h.Deliveries(); w.Code != 401 || len(got) != 1 || got[0].Result != channels.ResultRejected {
			t.Errorf("got status %d and counters %+v", w.Code, got)
		}
	})
	t.Run("panic", func(t *testing.T) {
		h, _ := hook(t, 0, nil, func(*http.Request) channels.Delivery { panic("broken") })
		w := post(h, "")
		if got := h.Deliveries(); w.Code != 500 || len(got) != 1 || got[0].Result != channels.ResultFailed {
			t.Errorf("got status %d and counters %+v", w.Code, got)
		}
	})
	t.Run("invalid", func(t *testing.T) {
		h, _ := hook(t, 0, nil, func(*http.Request) channels.Delivery { return channels.Delivery{} })
		if w := post(h, ""); w.Code != 400 || h.Deliveries()[0].Result != channels.ResultInvalid {
			t.Errorf("got status %d and counters %+v", w.Code, h.Deliveries())
		}
	})
}

// covers: channels/98
func TestDeliverBeforeTheDeadline(t *testing.T) {
	for name, tt := range map[string]struct{ deadline, takes, want time.Duration }{
		"in time": {5 * time.Second, 4 * time.Second, 4 * time.Second}, "too late": {5 * time.Second, 6 * time.Second, 4500 * time.Millisecond},
		"none is known": {0, time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, _ := hook(t, tt.deadline, dispatcher{admit: func(ctx context.Context, _ conversation.Admission) (conversation.Receipt, error) {
					select {
					case <-time.After(tt.takes):
						return conversation.Receipt{SubmissionID: "sub_1"}, nil
					case <-ctx.Done():
						return conversation.Receipt{}, fmt.Errorf("admit: %w", ctx.Err())
					}
				}}, func(*http.Request) channels.Delivery { return minimal() })
				began := time.Now()
				w := post(h, "")
				want := http.StatusOK
				if tt.want < tt.takes {
					want = http.StatusServiceUnavailable
				}
				if took := time.Since(began); took != tt.want || w.Code != want {
					t.Errorf("got %d after %v, want %d after %v", w.Code, took, want, tt.want)
				}
			})
		})
	}
}

// covers: channels/102
func TestDeliverCarriesTheTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var got conversation.Trace
	h, _ := hook(t, 0, dispatcher{admit: func(_ context.Context, a conversation.Admission) (conversation.Receipt, error) {
		got = a.Trace
		return conversation.Receipt{}, nil
	}}, func(*http.Request) channels.Delivery { return minimal() })
	if post(h, "", "Traceparent", parent, "Tracestate", "a=b"); got != (conversation.Trace{Parent: parent, State: "a=b"}) {
		t.Errorf("got trace %+v", got)
	}
}

// TestRedeliveryAfterThreeDays redelivers for days with a new attempt number, after more admissions
// than the conversation keeps keys.
// covers: channels/93, channels/95
func TestRedeliveryAfterThreeDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer { return agenttest.Stall() })
		h := agenttest.New(t, []*agent.Agent{{Name: "notes", Model: "test/model", Instructions: "Note."}}, &agenttest.Options{Model: model, Logger: slog.New(slog.DiscardHandler)})
		deliver := func(id string, attempt int) conversation.Receipt {
			t.Helper()
			receipt, err := channels.Deliver(t.Context(), h.Runtime(), channels.Delivery{
				Channel: "notes", Agent: "notes", InstanceID: "w", DeliveryID: id, SignalType: "notes.event", Text: "{}",
				Attributes: map[string]string{"attempt_number": fmt.Sprint(attempt)},
			})
			if err != nil {
				t.Fatal(err)
			}
			return receipt
		}
		first := deliver("evt_0", 1)
		for n := range 1001 {
			deliver(fmt.Sprint("other_", n), 1)
			if n%500 == 499 { // Aborting queued work is cheaper than running it.
				if _, err := h.Runtime().Abort(t.Context(), conversation.Address{Agent: "notes", ID: "w"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.Crash()
		time.Sleep(72 * time.Hour)
		deliver("another", 1)
		for attempt := 2; attempt < 4; attempt++ {
			if again := deliver("evt_0", attempt); !again.Deduplicated || again.SubmissionID != first.SubmissionID {
				t.Errorf("attempt %d: got receipt %+v, want %+v", attempt, again, first)
			}
		}
		time.Sleep(6 * 24 * time.Hour)
		deliver("one more", 1)
		if again := deliver("evt_0", 4); again.Deduplicated {
			t.Error("got a duplicate after KeepDeliveries, want a new admission")
		}
	})
}
