package conversation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

// TestLongTextsAreEncoded compares encoded long texts with encoding/json, and with their decoded form.
func TestLongTextsAreEncoded(t *testing.T) {
	plain := strings.Repeat("words and more words, ", 10_000)
	for name, text := range map[string]string{
		"plain":              plain,
		"to be escaped":      strings.Repeat("\"\\\n\t\x01<&>\u2028é\U0001F600", 10_000),
		"a mark":             "long text 0" + plain + "long text 1",
		"invalid bytes":      plain + "\xff\xfe" + plain,
		"only just long":     strings.Repeat("x", 64<<10),
		"only just not long": strings.Repeat("x", 64<<10-1),
	} {
		for which, r := range map[string]conversation.Record{
			"delta": &conversation.Delta{Message: "msg_1", Kind: conversation.PartText, Text: text},
			"admitted": &conversation.SubmissionAdmitted{
				Submission: "sub_1", Message: "msg_1", Key: "long text 0", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: text},
			},
			"signal": &conversation.SubmissionAdmitted{
				Submission: "sub_1", Message: "msg_1", Delivery: conversation.Delivery{
					Kind: conversation.KindSignal, Body: text, Type: "t", Attributes: map[string]string{"a": "long text 0", "b": text},
				},
			},
		} {
			t.Run(name+" "+which, func(t *testing.T) {
				lines, err := conversation.EncodeRecords([]byte("before\n"), []conversation.Record{r, r})
				if err != nil {
					t.Fatal(err)
				}
				one := fmt.Sprintf(`{"type":%q,%s`, r.Type(), jsonOf(t, r)[1:])
				if want := "before\n" + one + one; string(lines) != want {
					t.Errorf("%d bytes differ from the %d that package encoding/json makes", len(lines), len(want))
				}
				if _, err := conversation.DecodeRecords(bytes.TrimPrefix(lines, []byte("before\n"))); err != nil {
					t.Error(err)
				}
				if adm, ok := r.(*conversation.SubmissionAdmitted); ok {
					shown(t, adm)
				}
			})
		}
	}
}

// shown compares the message of an admission with its JSON form.
func shown(t *testing.T, adm *conversation.SubmissionAdmitted) {
	t.Helper()
	got, err := adm.EncodeMessage()
	if err != nil {
		t.Fatal(err)
	}
	var m conversation.Message
	if err := json.Unmarshal(got, &m); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := json.Unmarshal([]byte(jsonOf(t, adm.Delivery.Body)), &text); err != nil {
		t.Fatal(err)
	}
	if *m.Parts[0].Text != text {
		t.Error("message has another text")
	}
	m.Parts[0].Text = &adm.Delivery.Body // as before the replacement of invalid UTF-8
	if m.Signal != nil {
		m.Signal.Attributes = adm.Delivery.Attributes
	}
	if want := strings.TrimSuffix(jsonOf(t, m), "\n"); string(got) != want {
		t.Errorf("%d bytes differ from the %d that package encoding/json makes", len(got), len(want))
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
