package http_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

func withCancel(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	return r.WithContext(ctx), cancel
}

// covers: protocol/187, upgrade/1
func TestNewChecksMounts(t *testing.T) {
	for path, ok := range map[string]bool{
		"/": true, "/agents/assistant": true, "/a-b._~9": true, "": false, "agents": false, "/a/": false,
		"/a//b": false, "/:id": false, "/a/{id}": false, "/a/*": false, "/a/..": false, "/./a": false,
		"/a b": false, "/é": false, "/a%2Fb": false, "/a?b": false,
	} {
		_, err := parleyhttp.New(newRuntime(), newRuntime(), []parleyhttp.Mount{{Path: path, Agent: "a"}}, nil)
		if (err == nil) != ok {
			t.Errorf("mount %q: %v", path, err)
		}
	}
	for name, mounts := range map[string][]parleyhttp.Mount{
		"duplicate": {{Path: "/a", Agent: "x"}, {Path: "/a", Agent: "y"}},
		"no_agent":  {{Path: "/a"}},
	} {
		if _, err := parleyhttp.New(newRuntime(), newRuntime(), mounts, nil); err == nil {
			t.Errorf("invalid %s was accepted", name)
		}
	}
	for name, opts := range map[string]*parleyhttp.Options{
		"relative_public_url": {PublicURL: "/x"}, "public_url_query": {PublicURL: "https://h/?q=1"},
		"public_url_scheme": {PublicURL: "ftp://h"}, "negative_limit": {MaxBodyBytes: -1}, "negative_time": {Heartbeat: -1},
	} {
		if _, err := parleyhttp.New(newRuntime(), newRuntime(), nil, opts); err == nil {
			t.Errorf("invalid %s was accepted", name)
		}
	}
}

// roster is a runtime that knows its agents.
type roster struct {
	*fakeRuntime
	agents []string
}

func (r roster) Serves(agent string) bool { return slices.Contains(r.agents, agent) }

func TestNewChecksAgents(t *testing.T) {
	mounts := []parleyhttp.Mount{{Path: "/a", Agent: "assistant"}, {Path: "/b/c", Agent: "stranger"}}
	rt := newRuntime()
	if _, err := parleyhttp.New(rt, rt, mounts, nil); err != nil {
		t.Errorf("dispatcher without an agent list: got error %v", err)
	}
	if _, err := parleyhttp.New(roster{rt, []string{"assistant", "stranger", "unmounted"}}, rt, mounts, nil); err != nil {
		t.Errorf("all agents registered: got error %v", err)
	}
	_, err := parleyhttp.New(roster{rt, []string{"assistant"}}, rt, mounts, nil)
	if err == nil {
		t.Fatal("mount of an unregistered agent was accepted")
	}
	for _, want := range []string{`"/b/c"`, `"stranger"`, "register it"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %q, want %s in it", err, want)
		}
	}
}

// TestRoutes covers the whole matrix of methods and routes.
// covers: protocol/1, protocol/95, protocol/135, protocol/145, protocol/180, protocol/195
func TestRoutes(t *testing.T) {
	const notFound = 404
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"}
	const all = "GET, HEAD, POST"
	for _, tt := range []struct {
		path  string
		want  []int // by method
		allow string
	}{
		{"/agents/assistant/c1", []int{200, 200, 202, 405, 405, 405, 405, 405, 405}, all},
		{"/support/c1", []int{200, 200, 202, 405, 405, 405, 405, 405, 405}, all},
		{"/agents/assistant/%20%E2%80%83%EF%BB%BF", []int{400, 400, 400, 405, 405, 405, 405, 405, 405}, all},
		{"/agents/assistant/", []int{400, 400, 400, 405, 405, 405, 405, 405, 405}, all},
		{"/agents/assistant", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/agents/assistant/c1/", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/agents/assistant/c1/abort", []int{405, 405, 200, 405, 405, 405, 405, 405, 405}, "POST"},
		{"/support/unknown/abort", []int{405, 405, 200, 405, 405, 405, 405, 405, 405}, "POST"},
		{"/agents/assistant/%20%E2%80%83%EF%BB%BF/abort", []int{405, 405, 400, 405, 405, 405, 405, 405, 405}, "POST"},
		{"/agents/assistant//abort", []int{405, 405, 400, 405, 405, 405, 405, 405, 405}, "POST"},
		{"/agents/assistant/c1/attachments/att_1", []int{200, 405, 405, 405, 405, 405, 405, 405, 405}, "GET"},
		{"/support/c1/attachments/att_1", []int{200, 405, 405, 405, 405, 405, 405, 405, 405}, "GET"},
		{"/agents/assistant/%20/attachments/att_1", []int{400, 405, 405, 405, 405, 405, 405, 405, 405}, "GET"},
		{"/agents/assistant//attachments/att_1", []int{400, 405, 405, 405, 405, 405, 405, 405, 405}, "GET"},
		{"/agents/assistant/c1/abort/", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/agents/assistant/c1/Abort", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/agents/assistant/c1/attachments", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/agents/assistant/c1/attachments/", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/agents/assistant/c1/attachments/att_1/", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/agents/assistant/c1/zzz", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/agents/assistant//c1", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/agents//assistant/c1", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/Agents/assistant/c1", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
		{"/", []int{404, 404, 404, 404, 404, 404, 404, 404, 404}, ""},
	} {
		for i, method := range methods {
			t.Run(method+tt.path, func(t *testing.T) {
				h := newHarness(t, nil)
				wantStatus(t, h.post("/c1", withAttachments("", pngJSON)), http.StatusAccepted)
				r := httptest.NewRequest(method, tt.path, strings.NewReader(hello))
				r.Header.Set("Content-Type", "application/json")
				res := h.serve(r)
				wantStatus(t, res, tt.want[i])
				allow := ""
				if tt.want[i] == 405 {
					allow = tt.allow
				}
				if tt.want[i] == 405 && method != "HEAD" {
					wantError(t, res, 405, conversation.CodeMethodNotAllowed)
				}
				if got := res.Header.Get("Allow"); got != allow {
					t.Errorf("got Allow %q, want %q", got, allow)
				}
				if tt.want[i] == notFound && method != "HEAD" {
					wantError(t, res, 404, conversation.CodeRouteNotFound)
				}
				if body := readAll(t, res); method == "HEAD" && body != "" {
					t.Errorf("got body %q for HEAD, want none", body)
				}
			})
		}
	}
}

// covers: protocol/1, protocol/8, protocol/187
func TestLongerMountWins(t *testing.T) {
	rt := newRuntime()
	mounts := []parleyhttp.Mount{{Path: "/", Agent: "root"}, {Path: "/a", Agent: "upper"}, {Path: "/a/b", Agent: "lower"}}
	h, err := parleyhttp.New(rt, rt, mounts, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/x", "/a/x", "/a/b/x", "/a/b/abort"} {
		r := httptest.NewRequest("POST", path, strings.NewReader(hello))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		wantStatus(t, rec.Result(), 202)
	}
	var got []string
	for _, a := range rt.admissions {
		got = append(got, a.Address.Agent+"/"+a.Address.ID)
	}
	if d := cmp.Diff([]string{"root/x", "upper/x", "lower/x", "lower/abort"}, got); d != "" {
		t.Error(d)
	}
}

func TestConversationID(t *testing.T) {
	for segment, want := range map[string]string{
		"c1": "c1", "a%2Fb": "a/b", "..%2F..": "../..", "a%20b": "a b", "%C3%A9": "é", "%2520": "%20",
		"a+b": "a+b", "a%3Fb%23": "a?b#", "%20x%20": " x ", "a:b@c,d;e=f": "a:b@c,d;e=f", "%41": "A", "%00": "\x00",
		strings.Repeat("a", 512):       strings.Repeat("a", 512),
		strings.Repeat("%C3%A9", 256):  strings.Repeat("é", 256),
		strings.Repeat("%2F", 256*2-1): strings.Repeat("/", 511),
	} {
		h := newHarness(t, nil)
		res := h.post("/"+segment, hello)
		wantStatus(t, res, http.StatusAccepted)
		if got := h.rt.admissions[0].Address.ID; got != want {
			t.Errorf("segment %q: got id %q, want %q", segment, got, want)
		}
		if got := res.Header.Get("Location"); got != "http://example.com/agents/assistant/"+segment {
			t.Errorf("segment %q: got Location %q", segment, got)
		}
	}
	for _, segment := range []string{
		strings.Repeat("a", 513), strings.Repeat("%C3%A9", 256) + "a", "%FF", "%C3", "", "%09", "%C2%A0", "%E3%80%80",
	} {
		h := newHarness(t, nil)
		wantError(t, h.post("/"+segment, hello), 400, conversation.CodeInvalidRequest)
		wantError(t, h.do("GET", "/"+segment), 400, conversation.CodeInvalidRequest)
		wantStatus(t, h.do("HEAD", "/"+segment), 400)
	}
}

// covers: protocol/47, protocol/48, protocol/8 under_a_stripped_prefix
func TestStreamURL(t *testing.T) {
	proxies := func(o *parleyhttp.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }
	forwarded := map[string]string{"X-Forwarded-Proto": "HTTPS, http", "X-Forwarded-Host": "a.example:8443, b"}
	for _, tt := range []struct {
		name   string
		change func(*parleyhttp.Options)
		peer   string
		header map[string]string
		target string
		want   string
	}{
		{"request", nil, "", nil, "/c%2F1%20?a=b", "http://example.com/agents/assistant/c%2F1%20"},
		{"tls", nil, "", nil, "https://example.com/agents/assistant/c1?a", "https://example.com/agents/assistant/c1"},
		{"forwarded_by_a_stranger", nil, "", forwarded, "/c1", "http://example.com/agents/assistant/c1"},
		{"forwarded_by_another", proxies, "198.51.100.1:1", forwarded, "/c1", "http://example.com/agents/assistant/c1"},
		{"forwarded_by_a_trusted_proxy", proxies, "", forwarded, "/c1", "https://a.example:8443/agents/assistant/c1"},
		{"trusted_mapped_address", proxies, "[::ffff:192.0.2.9]:1", forwarded, "/c1", "https://a.example:8443/agents/assistant/c1"},
		{"forwarded_nonsense", proxies, "", map[string]string{"X-Forwarded-Proto": "gopher", "X-Forwarded-Host": "a/b"},
			"/c1", "http://example.com/agents/assistant/c1"},
		{"public_url", func(o *parleyhttp.Options) { o.PublicURL = "https://p.example/base/" }, "", forwarded,
			"/c1?a", "https://p.example/base/agents/assistant/c1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target := tt.target
			if strings.HasPrefix(target, "/") {
				target = "/agents/assistant" + target
			}
			r := httptest.NewRequest("POST", target, strings.NewReader(hello))
			r.Header.Set("Content-Type", "application/json")
			for name, value := range tt.header {
				r.Header.Set(name, value)
			}
			if tt.peer != "" {
				r.RemoteAddr = tt.peer
			}
			res := newHarness(t, tt.change).serve(r)
			wantStatus(t, res, http.StatusAccepted)
			if got := decode[receipt](t, res).StreamURL; got != tt.want || res.Header.Get("Location") != tt.want {
				t.Errorf("got streamUrl %q, Location %q, want %q", got, res.Header.Get("Location"), tt.want)
			}
		})
	}
	t.Run("without_a_host", func(t *testing.T) {
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
		for want, ctx := range map[string]context.Context{
			"http://localhost/agents/assistant/c1":    t.Context(),
			"http://127.0.0.1:80/agents/assistant/c1": context.WithValue(t.Context(), http.LocalAddrContextKey, local),
		} {
			r := newPost("/c1", strings.NewReader(hello)).WithContext(ctx)
			r.Host = ""
			if got := newHarness(t, nil).serve(r).Header.Get("Location"); got != want {
				t.Errorf("got Location %q, want %q", got, want)
			}
		}
	})
	t.Run("under_a_stripped_prefix", func(t *testing.T) {
		h := newHarness(t, nil)
		r := httptest.NewRequest("POST", "/api/agents/assistant/c%2F1", strings.NewReader(hello))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		http.StripPrefix("/api", h.h).ServeHTTP(rec, r)
		if got := rec.Header().Get("Location"); got != "http://example.com/api/agents/assistant/c%2F1" {
			t.Errorf("got Location %q", got)
		}
	})
}

// covers: protocol/56
func TestTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	long := "a=" + strings.Repeat("x", 510)
	for _, tt := range []struct {
		name, parent, state string
		want                conversation.Trace
	}{
		{"none", "", "a=b", conversation.Trace{}},
		{"parent", parent, "", conversation.Trace{Parent: parent}},
		{"both", parent, "a=b, c=d", conversation.Trace{Parent: parent, State: "a=b, c=d"}},
		{"state_of_512", parent, long, conversation.Trace{Parent: parent, State: long}},
		{"state_of_513", parent, long + "x", conversation.Trace{Parent: parent}},
		{"state_without_equals", parent, "a=b,c", conversation.Trace{Parent: parent}},
		{"state_with_empty_member", parent, "a=b,,c=d", conversation.Trace{Parent: parent}},
		{"upper_case", strings.ToUpper(parent), "", conversation.Trace{}},
		{"version_01", "01" + parent[2:], "a=b", conversation.Trace{Parent: parent, State: "a=b"}},
		{"version_fe", "fe" + parent[2:], "", conversation.Trace{Parent: parent}},
		{"version_ff", "ff" + parent[2:], "a=b", conversation.Trace{}},
		{"version_upper_case", "0A" + parent[2:], "", conversation.Trace{}},
		{"version_not_hex", "0g" + parent[2:], "", conversation.Trace{}},
		{"later_and_longer", "cc" + parent[2:] + "-what the future brings", "", conversation.Trace{Parent: parent}},
		{"later_and_longer_by_a_dash", "cc" + parent[2:] + "-", "", conversation.Trace{Parent: parent}},
		{"later_and_longer_without_a_dash", "cc" + parent[2:] + "00", "", conversation.Trace{}},
		{"later_and_shorter", "cc" + parent[2:54], "", conversation.Trace{}},
		{"later_flags", "cc" + parent[2:53] + "ff", "", conversation.Trace{Parent: parent}},
		{"later_not_sampled", "cc" + parent[2:53] + "fe", "", conversation.Trace{Parent: parent[:53] + "00"}},
		{"flags", parent[:53] + "fe", "", conversation.Trace{Parent: parent[:53] + "fe"}},
		{"zero_trace", "00-" + strings.Repeat("0", 32) + parent[35:], "", conversation.Trace{}},
		{"zero_span", parent[:36] + strings.Repeat("0", 16) + "-01", "", conversation.Trace{}},
		{"not_hex", strings.Replace(parent, "af", "ag", 1), "", conversation.Trace{}},
		{"longer", parent + "-00", "", conversation.Trace{}},
		{"shorter", parent[:54], "", conversation.Trace{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, nil)
			r := newPost("/c1", strings.NewReader(hello))
			r.Header.Set("traceparent", tt.parent)
			r.Header.Set("tracestate", tt.state)
			wantStatus(t, h.serve(r), http.StatusAccepted)
			if d := cmp.Diff(tt.want, h.rt.admissions[0].Trace); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("repeated_parent_is_ignored", func(t *testing.T) {
		h := newHarness(t, nil)
		r := newPost("/c1", strings.NewReader(hello))
		r.Header["Traceparent"] = []string{parent, parent}
		wantStatus(t, h.serve(r), http.StatusAccepted)
		if got := h.rt.admissions[0].Trace; got != (conversation.Trace{}) {
			t.Errorf("got trace %v", got)
		}
	})
}
