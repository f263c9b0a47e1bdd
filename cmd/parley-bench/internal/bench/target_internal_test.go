package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSettled(t *testing.T) {
	for _, tt := range []struct {
		name, chunks string
		done, wrong  bool
	}{
		{"nothing", `[]`, false, false},
		{"other chunks", `[{"type":"message-delta","delta":"x"}]`, false, false},
		{"completed", `[{"type":"submission-settled","submissionId":"s","outcome":"completed"}]`, true, false},
		{"of another", `[{"type":"submission-settled","submissionId":"t","outcome":"failed"}]`, false, false},
		{"failed", `[{"type":"submission-settled","submissionId":"s","outcome":"failed"}]`, true, true},
		{"in a reset", `[{"type":"conversation-reset","snapshot":{"settlements":[{"submissionId":"t"},{"submissionId":"s","outcome":"completed"}]}}]`, true, false},
		{"not in a reset", `[{"type":"conversation-reset","snapshot":{"settlements":[]}}]`, false, false},
		{"a text that looks like a settlement", `[{"type":"message-delta","submissionId":"s","delta":"submission-settled"}]`, false, false},
		{"no list", `{"type":"submission-settled"}`, false, true},
	} {
		done, err := settled([]byte(tt.chunks), "s")
		if done != tt.done || (err != nil) != tt.wrong {
			t.Errorf("%s: %v, %v", tt.name, done, err)
		}
	}
}

func FuzzSettled(f *testing.F) {
	f.Add([]byte(`[{"type":"submission-settled","submissionId":"s","outcome":"completed"}]`))
	f.Add([]byte(`[{"type":"conversation-reset","snapshot":{"settlements":[{"submissionId":"s"}]}}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if done, err := settled(b, "s"); done && err == nil && !strings.Contains(string(b), "completed") && !strings.Contains(string(b), `\`) {
			t.Errorf("settled without an outcome: %q", b)
		}
	})
}

// An answer that violates the protocol is an error.
func TestTargetRejectsInvalidAnswers(t *testing.T) {
	answers := map[string]func(http.ResponseWriter){
		"/refuses": func(w http.ResponseWriter) { http.Error(w, "full", http.StatusServiceUnavailable) },
		"/babbles": func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
		"/omits": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"offset":"1"}`))
		},
		"/nowhere": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`[]`)) },
		"/ends":    func(w http.ResponseWriter) { _, _ = w.Write([]byte("event: data\ndata: []\n\n")) },
		"/a%2Fb%3F": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"offset":"1","submissionId":"s"}`))
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers[r.URL.EscapedPath()](w)
	}))
	defer server.Close()
	at, err := newTarget(server.URL+"/", "")
	if err != nil {
		t.Fatal(err)
	}
	defer at.close()
	for id, want := range map[string]string{"refuses": "answered 503: full", "babbles": "decode receipt", "omits": "lacks an offset or a submission", "a/b?": ""} {
		_, took, err := at.post(t.Context(), id, "x")
		if want == "" && (err != nil || took <= 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("post to %s: %v, want %q", id, err, want)
		}
	}
	if _, err := at.settle(t.Context(), "nowhere", receipt{Offset: "1", SubmissionID: "s"}); err == nil || !strings.Contains(err.Error(), "Stream-Next-Offset") {
		t.Errorf("settle: %v", err)
	}
	for id, want := range map[string]string{"refuses": "answered 503", "ends": "EOF"} {
		if _, err := at.stream(t.Context(), id, "1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("stream of %s: %v, want %q", id, err, want)
		}
	}
}
