package actors_test

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

// TestVendorMessagesAreContent: a vendor's error that repeats the request is logged only if the agent's
// logs may show content.
func TestVendorMessagesAreContent(t *testing.T) {
	const vendorMessage = "cannot answer: Be brief. hello"
	body := vendorMessage + strings.Repeat(" again", 1000)
	for name, content := range map[string]bool{"content": true, "no content": false} {
		t.Run(name, func(t *testing.T) {
			a := chatAgent()
			a.Events = agent.Events{Content: content}
			w := newWorld(t)
			model := make(stage)
			n := w.start(setup{opts: agents(a), model: model})
			n.admit(chat("c"), "1", "hello")
			model.next(t).fail(&providers.Error{
				Kind: providers.KindInvalidRequest, Status: 400, RequestID: "req_1", Body: []byte(body),
				Err: &providers.VendorError{Code: "bad_prompt", Message: body},
			})
			w.untilSettled(chat("c"), 1)
			log := n.log.String()
			wants(t, "the log", log, "model call failed", "status 400", "req_1", "bad_prompt", "vendor message of 6030 bytes")
			if strings.Contains(log, vendorMessage) != content {
				t.Errorf("content %v: got log %s", content, log)
			}
			if got := strings.Count(log, "again"); got > 400 {
				t.Errorf("got %d words of the vendor in the log", got)
			}
		})
	}
}
