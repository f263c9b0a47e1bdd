package clientcmd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
)

func TestAbortCommand(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	at := n.Base + "/a%2Fb"
	wantOutput := func(want string) {
		t.Helper()
		code, out, errOut := program.Output(t, "abort", at+"?x=y#z")
		if code != 0 || out != want || errOut != "" {
			t.Errorf("exit %d, %q, %q; want %q", code, out, errOut, want)
		}
	}
	wantOutput("nothing to abort\n") // the conversation has no message yet
	code, out, errOut := program.Output(t, "send", "--no-wait", "--key", "k", at, "long 10000")
	var r clitest.Receipt
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("exit %d, %v, %q", code, err, errOut)
	}
	wantOutput("aborting\n")
	code, out, errOut = program.Output(t, "send", "--key", "k", at, "long 10000")
	if code != cli.ExitAborted || !strings.Contains(out, "[aborted]") {
		t.Errorf("exit %d, %q, %q; want exit %d", code, out, errOut, cli.ExitAborted)
	}
	wantOutput("nothing to abort\n")
}

func TestAbortCommandMistakes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.RequestURI {
		case "/refuses/abort":
			http.Error(w, `{"error":{"type":"runtime_unavailable","message":"Not","details":"now."}}`, http.StatusServiceUnavailable)
		case "/babbles/abort":
			w.WriteHeader(http.StatusOK)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	refusing := noderun.Refusing(t)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no URL":          {nil, "abort takes one conversation URL"},
		"two URLs":        {[]string{server.URL + "/a", server.URL + "/b"}, "abort takes one conversation URL"},
		"not a URL":       {[]string{"hello"}, "is not a conversation URL"},
		"refused":         {[]string{server.URL + "/refuses"}, "abort: the server answered 503 runtime_unavailable: Not now."},
		"no such route":   {[]string{server.URL + "/x"}, "abort: the server answered 404"},
		"not our server":  {[]string{server.URL + "/babbles"}, "abort: answer is not of the protocol: decode"},
		"nobody answers":  {[]string{"http://" + refusing + "/x"}, "abort: there is no server at http://" + refusing},
		"escapes are odd": {[]string{"http://127.0.0.1:1/%zz"}, "is not a conversation URL"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := program.Output(t, append([]string{"abort"}, tt.args...)...)
			wantCode := 1
			if strings.Contains(name, "URL") || name == "escapes are odd" {
				wantCode = cli.ExitUsage
			}
			if code != wantCode || out != "" || !strings.Contains(errOut, tt.want) {
				t.Errorf("exit %d, %q, %q; want exit %d and %q", code, out, errOut, wantCode, tt.want)
			}
		})
	}
}
