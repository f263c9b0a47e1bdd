package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/catalog"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/openairesponses"
)

// vendors lists a model of the catalog per vendor format, and the path at which the fake model serves
// the format.
var vendors = []struct{ api, model, path string }{
	{anthropicmessages.API, "anthropic/claude-opus-4-6", ""},
	{bedrockconverse.API, "amazon-bedrock/anthropic.claude-opus-4-6-v1", "/bedrock"},
	{googlegenerativeai.API, "google/gemini-3.1-pro-preview", "/v1beta"},
	{googlegenerativeai.APIVertex, "google-vertex/gemini-3.5-flash", ""},
	{mistralconversations.API, "mistral/magistral-medium-latest", "/mistral"},
	{openaicompletions.API, "moonshotai/kimi-k3", "/v1"},
	{openairesponses.API, "openai/gpt-5", "/v1"},
	{openairesponses.APIAzure, "azure/gpt-5-mini", "/openai/v1"},
	{openairesponses.APICodex, "openai-codex/gpt-5.6-sol", "/backend-api"},
}

// vendorsEnv is the variable with a URL that makes the program have an agent for each vendor at it.
const vendorsEnv = "PARLEY_TEST_VENDORS"

// withVendors returns the extensions of that program. Each agent has the name of a format.
func withVendors(at string) cli.Program {
	p := cli.Program{Providers: map[string]providers.Registration{}}
	for _, v := range vendors {
		provider, _, _ := strings.Cut(v.model, "/")
		r := providers.Registration{BaseURL: at + v.path}
		if v.api == openairesponses.APICodex { // its token has no variable
			r.APIKey = "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"https://api.openai.com/auth":{"chatgpt_account_id":"key"}}`)) + ".e30"
		}
		p.Providers[provider] = r
		p.Agents = append(p.Agents, &agent.Agent{
			Name: v.api, Model: v.model, ThinkingLevel: agent.ThinkingLow, Instructions: "You look.",
			Tools: []agent.Tool{meets(at, "look", "count", fakemodel.PictureHead), meets(at, "count", "look", "")},
		})
	}
	return p
}

// meets returns a tool that ends once another one runs too. It may return an image.
func meets(at, name, other, picture string) agent.Tool {
	return agent.NewTool(name, "Looks at it.", func(ctx context.Context, _ struct {
		At string `json:"at,omitempty"`
	}) (agent.Result, error) {
		call, _ := agent.CallFrom(ctx)
		begun, err := http.Post(fmt.Sprintf("%s/release/%s-%s", at, name, call.Submission), "", nil)
		if err != nil {
			return agent.Result{}, err
		}
		begun.Body.Close()
		meets, err := http.Get(fmt.Sprintf("%s/gate/%s-%s", at, other, call.Submission))
		if err != nil {
			return agent.Result{}, err
		}
		meets.Body.Close()
		r := agent.Result{Output: "seen"}
		if picture != "" {
			r.Images = []agent.Image{{MimeType: "image/png", Data: []byte(picture)}}
		}
		return r, nil
	}, nil)
}

// startVendors serves all formats with a key, and sets the variables that the catalog requires.
func startVendors(t *testing.T) (*fakemodel.Model, string) {
	t.Helper()
	model := fakemodel.New(&fakemodel.Options{Key: "key"})
	server := httptest.NewServer(model)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	clitest.WithoutKeys(t)
	for _, provider := range []string{"anthropic", "google", "mistral", "moonshotai", "openai", "azure"} {
		t.Setenv(catalog.Builtin()[provider].EnvKeys[0].Name, "key")
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1",
		"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global", "CLOUDSDK_CONFIG": t.TempDir(), "GCE_METADATA_HOST": server.Listener.Addr().String(),
	} {
		t.Setenv(name, value)
	}
	return model, server.URL
}

// last requires that no call was rejected, and returns the last call of a model with a prompt.
func last(t *testing.T, model *fakemodel.Model, spec, prompt string) (found fakemodel.Request) {
	t.Helper()
	_, id, _ := strings.Cut(spec, "/")
	for _, r := range model.Requests() {
		if r.Refused != "" {
			t.Errorf("%s refused a call: %s", r.API, r.Refused)
		}
		if r.Model == id && r.Prompt == prompt {
			found = r
		}
	}
	return found
}

// pictured matches an output with an image of either tool.
var pictured = regexp.MustCompile(`\{"output":("seen"),"images":\[.*\]\}`)

// A turn with reasoning, two concurrent tool calls and an image has the same transcript for every
// vendor.
// covers: providers/13, providers/16, providers/170, providers/198
func TestRunOfEachVendor(t *testing.T) {
	model, at := startVendors(t)
	p := clitest.New(Commands)
	p.Own = withVendors(at)
	for _, v := range vendors {
		t.Run(v.api, func(t *testing.T) {
			const ask = `reasoning=2 say="One moment." tool=look {"at":"Nîmes"} tool=count then reasoning=1 say="Done with both."`
			code, out, errOut := p.Output(t, "run", v.api, "-m", ask)
			out = pictured.ReplaceAllString(out, "$1")
			want := "thinking: t1 t2\nassistant: One moment.\ntool look called with {\"at\":\"Nîmes\"}\ntool count called with {}\n" +
				"tool answered \"seen\"\ntool answered \"seen\"\nthinking: t1\nassistant: Done with both.\n[completed]\n"
			if diff := cmp.Diff(want, out); diff != "" || code != 0 || errOut != "" {
				t.Errorf("exit %d, %s (-want +got):\n%s", code, errOut, diff)
			}
			if r := last(t, model, v.model, ask); r.Step != 1 || r.Images != 1 || r.Effort == "" || r.System == "" || !cmp.Equal(r.Tools, []string{"look", "count"}) {
				t.Errorf("the last call was %+v", r)
			}
		})
	}
}

// cut is a conversation that is interrupted in mid-stream.
type cut struct {
	api, model string
	ask        string
	until      string   // text after which it is interrupted
	left       []string // remaining parts of the reply
	images     int      // of the user, and of tools
	receipt    clitest.Receipt
	reader     *clitest.Reader
}

func (c *cut) url(t *testing.T, n *clitest.Node) *url.URL {
	u, err := url.Parse(n.Base)
	if err != nil {
		t.Fatal(err)
	}
	return u.JoinPath("..", c.api, c.until)
}

// send sends a message with an image.
func (c *cut) send(t *testing.T, n *clitest.Node, text string) clitest.Receipt {
	t.Helper()
	to, err := client.New(c.url(t, n).String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := to.Send(t.Context(), client.Message{Body: text, Attachments: []client.Attachment{{MimeType: "image/png", Data: []byte(fakemodel.PictureHead)}}})
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// The server is killed during the answer to two calls, and during the first reasoning. Another process
// resumes both, and each vendor accepts the rest.
// covers: providers/171
func TestServerOfEachVendorIsKilled(t *testing.T) {
	model, at := startVendors(t)
	t.Setenv(vendorsEnv, at)
	data := t.TempDir()
	n := program.StartDev(t, data)
	var cuts []*cut
	for _, v := range vendors {
		cuts = append(cuts, &cut{
			api: v.api, model: v.model, until: "Half", images: 2,
			ask:  `reasoning=2 say="One moment." tool=look {"at":"Nîmes"} tool=count then reasoning=1 say="Half" hold=never`,
			left: []string{"reasoning t1 t2", "text One moment.", "dynamic-tool", "dynamic-tool", "reasoning t1", "text Half"},
		}, &cut{api: v.api, model: v.model, ask: "reasoning=2 hold=never", until: "t2", images: 1, left: []string{"reasoning t1 t2"}})
	}
	for _, c := range cuts {
		c.receipt = c.send(t, n, c.ask)
	}
	for _, c := range cuts {
		c.reader = clitest.NewReader(t, c.receipt.Offset)
		c.reader.Until(c.url(t, n), c.receipt.Offset, func(conversation.Chunk) bool { return strings.Contains(c.reader.Text.String(), c.until) })
	}
	n.Kill()
	n = program.StartDev(t, data)
	for _, c := range cuts {
		t.Run(c.api+" "+c.until, func(t *testing.T) { c.ends(t, n, model) })
	}
}

// ends waits for the end of the interrupted reply, and for another reply.
func (c *cut) ends(t *testing.T, n *clitest.Node, model *fakemodel.Model) {
	at := c.url(t, n)
	c.reader.Until(at, c.reader.Offset(), clitest.Settled(c.receipt.SubmissionID))
	snap := clitest.History(t, at)
	reply, end := snap.Reply(c.receipt.SubmissionID)
	if end == nil || end.Outcome != conversation.OutcomeCompleted || len(clitest.Settlements(snap, c.receipt.SubmissionID)) != 1 {
		t.Fatalf("ended %+v", snap.Settlements)
	}
	var parts []string
	for _, p := range reply.Parts {
		text := p.Type
		if p.Text != nil {
			text += " " + *p.Text
		}
		parts = append(parts, text)
	}
	if n := len(parts) - 1; !cmp.Equal(c.left, parts[:n]) || !strings.HasPrefix(parts[n], "text You said: <advisory>") {
		t.Errorf("the reply is %q, want %q and the model's answer to the outcome", parts, c.left)
	}
	const again = "tokens=2"
	receipt := c.send(t, n, again)
	c.reader.Until(at, c.reader.Offset(), clitest.Settled(receipt.SubmissionID))
	if r := last(t, model, c.model, again); r.Images != c.images+1 {
		t.Errorf("the last call was %+v", r)
	}
}
