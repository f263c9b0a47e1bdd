package operator

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/transfer"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/storage"
)

// importTo runs the import into the folder of a configuration with the agent echo.
func importTo(t *testing.T, data string, args ...string) (code int, out string) {
	t.Helper()
	file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {dir: %q}", data))
	code, out, errOut := program.Output(t, append([]string{"import", "flue", "--config", file}, args...)...)
	return code, out + errOut
}

func wantOutput(t *testing.T, code int, out string, want int, words ...string) {
	t.Helper()
	if code != want {
		t.Fatalf("exit %d, want %d\n%s", code, want, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("got no %q in the output:\n%s", w, out)
		}
	}
}

// TestImportCurrentLine imports a conversation, continues it at its old server and then at its new
// one.
// covers: upgrade/26, upgrade/27, upgrade/31, upgrade/32, upgrade/35
func TestImportCurrentLine(t *testing.T) {
	t.Parallel()
	old, data := program.StartDev(t, t.TempDir()), filepath.Join(t.TempDir(), "data")
	var photo bytes.Buffer
	if err := png.Encode(&photo, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	picture := filepath.Join(t.TempDir(), "a.png")
	if err := os.WriteFile(picture, photo.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	send := func(n *clitest.Node, args ...string) {
		t.Helper()
		if code, out, errOut := program.Output(t, append([]string{"send", n.Base + "/a%20b"}, args...)...); code != 0 {
			t.Fatalf("send: exit %d, %q, %q", code, out, errOut)
		}
	}
	send(old, "time") // with a tool
	send(old, "--attach", picture, "look")
	from := old.Base + "/a%20b"
	code, out := importTo(t, data, "--agent", "echo", from)
	wantOutput(t, code, out, 0, "imported: 4 messages, 1 attachments, 2 settlements")
	code, out = importTo(t, data, "--agent", "echo", from)
	wantOutput(t, code, out, 0, "already stored")
	send(old, "hello")
	code, out = importTo(t, data, "--agent", "echo", from, from)
	wantOutput(t, code, out, 0, "continued: 6 messages", "already stored")
	if code, out, errOut := program.Output(t, "log", "verify", "--data", data); code != 0 || !strings.Contains(out, "1 conversation") {
		t.Errorf("verify: exit %d, %s%s", code, out, errOut)
	}
	// The server has this agent, so the conversation is listed and can continue.
	code, out = importTo(t, data, "--agent", "assistant", from)
	wantOutput(t, code, out, 1, `has no agent "assistant"`)
	if code, out, errOut := program.Output(t, "import", "flue", "--data", data, from); code != 0 {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	want := clitest.History(t, old.URL(t, "a%20b"))
	here := program.StartDev(t, data)
	got := clitest.History(t, here.URL(t, "a%20b"))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(conversation.Snapshot{}, "Offset"), cmpopts.IgnoreFields(conversation.Message{}, "TurnID")); diff != "" {
		t.Errorf("the conversation (-old +new):\n%s", diff)
	}
	for _, m := range got.Messages {
		for _, p := range m.Parts {
			if p.Type == conversation.PartTypeFile {
				wantFile(t, here.Base+"/a%20b/attachments/"+string(p.ID), photo.Bytes())
			}
		}
	}
	send(here, "and on")
	if got := clitest.History(t, here.URL(t, "a%20b")); len(got.Messages) != 8 || len(got.Settlements) != 4 {
		t.Errorf("%d messages, %d settlements after another", len(got.Messages), len(got.Settlements))
	}
	if err := here.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// The conversation has continued here, so the import must not overwrite it.
	send(old, "elsewhere")
	code, out, errOut := program.Output(t, "import", "flue", "--data", data, from)
	wantOutput(t, code, out+errOut, 1, "not imported", "this one has continued here")
}

func wantFile(t *testing.T, url string, want []byte) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, %v, want %d", url, len(got), err, len(want))
	}
}

// firstBeta is the stream of a server of the first versions of the beta line, in two pages.
var firstBeta = []string{
	`[{"type":"operation_start","v":1,"eventIndex":0,"operationId":"op_1","operationKind":"prompt","instanceId":"7"},
	{"type":"message_end","v":1,"operationId":"op_1","message":{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image","data":"[image data omitted from event]","mimeType":"image/png"}]}},
	{"type":"text_delta","v":1,"operationId":"op_1","text":"It"},
	{"type":"message_end","v":1,"operationId":"op_1","message":{"role":"assistant","content":[{"type":"thinking","thinking":"Hm."},{"type":"text","text":"I look."},{"type":"toolCall","id":"call_1","name":"look","arguments":{"q":1}}]}},
	{"type":"tool","v":1,"operationId":"op_1","toolName":"look","toolCallId":"call_1","isError":false,"result":{"n":2},"durationMs":5},
	{"type":"message_end","v":1,"operationId":"op_1","message":{"role":"toolResult","toolCallId":"call_1","toolName":"look","content":[{"type":"text","text":"2"}],"isError":false}}]`,
	`[{"type":"message_end","v":1,"operationId":"op_1","message":{"role":"assistant","content":[{"type":"text","text":"It is a tag."}]}},
	{"type":"operation","v":1,"operationId":"op_1","operationKind":"prompt","durationMs":9,"isError":false},
	{"type":"message_end","v":1,"operationId":"op_2","message":{"role":"user","content":"Again"}},
	{"type":"operation","v":1,"operationId":"op_2","operationKind":"prompt","durationMs":1,"isError":true,"error":{"name":"Error","message":"No model."}}]`,
}

// oldBeta serves the streams of conversation 7, of an empty one and of a run.
func oldBeta(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/agents/echo/7":
			page := 0
			if r.URL.Query().Get("offset") == "0_5" {
				page = 1
				w.Header().Set("Stream-Up-To-Date", "true")
			}
			w.Header().Set("Stream-Next-Offset", "0_5")
			fmt.Fprint(w, firstBeta[page])
		case "/agents/echo/run":
			fmt.Fprint(w, `[{"type":"run_start","runId":"run_1"}]`)
		case "/agents/echo/busy":
			w.Header().Set("Stream-Up-To-Date", "true")
			fmt.Fprint(w, `[{"type":"message_end","v":3,"submissionId":"sub_9","message":{"role":"user","content":"x"}}]`)
		case "/agents/echo/newer":
			fmt.Fprint(w, `{"v":2}`)
		case "/agents/echo/none":
			w.Header().Set("Stream-Up-To-Date", "true")
			fmt.Fprint(w, `[]`)
		default:
			http.Error(w, `{"error":{"type":"stream_not_found"}}`, http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/agents/echo/"
}

// covers: upgrade/28, upgrade/29, upgrade/31
func TestImportBetaLine(t *testing.T) {
	t.Setenv("OLD_TOKEN", "secret")
	base, data := oldBeta(t), filepath.Join(t.TempDir(), "data")
	code, out := importTo(t, data, "--token-env", "OLD_TOKEN", base+"7")
	wantOutput(t, code, out, 0, "imported: 3 messages, 0 attachments, 2 settlements")
	code, out = importTo(t, data, "--token-env", "OLD_TOKEN", base+"7")
	wantOutput(t, code, out, 0, "already stored")
	_, dump, _ := program.Output(t, "log", "dump", "--data", data, "--agent", "echo", "--id", "7")
	for _, want := range []string{
		`What is it?\n\n[An image (image/png) stood here.`, `"text":"Hm."`, `"text":"I look."`, `"output":{"n":2}`, `"text":"It is a tag."`,
		`"body":"Again"`, `"outcome":"completed"`, `"outcome":"failed","error":{"type":"internal_error","message":"No model."}`,
	} {
		if !strings.Contains(dump, want) {
			t.Errorf("the log has no %s:\n%s", want, dump)
		}
	}
}

// A conversation that cannot be imported is reported, and the others are imported.
// covers: upgrade/34, upgrade/36
func TestImportReportsFailures(t *testing.T) {
	t.Setenv("OLD_TOKEN", "secret")
	base, data := oldBeta(t), filepath.Join(t.TempDir(), "data")
	code, out := importTo(t, data, "--token-env", "OLD_TOKEN", base+"busy", base+"run", base+"newer", base+"none", base+"gone", "x", base+"7", strings.Replace(base, "echo", "other", 1)+"7")
	wantOutput(t, code, out, 1,
		"submission sub_9 is not settled", "workflow run", "version 2, want 1", "has no message", "responded 404", "it is not a URL", "imported: 3 messages",
		`has no agent "other"`, "7 of 8 conversations were not imported")
	code, out = importTo(t, data, base+"7")
	wantOutput(t, code, out, 1, "responded 401")
	code, out, errOut := program.Output(t, "import", "flue", "--data", t.TempDir(), base+"7")
	wantOutput(t, code, out+errOut, 1, "is not a data folder")
}

// An import that was interrupted after any batch is continued by the next one.
// covers: upgrade/32
func TestImportResumes(t *testing.T) {
	shown := &transfer.Conversation{ID: "conv_1"}
	for n := range 5 {
		id, text := conversation.SubmissionID(fmt.Sprint("sub_", n)), strings.Repeat("text ", 60_000)
		shown.Messages = append(shown.Messages, conversation.Message{
			ID: conversation.MessageID(fmt.Sprint("msg_", n)), Role: conversation.RoleUser, Purpose: conversation.PurposeUser, Display: conversation.DisplayVisible,
			SubmissionID: id, Parts: []conversation.Part{{Type: conversation.PartTypeText, Text: &text, State: conversation.StateDone}},
		})
		shown.Settlements = append(shown.Settlements, conversation.Settlement{SubmissionID: id, Outcome: conversation.OutcomeCompleted})
	}
	at := conversation.Address{Agent: "echo", ID: "1"}
	groups, err := shown.Records(transfer.Incarnation{Address: at, UID: "inst_1", At: 1})
	if err != nil || len(groups) < 4 {
		t.Fatalf("%d groups, %v", len(groups), err)
	}
	for wrote := range groups {
		bucket := clitest.NewStore(t)
		im := &importing{bucket: bucket, logs: storage.NewLogs(bucket, nil)}
		for _, g := range [][][]conversation.Record{groups[:wrote], groups} {
			here, err := im.here(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := im.write(t.Context(), at, here, g); err != nil {
				t.Fatal(err)
			}
		}
		here, err := im.here(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := im.write(t.Context(), at, here, groups); n != 0 || err != nil {
			t.Errorf("after %d batches and the rest, %d are missing, %v", wrote, n, err)
		}
	}
}
