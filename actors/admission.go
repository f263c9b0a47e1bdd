package actors

import (
	"context"
	"encoding/json"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// shortAdmission is how long an admission may be to be decoded between two messages of an
// activation, in bytes.
const shortAdmission = 64 << 10

// readAdmission is an admission that was decoded, and the request that it came in.
type readAdmission struct {
	request   *wire.AdmitRequest
	admission conversation.Admission
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
	out := readAdmission{request: m}
	out.err = json.Unmarshal(body, &out.admission)
	return out
}

// decide has the machine decide on an admission, once its initial data were checked.
func (a *activation) decide(from grain.Sender, m readAdmission) {
	if m.err != nil {
		from.Answer(answerMessage(machine.Refused{Err: conversation.Errorf(conversation.CodeInternal, "decode admission: %v", m.err)}))
		return
	}
	if err := a.rt.accounts.room(); err != nil {
		from.Answer(answerMessage(machine.Refused{Err: err}))
		return
	}
	in := checkedAdmission{admission: m.admission, precheck: m.request.GetPrecheck()}
	if named := a.schemaOf(m.admission); named != nil {
		a.checkData(from, in, named, a.rt.edge.asking.of(m.request))
		return
	}
	a.take(from, in)
}

func (a *activation) take(from grain.Sender, in checkedAdmission) {
	a.step(machine.Admit{To: a.callers.add(answers(from)), Admission: in.admission, Precheck: in.precheck, Unfit: in.unfit})
}
