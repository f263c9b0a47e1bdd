package actors

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
)

// TestOwnAdmission: a local admission equals its decoded form, does not alias the caller's values, and
// encodes to the same message when it has to leave the node.
func TestOwnAdmission(t *testing.T) {
	encode := func(a conversation.Admission) ([]byte, error) { return json.Marshal(a) }
	for name, a := range map[string]conversation.Admission{
		"plain": {Address: conversation.Address{Agent: "a", ID: "1"}, Key: "k", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hi <b>"}},
		"empty": {Key: "k", Delivery: conversation.Delivery{Attachments: []conversation.Attachment{}, Attributes: map[string]string{}}},
		"all": {
			Address: conversation.Address{Agent: "a", ID: "ü"}, Key: "k", Dispatched: true, DispatchDepth: 3,
			Condition: conversation.Condition{Set: true, UID: "inst_1"}, Trace: conversation.Trace{Parent: "p", State: "s"},
			InitialData: json.RawMessage(`{ "a" : "<&>", "b": [1, 2.50] }`),
			Delivery: conversation.Delivery{
				Kind: conversation.KindSignal, Body: "b", Type: "t", TagName: "tag", Attributes: map[string]string{"x": "y"},
				Attachments: []conversation.Attachment{{SHA256: "ab", MimeType: "image/png", Size: 3, Filename: "f.png"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := encode(a)
			if err != nil {
				t.Fatal(err)
			}
			var want conversation.Admission
			if err := json.Unmarshal(body, &want); err != nil {
				t.Fatal(err)
			}
			own, err := newOwnAdmission(t.Context(), a, true, encode)
			if err != nil || !survivesJSON(&a) {
				t.Fatalf("got error %v, want the admission unencoded", err)
			}
			if a.Delivery.Attributes != nil {
				a.Delivery.Attributes["x"] = "changed"
			}
			for i := range a.Delivery.Attachments {
				a.Delivery.Attachments[i].Filename = "changed"
			}
			if diff := cmp.Diff(want, own.admission); diff != "" {
				t.Errorf("local admission (-want +got):\n%s", diff)
			}
			sent, ok := proto.Clone(own).(*wire.AdmitRequest)
			if !ok || !sent.GetPrecheck() || string(sent.GetAdmission()) != string(body) {
				t.Errorf("got encoded %T %v, want %s", sent, sent, body)
			}
		})
	}
	for name, a := range map[string]conversation.Admission{
		"body":      {Key: "k", Delivery: conversation.Delivery{Body: "a\xffb"}},
		"attribute": {Key: "k", Delivery: conversation.Delivery{Attributes: map[string]string{"x": "\xff"}}},
		"filename":  {Key: "k", Delivery: conversation.Delivery{Attachments: []conversation.Attachment{{Filename: "\xff"}}}},
		"id":        {Address: conversation.Address{ID: "\xff"}, Key: "k"},
	} {
		if survivesJSON(&a) {
			t.Errorf("got %s unencoded, want encoding because it is not UTF-8", name)
		}
	}
}
