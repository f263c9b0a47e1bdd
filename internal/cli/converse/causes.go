package converse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
)

const (
	// causesPath is the path at which parley dev serves the timeline of a submission.
	causesPath = "/+console/api/submission"
	// causesWithin bounds the wait for causes, because events are stored shortly after a settlement.
	// causesPause is the polling interval.
	causesWithin = 3 * time.Second
	causesPause  = 250 * time.Millisecond
	// maxTimelineBytes bounds a timeline, and maxCauseBytes a printed cause.
	maxTimelineBytes = 64 << 20
	maxCauseBytes    = 2 << 10
)

// explain prints the vendor's error message of a failed submission. A server of parley dev serves it;
// for other servers it prints where to find it.
func (r *Reply) explain(ctx context.Context, s conversation.Settlement) {
	if s.Error == nil || s.Error.Type != conversation.CodeModelFailed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, causesWithin)
	defer cancel()
	ticker := time.NewTicker(causesPause)
	defer ticker.Stop()
	for {
		causes, err := causesOf(ctx, r.notes.At, r.access, s.SubmissionID)
		for _, cause := range causes {
			r.notes.Line("vendor: %s", cause)
		}
		if len(causes) > 0 {
			return
		}
		if err == nil {
			select {
			case <-ticker.C:
				continue
			case <-ctx.Done():
			}
		}
		r.notes.Line("the cause is in the server's log at submission=%s", s.SubmissionID)
		return
	}
}

// errNoTimeline reports a server without timelines.
var errNoTimeline = errors.New("the server has no timelines")

// timeline is a node of the tree of a submission.
type timeline struct {
	Kind     string
	Error    *struct{ Message string }
	Children []timeline
}

// causesOf returns the vendor's messages about failed calls of a submission, in order.
func causesOf(ctx context.Context, at *url.URL, access Access, id conversation.SubmissionID) ([]string, error) {
	u := url.URL{Scheme: at.Scheme, User: at.User, Host: at.Host, Path: causesPath, RawQuery: url.Values{"id": {string(id)}}.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	access.Set(req)
	resp, err := access.Options().HTTPClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return nil, errNoTimeline
	}
	var shown struct{ Trace timeline }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxTimelineBytes)).Decode(&shown); err != nil {
		return nil, fmt.Errorf("decode timeline: %w", err)
	}
	return shown.Trace.causes(nil), nil
}

// causes appends the causes of a node and its children without duplicates.
func (t *timeline) causes(all []string) []string {
	if t.Kind == "log" && t.Error != nil && t.Error.Message != "" {
		if message := messageOf(t.Error.Message); !slices.Contains(all, message) {
			all = append(all, message)
		}
	}
	for i := range t.Children {
		all = t.Children[i].causes(all)
	}
	return all
}

// messageOf returns the message in the body of a vendor's response, or the body.
func messageOf(body string) string {
	var answer struct {
		Message string
		Error   struct{ Message string }
	}
	message := body
	if json.Unmarshal([]byte(body), &answer) == nil {
		switch {
		case answer.Error.Message != "":
			message = answer.Error.Message
		case answer.Message != "":
			message = answer.Message
		}
	}
	return cli.OneLine(message, maxCauseBytes)
}
