package actors

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// shortAdmission is the largest admission, in bytes, that is decoded in the activation's own
// goroutine.
const shortAdmission = 64 << 10

// admitRequest is an admission request of this node or another.
type admitRequest interface{ GetPrecheck() bool }

// ownAdmission is an admission request that is passed to a local owner without encoding. It is encoded
// only if ownership moves and the request leaves the node.
type ownAdmission struct {
	*wire.AdmitRequest
	admission conversation.Admission
	asker     context.Context // context of the caller

	once   sync.Once
	encode func(conversation.Admission) ([]byte, error)
}

// newOwnAdmission copies an admission, normalized as if it had been decoded from a message.
func newOwnAdmission(
	asker context.Context, a conversation.Admission, precheck bool, encode func(conversation.Admission) ([]byte, error),
) (*ownAdmission, error) {
	d := &a.Delivery
	d.Attachments, d.Attributes = slices.Clip(slices.Clone(d.Attachments)), maps.Clone(d.Attributes)
	if len(d.Attachments) == 0 {
		d.Attachments = nil
	}
	if len(d.Attributes) == 0 {
		d.Attributes = nil
	}
	if a.InitialData != nil {
		raw, err := json.Marshal(a.InitialData)
		if err != nil {
			return nil, err
		}
		a.InitialData = raw
	}
	return &ownAdmission{AdmitRequest: &wire.AdmitRequest{Precheck: precheck}, admission: a, asker: asker, encode: encode}, nil
}

// ProtoReflect implements proto.Message. It runs only when the message is encoded.
func (m *ownAdmission) ProtoReflect() protoreflect.Message {
	m.once.Do(func() {
		// Encoding was checked before. If it fails all the same, the owner rejects the empty
		// admission.
		m.AdmitRequest.Admission, _ = m.encode(m.admission)
	})
	return m.AdmitRequest.ProtoReflect()
}

// survivesJSON reports whether an admission survives a JSON round trip. Only invalid UTF-8 does not.
func survivesJSON(a *conversation.Admission) bool {
	d := &a.Delivery
	texts := []string{
		a.Address.Agent, a.Address.ID, a.Key, a.Trace.Parent, a.Trace.State, string(a.Condition.UID), a.Notify, a.Channel, a.ReplyAddress,
		string(d.Kind), d.Body, d.Type, d.TagName,
	}
	for name, value := range d.Attributes {
		texts = append(texts, name, value)
	}
	for _, at := range d.Attachments {
		texts = append(texts, string(at.ID), at.SHA256, at.MimeType, at.Filename)
	}
	return !slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) })
}

// readAdmission is a decoded admission.
type readAdmission struct {
	admission conversation.Admission
	precheck  bool
	asker     context.Context // context of a local caller, else nil
	err       error
}

// admit handles an admission request. A long admission is decoded in another goroutine, and a staged
// one is first read from the bucket.
func (a *activation) admit(from grain.Sender, m *wire.AdmitRequest) {
	if m.GetStaged() == "" && len(m.GetAdmission()) <= shortAdmission {
		a.decide(from, a.decodeAdmission(m, m.GetAdmission()))
		return
	}
	a.rt.tasks.spawn(func() {
		ctx, cancel := context.WithTimeout(a.self.ctx, a.rt.opts.AdmitTimeout)
		defer cancel()
		body, err := m.GetAdmission(), error(nil)
		if m.GetStaged() != "" {
			body, err = storage.ReadStaged(ctx, a.rt.bucket, m.GetStaged())
		}
		switch {
		case a.self.ctx.Err() != nil: // The next owner decides.
			from.Answer(answerMessage(machine.Moved{Untouched: true}))
		case err != nil: // The caller retries: its node is near its deadline, too.
			from.Answer(answerMessage(machine.Refused{Err: conversation.Unavailable(retryAfter, err)}))
		default:
			// If the activation has ended, the message returns to its sender.
			a.self.Forward(a.decodeAdmission(m, body), from)
		}
	})
}

// decodeAdmission decodes an admission. Long ones wait for their turn.
func (a *activation) decodeAdmission(m *wire.AdmitRequest, body []byte) readAdmission {
	defer a.rt.accounts.conversations.Turn(len(body))()
	out := readAdmission{precheck: m.GetPrecheck()}
	out.err = json.Unmarshal(body, &out.admission)
	return out
}

// decide passes an admission to the machine after any schema check.
func (a *activation) decide(from grain.Sender, m readAdmission) {
	if m.err != nil {
		from.Answer(answerMessage(machine.Refused{Err: conversation.Errorf(conversation.CodeInternal, "decode admission: %v", m.err)}))
		return
	}
	if err := a.rt.accounts.room(); err != nil {
		from.Answer(answerMessage(machine.Refused{Err: err}))
		return
	}
	a.tap.Asked(m.admission.Address)
	in := checkedAdmission{admission: m.admission, precheck: m.precheck}
	if check := a.checkOf(m.admission); check != nil {
		a.checkAsync(from, in, check, m.asker)
		return
	}
	a.take(from, in)
}

func (a *activation) take(from grain.Sender, in checkedAdmission) {
	a.step(machine.Admit{To: a.callers.add(answers(from)), Admission: in.admission, Precheck: in.precheck, Unfit: in.unfit, Fit: in.fit, DeadLetter: in.deadLetter})
}
