package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/s3server"
)

// The program runs over buckets of other processes. It is killed in mid-reply, aborted and stopped,
// and each start replaces the previous member.
func TestServeOverServers(t *testing.T) {
	t.Parallel()
	s3server.Each(t, testServeOverServer)
}

func testServeOverServer(t *testing.T, server *s3server.Server) {
	t.Parallel()
	keys := []string{"TEST_PARLEY_ACCESS_KEY=" + server.AccessKey, "TEST_PARLEY_SECRET_KEY=" + server.SecretKey}
	file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf(
		"bucket: {endpoint: %q, name: %s, region: %s, secure: false, accessKeyEnv: TEST_PARLEY_ACCESS_KEY, secretKeyEnv: TEST_PARLEY_SECRET_KEY}",
		server.Endpoint, server.Bucket(t), server.Region))
	serve := func() *clitest.Node {
		return program.With(keys...).Start(t, "serve", "--quiet", "--config", file)
	}

	n := serve()
	at := n.URL(t, "a%2Fb")
	picture := clitest.Photo(2 << 20)
	sub := sendPicture(t, at, picture)
	counting := clitest.Admitted(t, at, "k1", "long 60")
	words := clitest.NewReader(t, counting.Offset)
	words.Until(at, counting.Offset, func(conversation.Chunk) bool { return strings.Contains(words.Text.String(), " 12") })
	n.Kill()

	n = serve()
	at = n.URL(t, "a%2Fb")
	words.Until(at, words.Offset(), clitest.Settled(counting.SubmissionID))
	if got := strings.Fields(words.Text.String()); !slices.Equal(got, numerals(60)) {
		t.Errorf("text over the kill is %q", got)
	}
	if again := clitest.Admitted(t, at, "k1", "long 60"); again.SubmissionID != counting.SubmissionID || !again.Deduplicated {
		t.Errorf("the same key gave %+v after the kill, first %+v", again, counting)
	}
	endless := clitest.Admitted(t, at, "k2", "long 10000")
	if code, out, errOut := program.Output(t, "abort", at.String()); code != 0 || out != "aborting\n" {
		t.Errorf("abort: exit %d, %q, %q", code, out, errOut)
	}
	clitest.NewReader(t, endless.Offset).Until(at, endless.Offset, clitest.Settled(endless.SubmissionID))
	before := clitest.History(t, at)
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}

	at = serve().URL(t, "a%2Fb")
	after := clitest.History(t, at)
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("history over a stop (-before +after):\n%s", d)
	}
	for id, want := range map[conversation.SubmissionID]conversation.Outcome{
		sub: conversation.OutcomeCompleted, counting.SubmissionID: conversation.OutcomeCompleted, endless.SubmissionID: conversation.OutcomeAborted,
	} {
		if got := clitest.Settlements(after, id); !slices.Equal(got, []conversation.Outcome{want}) {
			t.Errorf("submission %s is %v, want %s once", id, got, want)
		}
	}
	if got := attached(t, at, after); !bytes.Equal(got, picture) {
		t.Errorf("the attachment comes back as %d bytes that are not the %d that were sent", len(got), len(picture))
	}
}

// sendPicture sends an image and waits for the reply.
func sendPicture(t *testing.T, at *url.URL, picture []byte) conversation.SubmissionID {
	t.Helper()
	c, err := client.New(at.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Timeout)
	defer cancel()
	rcpt, err := c.Send(ctx, client.Message{Body: "look", Attachments: []client.Attachment{{MimeType: "image/png", Data: picture}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(ctx, rcpt); err != nil {
		t.Fatal(err)
	}
	return rcpt.SubmissionID
}

// attached returns the bytes of the only attachment of a conversation.
func attached(t *testing.T, at *url.URL, snap conversation.Snapshot) []byte {
	t.Helper()
	c, err := client.New(at.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []conversation.AttachmentID
	for _, m := range snap.Messages {
		for _, p := range m.Parts {
			if p.Type == conversation.PartTypeFile {
				ids = append(ids, p.ID)
			}
		}
	}
	if len(ids) != 1 {
		t.Fatalf("attachments %v, want one", ids)
	}
	content, err := c.Attachment(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// numerals returns the first n numerals of the demo model.
func numerals(n int) (words []string) {
	for i := range n {
		words = append(words, strconv.Itoa(i+1))
	}
	return words
}
