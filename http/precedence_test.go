package http_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

// flaw is a defect of a request, and how the response shows that it was decisive.
type flaw struct {
	name    string
	spoil   func(*flawed)
	status  int
	code    conversation.Code
	details string // a word that only this error's details have
}

// flawed is a request under construction. It is valid until a flaw is applied.
type flawed struct {
	method, segment string
	query           []string
	media           string
	members         map[string]string // of the body, by name, as JSON
	cut             bool              // the body lacks its end
	exists          bool              // the conversation exists
}

func (f *flawed) request() *http.Request {
	var list []string
	for _, name := range []string{"kind", "body", "attachments", "uid", "initialData", "idempotencyKey"} {
		if v, ok := f.members[name]; ok {
			list = append(list, `"`+name+`":`+v)
		}
	}
	body := "{" + strings.Join(list, ",") + "}"
	if f.cut {
		body = strings.TrimSuffix(body, "}")
	}
	target := "/agents/assistant/" + f.segment
	if len(f.query) > 0 {
		target += "?" + strings.Join(f.query, "&")
	}
	r := httptest.NewRequest(f.method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", f.media)
	return r
}

// postFlaws are the checks of an admission in their order. The uid condition is there twice: one
// rejection needs a conversation, the other none.
func postFlaws() []flaw {
	const invalid = conversation.CodeInvalidRequest
	member := func(name, value string) func(*flawed) { return func(f *flawed) { f.members[name] = value } }
	return []flaw{
		{"method", func(f *flawed) { f.method = "PUT" }, 405, conversation.CodeMethodNotAllowed, "accepts"},
		{"blank_id", func(f *flawed) { f.segment = "%20" }, 400, invalid, "blank"},
		{"wait", func(f *flawed) { f.query = append(f.query, "wait=") }, 400, invalid, "wait"},
		{"media_type", func(f *flawed) { f.media = "text/plain" }, 415, conversation.CodeUnsupportedMediaType, "text/plain"},
		{"json", func(f *flawed) { f.cut = true }, 400, conversation.CodeInvalidJSON, "parsed"},
		{"shape", member("kind", `"other"`), 400, invalid, "kind"},
		{"shape_of_an_attachment", member("attachments", `[{"type":"image"}]`), 400, invalid, "attachments[0]"},
		{"uid_and_initialData", func(f *flawed) { f.members["uid"], f.members["initialData"] = `"inst_other"`, `{}` }, 400, invalid, "contradict"},
		{"key", func(f *flawed) {
			f.exists, f.members["body"], f.members["idempotencyKey"] = true, `"another payload"`, `"k"`
		},
			409, conversation.CodeSubmissionConflict, "idempotency key"},
		{"uid_of_an_existing_one", func(f *flawed) { f.exists, f.members["uid"] = true, `null` }, 409, conversation.CodeInstanceExists, "inst_1"},
		{"uid_of_an_absent_one", member("uid", `"inst_other"`), 404, conversation.CodeInstanceNotFound, "uid"},
		{"schema", member("initialData", `{"repo":1}`), 400, invalid, "does not fit"},
	}
}

// together reports whether a request can have exactly these two flaws.
func together(a, b string) bool {
	switch a + "+" + b {
	case "uid_of_an_existing_one+uid_of_an_absent_one", // one conversation
		"uid_of_an_absent_one+schema",                // a string uid and initialData are uid_and_initialData
		"uid_and_initialData+uid_of_an_existing_one", // one uid
		"key+schema", "uid_of_an_existing_one+schema": // the schema applies only if the conversation does not exist
		return false
	}
	return true
}

// TestPostPrecedence combines every two flaws of an admission: the earlier check decides the response,
// and nothing is written.
// covers: protocol/188
func TestPostPrecedence(t *testing.T) {
	flaws := postFlaws()
	for i, first := range flaws {
		for _, second := range flaws[i:] {
			if !together(first.name, second.name) {
				continue
			}
			t.Run(first.name+"_before_"+second.name, func(t *testing.T) {
				h := newHarness(t, nil)
				h.rt.schema = func(data json.RawMessage) error {
					if strings.Contains(string(data), "1") {
						return conversation.Errorf(conversation.CodeInvalidRequest, "initialData does not fit.")
					}
					return nil
				}
				f := &flawed{method: "POST", segment: "c1", media: "application/json", members: map[string]string{"kind": `"user"`, "body": `"x"`}}
				second.spoil(f)
				first.spoil(f)
				if f.exists {
					wantStatus(t, h.post("/c1", `{"kind":"user","body":"x","idempotencyKey":"k"}`), http.StatusAccepted)
				}
				before := len(h.rt.blobs) + len(h.rt.convs)
				e := wantError(t, h.serve(f.request()), first.status, first.code)
				if !strings.Contains(e.Details, first.details) {
					t.Errorf("got details %q, want those of %s", e.Details, first.name)
				}
				if after := len(h.rt.blobs) + len(h.rt.convs); after != before {
					t.Errorf("rejected request wrote: %d objects before, %d after", before, after)
				}
			})
		}
	}
}

// TestSchemaIsCheckedLast: a failing condition precedes missing initialData. A request can have both.
func TestSchemaIsCheckedLast(t *testing.T) {
	h := newHarness(t, nil)
	h.rt.schema = func(json.RawMessage) error {
		return conversation.Errorf(conversation.CodeInvalidRequest, "initialData is missing.")
	}
	wantError(t, h.post("/c1", `{"kind":"user","body":"x","uid":"inst_1"}`), 404, conversation.CodeInstanceNotFound)
	wantError(t, h.post("/c1", `{"kind":"user","body":"x","uid":null}`), 400, conversation.CodeInvalidRequest)
	wantError(t, h.post("/c1", hello), 400, conversation.CodeInvalidRequest)
}

// TestGetPrecedence combines the flaws of reads: of the snapshot, then of updates.
// covers: protocol/189
func TestGetPrecedence(t *testing.T) {
	const invalid = conversation.CodeInvalidRequest
	query := func(s ...string) func(*flawed) { return func(f *flawed) { f.query = append(f.query, s...) } }
	method := flaw{"method", func(f *flawed) { f.method = "PATCH" }, 405, conversation.CodeMethodNotAllowed, "accepts"}
	blank := flaw{"blank_id", func(f *flawed) { f.segment = "%20" }, 400, invalid, "blank"}
	absent := flaw{"absent", func(f *flawed) { f.exists = false }, 404, conversation.CodeStreamNotFound, "first admitted message"}
	updates := func(s ...string) func(*flawed) {
		return func(f *flawed) {
			if len(f.query) == 0 || !strings.HasPrefix(f.query[0], "view=") {
				f.query = append([]string{"view=updates"}, f.query...)
			}
			f.query = append(f.query, s...)
		}
	}
	beyond := flaw{"beyond_the_head", updates("offset=" + offset(9)), 500, conversation.CodeStreamStoreFailure, "beyond"}
	for name, flaws := range map[string][]flaw{
		"history": {
			method, blank,
			{"view", func(f *flawed) { f.query = append([]string{"view=bogus"}, f.query...) }, 400, invalid, "bogus"},
			{"offset", query("offset=zz"), 400, invalid, "offset is not supported with"},
			{"tail", query("tail=1"), 400, invalid, "tail is not supported with"},
			{"live", query("live=bogus"), 400, invalid, "live is not supported with"},
			absent,
		},
		"updates": {
			method, blank,
			{"tail", updates("tail=1"), 400, invalid, "tail is not supported"},
			{"no_offset", updates(), 400, invalid, "exactly once"},
			{"live", updates("live=bogus"), 400, invalid, "long-poll or sse"},
			absent,
		},
		"updates_with_an_offset": {
			method, blank,
			{"tail", updates("tail=1"), 400, invalid, "tail is not supported"},
			{"repeated_offset", updates("offset=-1", "offset=zz"), 400, invalid, "exactly once"},
			{"live", updates("live=bogus"), 400, invalid, "long-poll or sse"},
			absent, beyond,
		},
		"updates_with_a_bad_offset": {
			method, blank,
			{"tail", updates("tail=1"), 400, invalid, "tail is not supported"},
			{"offset", updates("offset=zz"), 400, invalid, "must be -1 or an offset"},
			{"live", updates("live=bogus"), 400, invalid, "long-poll or sse"},
			absent,
		},
	} {
		t.Run(name, func(t *testing.T) { getPrecedence(t, flaws) })
	}
}

// getPrecedence combines every two flaws of a read. A read of updates has an offset unless a flaw
// concerns it.
func getPrecedence(t *testing.T, flaws []flaw) {
	for i, first := range flaws {
		for _, second := range flaws[i:] {
			t.Run(first.name+"_before_"+second.name, func(t *testing.T) {
				h := newHarness(t, nil)
				f := &flawed{method: "GET", segment: "c1", exists: true}
				first.spoil(f)
				if second.name != first.name {
					second.spoil(f)
				}
				aboutOffset := strings.Contains(first.name+second.name, "offset") || strings.Contains(first.name+second.name, "head")
				if len(f.query) > 0 && f.query[0] == "view=updates" && !aboutOffset {
					f.query = append(f.query, "offset=-1")
				}
				if f.exists {
					h.create()
				}
				e := wantError(t, h.serve(f.request()), first.status, first.code)
				if !strings.Contains(e.Details, first.details) {
					t.Errorf("%v: got details %q, want those of %s", f.query, e.Details, first.name)
				}
			})
		}
	}
}
