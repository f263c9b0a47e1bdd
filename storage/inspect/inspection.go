package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// maxFindings bounds the findings of one conversation, separately for corruption and the rest.
	maxFindings = 1000
	// objectOverhead is the maximum size of an object beyond its content.
	objectOverhead = 1 << 20
)

// errStop ends a listing early.
var errStop = errors.New("stopped")

// inspection is one check of one conversation.
type inspection struct {
	bucket storage.Bucket // retries reads
	logs   *storage.Logs
	opts   Options
	conv   conversation.Key

	sum         Summary
	address     conversation.Address // from any readable object
	findings    []Finding
	corruptions int // number of findings, stored or not
	others      int
	dropped     bool // set if there were too many
}

func (l *inspection) find(severity Severity, kind Kind, key string, seq int64, text string, steps ...step) {
	kept := &l.others
	if severity == Corruption {
		kept = &l.corruptions // Other findings must not hide corruption.
	}
	if *kept++; *kept > maxFindings {
		l.dropped = true
		return
	}
	l.findings = append(l.findings, Finding{Severity: severity, Kind: kind, Conv: l.conv, Key: key, Seq: seq, Text: text, steps: steps})
}

// check examines all objects of the conversation. The error is the bucket's.
func (l *inspection) check(ctx context.Context) error {
	found, err := l.surroundings(ctx)
	if err != nil {
		return err
	}
	if !found {
		return ErrNoConversation
	}
	l.sum.Conversations = 1
	marks, err := l.readMarks(ctx)
	if err != nil {
		return err
	}
	c := &chain{inspection: l, wanted: map[int64]*mark{}}
	for _, p := range marks.all {
		if p.bad == nil {
			c.wanted[p.checkpoint.At.Seq] = &mark{}
		}
	}
	if err := c.follow(ctx); err != nil {
		return err
	}
	f, err := l.fold(ctx, c, marks)
	if err != nil {
		return err
	}
	marks.checkAll(c, f)
	if err := l.attachments(ctx, f); err != nil {
		return err
	}
	if err := l.name(ctx, f); err != nil {
		return err
	}
	if l.dropped {
		l.findings = append(l.findings, Finding{Severity: Note, Kind: KindMore, Conv: l.conv, Seq: -1,
			Text: fmt.Sprintf("more than %d findings; fix these and verify again", len(l.findings))})
	}
	return nil
}

// of takes the address of the conversation from a state of it.
func (l *inspection) of(s *conversation.State) {
	if c := s.Created(); c != nil {
		if at := (conversation.Address{Agent: c.Agent, ID: c.ID}); at.Key() == l.conv {
			l.address = at
		}
	}
}

// name adds the address of the conversation to each finding, from the log, or else a checkpoint, or
// else an index entry.
func (l *inspection) name(ctx context.Context, f *folded) error {
	if len(l.findings) == 0 {
		return nil
	}
	if l.of(f.state); l.address.Agent == "" {
		if err := l.indexed(ctx); err != nil {
			return err
		}
	}
	for i := range l.findings {
		l.findings[i].Agent, l.findings[i].ID = l.address.Agent, l.address.ID
	}
	return nil
}

// indexed searches the index for the conversation: one request per agent and day.
func (l *inspection) indexed(ctx context.Context) error {
	return eachEntry(ctx, l.bucket, "index/", func(agent string) error {
		return eachEntry(ctx, l.bucket, agent, func(day string) error {
			if l.address.Agent != "" || !strings.HasSuffix(day, "/") {
				return nil
			}
			data, err := l.bucket.Get(ctx, day+string(l.conv))
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			} else if err != nil {
				return err
			}
			if e, err := storage.DecodeIndex(data); err == nil && e.Address.Key() == l.conv {
				l.address = e.Address
			}
			return nil
		})
	})
}

// surroundings reports foreign keys of the conversation's folder. found is false if the folder is
// empty.
func (l *inspection) surroundings(ctx context.Context) (found bool, err error) {
	prefix := storage.FolderOf(l.conv)
	err = eachEntry(ctx, l.bucket, prefix, func(entry string) error {
		found = true
		if storage.KindOf(entry) == "" {
			l.foreign(entry)
		}
		return nil
	})
	return found, err
}

// foreign reports an unknown key.
func (l *inspection) foreign(key string) {
	l.find(Note, KindForeignKey, key, -1, "unknown key; Parley neither reads nor deletes it")
}

// attachments checks every attachment that records name.
func (l *inspection) attachments(ctx context.Context, f *folded) error {
	prefix := storage.FolderOf(l.conv) + "blob/"
	err := eachKey(ctx, l.bucket, prefix, func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil {
			l.foreign(k.Key)
			return nil
		}
		l.sum.Attachments++
		a := f.attachments[name.Digest]
		if a == nil {
			l.sum.Unreferenced++
			return nil
		}
		a.found = true
		return l.attachment(ctx, k.Key, name.Digest, a)
	})
	if err != nil {
		return err
	}
	for digest, a := range f.attachments {
		if !a.found {
			l.find(Corruption, KindAttachment, prefix+digest, a.seq, fmt.Sprintf(
				"an attachment of %d bytes, named by batch %d, is missing; restore the object from a copy", a.size, a.seq))
		}
	}
	if l.sum.Unreferenced > 0 && f.whole {
		l.find(Note, KindUnreferencedAttachment, prefix, -1, fmt.Sprintf(
			"%d attachments belong to no accepted message; they are deleted with the conversation", l.sum.Unreferenced))
	}
	return nil
}

// attachment reads one.
func (l *inspection) attachment(ctx context.Context, key, hex string, a *attachment) error {
	var digest storage.Digest
	if err := digest.UnmarshalText([]byte(hex)); err != nil {
		return err // The key has been parsed.
	}
	content, err := storage.OpenBlob(ctx, l.bucket, l.conv, digest, a.size)
	if err == nil {
		_, err = io.Copy(io.Discard, content)
		err = errors.Join(err, content.Close())
	}
	var flaw *storage.IntegrityError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &flaw), errors.Is(err, storage.ErrNotFound):
		l.find(Corruption, KindAttachment, key, a.seq, fmt.Sprintf(
			"the attachment named by batch %d is corrupt: %v; restore the object from a copy", a.seq, err))
		return nil
	default:
		return err
	}
}

// eachKey visits every object below a prefix, in order.
func eachKey(ctx context.Context, b storage.Bucket, prefix string, visit func(storage.ListedKey) error) error {
	return eachPage(ctx, b, storage.ListQuery{Prefix: prefix}, func(page storage.ListPage) error {
		for _, k := range page.Keys {
			if err := visit(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachEntry visits the entries directly below a prefix: objects, and folders with their slash.
func eachEntry(ctx context.Context, b storage.Bucket, prefix string, visit func(entry string) error) error {
	return eachPage(ctx, b, storage.ListQuery{Prefix: prefix, Delimiter: "/"}, func(page storage.ListPage) error {
		for _, k := range page.Keys {
			if err := visit(k.Key); err != nil {
				return err
			}
		}
		for _, p := range page.Prefixes {
			if err := visit(p); err != nil {
				return err
			}
		}
		return nil
	})
}

func eachPage(ctx context.Context, b storage.Bucket, q storage.ListQuery, visit func(storage.ListPage) error) error {
	for {
		page, err := b.List(ctx, q)
		if err != nil {
			return fmt.Errorf("list %q: %w", q.Prefix, err)
		}
		if err := visit(page); err != nil {
			return err
		}
		last := ""
		if n := len(page.Keys); n > 0 {
			last = page.Keys[n-1].Key
		}
		if n := len(page.Prefixes); n > 0 {
			// All keys below the folder sort before this.
			last = max(last, strings.TrimSuffix(page.Prefixes[n-1], "/")+"0")
		}
		if !page.More {
			return nil
		}
		if last <= q.After {
			return &storage.Error{Op: "list", Key: q.Prefix, Kind: storage.ErrUnavailable, Err: errors.New("listing makes no progress")}
		}
		q.After = last
	}
}
