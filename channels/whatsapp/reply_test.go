package whatsapp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/whatsapp"
	"github.com/parleyrun/parley/outbox"
)

// TestWhatsAppReplies: what the platform is called with, what it is not called for, and what the outbox is told.
func TestWhatsAppReplies(t *testing.T) {
	const notice = `{"type":"submission.settled","data":{"agent":"a","id":%q,"submissionId":"sub_1","outcome":%q,"text":"Hi & bye."}}`
	for name, c := range map[string]struct {
		instance, outcome string
		status            int
		want              string // "" is no call
		gone              bool
	}{
		"somebody":    {"whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", "completed", 200, `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`, false},
		"a group":     {"whatsapp:v1:business-account:B:phone-number:N:group:G", "completed", 200, `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"group","to":"G","type":"text","text":{"body":"Hi \u0026 bye."}}`, false},
		"an error":    {"whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", "completed", 500, `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`, false},
		"redirected":  {"whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", "completed", 307, `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`, false},
		"of another":  {"slack:v1:T:C:1", "completed", 0, "", true},
		"was aborted": {"whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", "aborted", 200, "", false},
	} {
		var got string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			got = r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
		}))
		target := whatsapp.Replies(channels.API{URL: server.URL, Token: "of-the-bot"})
		err := target.Deliver(t.Context(), outbox.Post{ID: "post_1", Body: []byte(fmt.Sprintf(notice, c.instance, c.outcome))})
		server.Close()
		var gone *outbox.GoneError
		switch {
		case got != c.want:
			t.Errorf("%s: called %q, want %q", name, got, c.want)
		case (err == nil) != (c.status == 200) || errors.As(err, &gone) != c.gone:
			t.Errorf("%s: %v", name, err)
		case err != nil && (strings.Contains(err.Error(), server.URL) || strings.Contains(err.Error(), "of-the-bot")):
			t.Errorf("%s: it tells a secret: %v", name, err)
		}
	}
}
