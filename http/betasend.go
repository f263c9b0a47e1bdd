package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/http/beta"
)

var betaWords = vocabulary{body: "message", attachments: "images"}

// readBetaPrompt decodes and validates a body of {message, images}. A blank body counts as an empty
// object.
func readBetaPrompt(opts *Options, body *spool) (*prompt, error) {
	has, err := locate(body, betaWords.body)
	if err != nil && !errors.Is(err, errEmptyBody) {
		return nil, err
	}
	p := &promptReader{opts: opts, body: body, has: has, budget: opts.MaxTextBytes, words: betaWords}
	p.out.delivery.Kind = conversation.KindUser
	err = p.text()
	if v, ok := has[betaWords.attachments]; ok && err == nil {
		err = p.attachments(v)
	}
	return p.finish(err)
}

// betaAdmitted is the body of a 202, and of the 200 with a result.
type betaAdmitted struct {
	Result       json.RawMessage           `json:"result,omitempty"`
	StreamURL    string                    `json:"streamUrl"`
	Offset       string                    `json:"offset"`
	SubmissionID conversation.SubmissionID `json:"submissionId"`
}

// post admits one prompt. The returned offset precedes the admission, so that all events of the prompt
// follow it.
func (b *betaLine) post(w *response, r *http.Request, at conversation.Address) error {
	if err := checkAdmissible(at.ID); err != nil {
		return err
	}
	wait, err := waits(parseQuery(r.URL.RawQuery))
	if err != nil {
		return err
	}
	if err := checkBetaMedia(r); err != nil {
		return err
	}
	before := int64(-1)
	switch end, err := b.events.EventTail(r.Context(), at); {
	case err == nil:
		before = end.Next
	case conversation.CodeOf(err) != conversation.CodeStreamNotFound:
		return err
	}
	receipt, _, err := b.take(w, r, at, readBetaPrompt)
	if err != nil {
		return err
	}
	a := betaAdmitted{StreamURL: b.streamURL(r), Offset: beta.Offset(before), SubmissionID: receipt.SubmissionID}
	status := http.StatusAccepted
	if wait {
		done, err := b.settlement(w, r, at, before, receipt.SubmissionID)
		switch {
		case err != nil:
			return b.noResult(r, err, fmt.Sprintf("The message was admitted as %s and will be settled.", a.SubmissionID), map[string]any{
				"submissionId": a.SubmissionID, "streamUrl": a.StreamURL, "offset": a.Offset,
			})
		case done.Outcome != conversation.OutcomeCompleted:
			b.writeEnvelope(w, r, http.StatusInternalServerError, done.Error)
			return nil
		}
		status, a.Result = http.StatusOK, done.Result
	} else {
		w.Header().Set("Location", a.StreamURL)
		w.Header().Set(headerNextOffset, a.Offset)
	}
	return respond(w, status, a)
}

// checkBetaMedia accepts any header that contains application/json. A request without a body needs no
// media type, because its error is the missing message.
func checkBetaMedia(r *http.Request) error {
	media := strings.ToLower(r.Header.Get("Content-Type"))
	switch {
	case !bodied(r):
		return invalid("The member message is missing; it must be a string.")
	case !strings.Contains(media, "application/json"):
		return checkMediaType(r)
	}
	return nil
}

// betaSettled is the event that ends a submission.
type betaSettled struct {
	Type         string                    `json:"type"`
	SubmissionID conversation.SubmissionID `json:"submissionId"`
	Outcome      conversation.Outcome      `json:"outcome"`
	Result       json.RawMessage           `json:"result"`
	Error        envelopeError             `json:"error"`
}

// settlement waits for the end of a submission.
func (b *betaLine) settlement(
	w *response, r *http.Request, at conversation.Address, after int64, id conversation.SubmissionID,
) (*betaSettled, error) {
	live, leave, err := b.enterLive(r.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	w.unlimited()
	for ctx := live; ; ctx = conversation.Tailing(live) {
		page, err := b.events.Events(ctx, at, after, beta.PageEvents)
		if err != nil {
			return nil, err
		}
		if done, err := settledIn(page.JSON, id); done != nil || err != nil {
			return done, err
		}
		if after = page.Next; !page.UpToDate {
			continue
		}
		if err := b.reader.Wait(conversation.Tailing(live), at, page.Through); err != nil {
			if cause := context.Cause(live); cause != nil && r.Context().Err() == nil {
				err = cause
			}
			return nil, err
		}
	}
}

// settledIn finds the end of a submission in a page of events.
func settledIn(page []byte, id conversation.SubmissionID) (*betaSettled, error) {
	if !bytes.Contains(page, []byte(`"type":"submission_settled"`)) {
		return nil, nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(page, &raw); err != nil {
		return nil, fmt.Errorf("decode events: %w", err)
	}
	for _, line := range raw {
		var e betaSettled
		if !bytes.Contains(line, []byte(`"type":"submission_settled"`)) {
			continue
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("decode event: %w", err)
		}
		if e.Type == "submission_settled" && e.SubmissionID == id {
			return &e, nil
		}
	}
	return nil, nil
}
