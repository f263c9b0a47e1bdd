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

// shortAdmission is how long an admission may be to be decoded between two messages of an
// activation, in bytes.
const shortAdmission = 64 << 10

// admitRequest is a request to admit something, from this node or another.
type admitRequest interface{ GetPrecheck() bool }

// ownAdmission is a request to the owner of a conversation that is this node itself: it is
// passed as it is. If it has to leave the node, because the owner is another meanwhile, it is
// encoded on its way.
type ownAdmission struct {
	*wire.AdmitRequest
	admission conversation.Admission
	asker     context.Context // that of who waits for the answer

	once   sync.Once
	encode func(conversation.Admission) ([]byte, error)
}

// newOwnAdmission takes a copy of an admission, as it would come out of a message.
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

// ProtoReflect implements proto.Message. It is called only where the message is encoded.
func (m *ownAdmission) ProtoReflect() protoreflect.Message {
	m.once.Do(func() {
		// It was looked at before: what cannot be encoded is refused by who decodes nothing.
		m.AdmitRequest.Admission, _ = m.encode(m.admission)
	})
	return m.AdmitRequest.ProtoReflect()
}

// survivesJSON reports whether an admission is the same once it was encoded and decoded. It
// is unless somebody has put bytes into it that are no text.
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

// readAdmission is an admission that was decoded, if it had to be.
type readAdmission struct {
	admission conversation.Admission
	precheck  bool
	asker     context.Context // of a caller on this node, nil of one on another
	err       error
}

// admit takes an admission. A long one is decoded beside the activation, one that was too
// long to travel is read from the bucket first.
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
		case err != nil: // The caller repeats it: its node is about to give up, too.
			from.Answer(answerMessage(machine.Refused{Err: conversation.Unavailable(retryAfter, err)}))
		default:
			// It goes back to its sender if the activation has ended meanwhile.
			a.self.Forward(a.decodeAdmission(m, body), from)
		}
	})
}

// decodeAdmission decodes an admission, at its turn if it is long.
func (a *activation) decodeAdmission(m *wire.AdmitRequest, body []byte) readAdmission {
	defer a.rt.accounts.conversations.Turn(len(body))()
	out := readAdmission{precheck: m.GetPrecheck()}
	out.err = json.Unmarshal(body, &out.admission)
	return out
}

// decide has the machine decide on an admission, once it was held against its schema.
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
		a.checkBeside(from, in, check, m.asker)
		return
	}
	a.take(from, in)
}

func (a *activation) take(from grain.Sender, in checkedAdmission) {
	a.step(machine.Admit{To: a.callers.add(answers(from)), Admission: in.admission, Precheck: in.precheck, Unfit: in.unfit, Fit: in.fit, Dead: in.dead})
}
