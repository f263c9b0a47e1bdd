package actors

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

// pagesReader returns pages in order. It records which reads continue an earlier one.
type pagesReader struct {
	pages     []conversation.Page // a page without JSON stands for an unavailable bucket
	snapshots []string
	calls     []string
}

func (s *pagesReader) note(ctx context.Context, method string) {
	if conversation.IsTailing(ctx) {
		method += " tailing"
	}
	s.calls = append(s.calls, method)
}

func (s *pagesReader) Head(context.Context, conversation.Address) (conversation.Offset, error) {
	return conversation.Start, nil
}

func (s *pagesReader) Snapshot(ctx context.Context, _ conversation.Address) (conversation.Page, error) {
	s.note(ctx, "Snapshot")
	page := conversation.Page{JSON: []byte(s.snapshots[0])}
	s.snapshots = s.snapshots[1:]
	return page, nil
}

func (s *pagesReader) Updates(ctx context.Context, _ conversation.Address, _ conversation.Offset, _ int) (conversation.Page, error) {
	s.note(ctx, "Updates")
	page := s.pages[0]
	s.pages = s.pages[1:]
	if page.JSON == nil {
		return page, conversation.Unavailable(retryAfter, io.ErrUnexpectedEOF)
	}
	return page, nil
}

func (s *pagesReader) Wait(ctx context.Context, _ conversation.Address, _ conversation.Offset) error {
	s.note(ctx, "Wait")
	return nil
}

func (s *pagesReader) Attachment(context.Context, conversation.Address, conversation.AttachmentID) (conversation.Attachment, io.ReadCloser, error) {
	return conversation.Attachment{}, nil, io.EOF
}

// TestReplyIsReadIncrementally: the first read, and the first after a failure, checks the end of the log; the
// others continue from there.
func TestReplyIsReadIncrementally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := conversation.Page{JSON: []byte("[]"), Next: 1, UpToDate: true}
		settled := conversation.Page{JSON: []byte(`[{"type":"submission-settled","submissionId":"sub_1"}]`), Next: 2, UpToDate: true}
		s := &pagesReader{
			pages: []conversation.Page{{JSON: []byte("[]"), Next: 0}, empty, empty, {}, empty, settled},
			snapshots: []string{
				`{"messages":[{"id":"m1","submissionId":"sub_1"}]}`,
				`{"messages":[{"id":"m1","submissionId":"sub_1"}],"settlements":[{"submissionId":"sub_1","outcome":"completed"}]}`,
			},
		}
		r := &Runtime{edge: &edge{ended: func() bool { return false }}}
		_, err := r.untilSettled(t.Context(), s, conversation.Address{Agent: "a", ID: "1"}, conversation.Receipt{SubmissionID: "sub_1"})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"Updates",
			"Updates tailing", "Snapshot tailing", "Wait tailing",
			"Updates tailing", "Wait tailing",
			"Updates tailing", // fails
			"Updates", "Wait tailing",
			"Updates tailing", "Snapshot tailing",
		}
		if d := cmp.Diff(want, s.calls); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
	})
}
