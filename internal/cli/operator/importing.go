package operator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/transfer"
	"github.com/parleyrun/parley/internal/cli/converse"
	"github.com/parleyrun/parley/storage"
)

const (
	// maxShownBytes bounds a response of the old server.
	maxShownBytes = 256 << 20
	// maxPages bounds the pages of one event stream.
	maxPages = 100_000
)

// importing imports conversations into a bucket.
type importing struct {
	bucket storage.Bucket
	logs   *storage.Logs
	old    *oldServer
}

// conversation imports a conversation and returns a summary.
func (im *importing) conversation(ctx context.Context, raw string, at conversation.Address) (string, error) {
	shown, err := im.old.show(ctx, raw)
	if err != nil {
		return "", err
	}
	if shown.ID == "" {
		shown.ID = conversation.ConversationID("conv_" + string(at.Key()))
	}
	here, err := im.here(ctx, at)
	if err != nil {
		return "", err
	}
	incarnation := transfer.Incarnation{Address: at, UID: here.uid, At: here.at, Files: map[conversation.AttachmentID]conversation.Attachment{}}
	for _, part := range shown.Attachments() {
		if incarnation.Files[part.ID], err = im.attachment(ctx, raw, at, part); err != nil {
			return "", fmt.Errorf("attachment %s: %w", part.ID, err)
		}
	}
	groups, err := shown.Records(incarnation)
	if err != nil {
		return "", err
	}
	wrote, err := im.write(ctx, at, here, groups)
	if err != nil {
		return "", err
	}
	summary := fmt.Sprintf("%d messages, %d attachments, %d settlements, as %q of agent %q", len(shown.Messages), len(incarnation.Files), len(shown.Settlements), at.ID, at.Agent)
	switch {
	case wrote == 0:
		return "already stored: " + summary, nil
	case len(here.lines) > 0:
		return "continued: " + summary, nil
	}
	return "imported: " + summary, nil
}

// present is the stored part of a conversation.
type present struct {
	end   storage.Position
	lines []byte // lines of all records
	uid   conversation.UID
	at    conversation.Time
}

func (im *importing) here(ctx context.Context, at conversation.Address) (*present, error) {
	p := &present{end: storage.Start(), uid: conversation.UID("inst_" + ulid.Make().String()), at: conversation.TimeOf(time.Now())}
	for b, err := range im.logs.Batches(ctx, at.Key(), storage.Start()) {
		if err != nil {
			return nil, fmt.Errorf("read the stored conversation: %w", err)
		}
		if len(p.lines) == 0 && len(b.Lines) > 0 {
			records, err := conversation.DecodeRecords(b.Lines)
			if err != nil {
				return nil, fmt.Errorf("read the stored conversation: %w", err)
			}
			if created, ok := records[0].(*conversation.ConversationCreated); ok {
				p.uid, p.at = created.UID, created.At
			}
		}
		p.end, p.lines = b.Position(), append(p.lines, b.Lines...)
	}
	return p, nil
}

// write appends the missing groups and returns their number. Each group is one batch and settles the
// submissions that it admits, so an interruption leaves no pending work.
func (im *importing) write(ctx context.Context, at conversation.Address, here *present, groups [][]conversation.Record) (int, error) {
	var missing [][]byte
	rest := here.lines
	for _, g := range groups {
		lines, err := conversation.EncodeRecords(nil, g)
		if err != nil {
			return 0, err
		}
		n := common(rest, lines)
		if n < min(len(rest), len(lines)) {
			return 0, errors.New("another conversation has its id, or this one has continued here")
		}
		if rest = rest[n:]; n < len(lines) {
			missing = append(missing, lines[n:])
		}
	}
	if len(missing) == 0 { // the conversation may have continued here
		return 0, nil
	}
	w := im.logs.Writer(at.Key(), storage.Nonce(ulid.Make().String()), here.end, 0)
	for n, lines := range missing {
		if _, err := w.Append(ctx, lines, conversation.TimeOf(time.Now())); err != nil {
			return n, fmt.Errorf("write the conversation: %w; run the same command again to continue", err)
		}
	}
	entry := storage.IndexEntry{Address: at, Day: storage.DayOf(conversation.TimeOf(time.Now()))}
	return len(missing), im.logs.PutIndex(ctx, entry)
}

// common returns the length in bytes of the common prefix of a and b.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	if bytes.Equal(a[:n], b[:n]) {
		return n
	}
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// attachment stores the bytes of an attachment.
func (im *importing) attachment(ctx context.Context, raw string, at conversation.Address, part conversation.Part) (a conversation.Attachment, err error) {
	u, err := url.Parse(raw)
	if err != nil {
		return a, err
	}
	file, err := os.CreateTemp("", "parley-import-*")
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	sum := sha256.New()
	size, err := im.old.get(ctx, u.JoinPath("attachments", url.PathEscape(string(part.ID))).String(), io.MultiWriter(file, sum))
	if err != nil {
		return a, err
	}
	digest := storage.Digest(sum.Sum(nil))
	if err := storage.PutBlob(ctx, im.bucket, at.Key(), storage.Body{Reader: file, Size: size.bytes, SHA256: digest}); err != nil {
		return a, err
	}
	return conversation.Attachment{
		ID: part.ID, SHA256: hex.EncodeToString(digest[:]), MimeType: part.MediaType, Size: size.bytes, Filename: part.Filename,
	}, nil
}

// oldServer is the source of an import.
type oldServer struct {
	client http.Client
	access converse.Access
}

// show reads a conversation: a snapshot, or an event stream from its start.
func (o *oldServer) show(ctx context.Context, raw string) (*transfer.Conversation, error) {
	var events transfer.Events
	next := raw
	for range maxPages {
		var page bytes.Buffer
		got, err := o.get(ctx, next, &page)
		if err != nil {
			return nil, err
		}
		if body := bytes.TrimSpace(page.Bytes()); len(body) > 0 && body[0] == '{' && next == raw {
			return transfer.ParseSnapshot(body)
		}
		n, err := events.Page(page.Bytes())
		switch {
		case err != nil:
			return nil, err
		case got.upToDate || n == 0:
			return events.Conversation()
		case got.next == "":
			return nil, errors.New("the server does not return the next offset of its event stream")
		}
		u, err := url.Parse(raw)
		if err != nil {
			return nil, err
		}
		u.RawQuery = url.Values{"offset": {got.next}}.Encode()
		next = u.String()
	}
	return nil, fmt.Errorf("its event stream has more than %d pages", maxPages)
}

// answered holds headers of a response and the length of its body.
type answered struct {
	next     string
	upToDate bool
	bytes    int64
}

// get copies the body of a response.
func (o *oldServer) get(ctx context.Context, raw string, to io.Writer) (a answered, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return a, err
	}
	o.access.Set(req)
	res, err := o.client.Do(req)
	if err != nil {
		return a, fmt.Errorf("call the old server: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // read to its end, or the read error is returned
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return a, fmt.Errorf("the old server responded %d: %s", res.StatusCode, strings.TrimSpace(string(body)))
	}
	a.next, a.upToDate = res.Header.Get("Stream-Next-Offset"), res.Header.Get("Stream-Up-To-Date") == "true"
	a.bytes, err = io.Copy(to, io.LimitReader(res.Body, maxShownBytes+1))
	if err == nil && a.bytes > maxShownBytes {
		err = fmt.Errorf("it is longer than %d bytes", maxShownBytes)
	}
	return a, err
}
