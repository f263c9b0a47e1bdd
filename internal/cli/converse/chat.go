package converse

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
)

// maxMessages bounds the printed messages of an existing conversation.
const maxMessages = 20

// ChatOptions configure a [Chat].
type ChatOptions struct {
	At     *url.URL
	Access Access
	// Initial is the initial data of a new conversation.
	Initial cli.InitialData
	// In, Out and ErrOut are the standard streams. Lines are edited at a terminal. Otherwise each line
	// is a message, and no prompt is printed.
	In          io.Reader
	Out, ErrOut io.Writer
	// Welcome is printed first.
	Welcome string
}

// Chat runs a prompt until In or ctx ends or the user leaves. At a terminal the user leaves with
// Ctrl-D, or with Ctrl-C while no answer streams. Without a terminal it returns the outcome of the
// last message as an error of package cli.
func Chat(ctx context.Context, o ChatOptions) error {
	c := &chat{o: o, notes: &Notices{At: o.At, ErrOut: o.ErrOut}, out: o.Out}
	if in, out := cli.File(o.In), cli.File(o.Out); in != nil && cli.IsTerminal(in) && cli.IsTerminal(o.Out) {
		state, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return fmt.Errorf("edit lines at the terminal: %w", err)
		}
		defer func() { _ = term.Restore(int(in.Fd()), state) }()
		c.keys = newKeyboard()
		c.raw = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{c.keys, out}, "> ")
		_, _ = io.WriteString(out, "\x1b[?2004h") // enables bracketed paste
		defer func() { _, _ = io.WriteString(out, "\x1b[?2004l") }()
		c.out = cli.Clean(c.raw)
		c.notes.ErrOut = c.out
		go c.keys.listen(in) // It ends with the terminal or the process.
		defer context.AfterFunc(ctx, func() { c.keys.end(ctx.Err()) })()
	} else {
		c.lines = bufio.NewReader(o.In)
	}
	return c.run(ctx)
}

// chat is a conversation at a prompt.
type chat struct {
	o     ChatOptions
	notes *Notices
	out   io.Writer      // filters escape sequences
	raw   *term.Terminal // nil if lines are not edited
	keys  *keyboard
	lines *bufio.Reader
	last  conversation.Outcome
}

func (c *chat) run(ctx context.Context) error {
	if c.raw != nil && c.o.Welcome != "" {
		fmt.Fprintln(c.out, c.o.Welcome)
	}
	if err := c.before(ctx); err != nil {
		return err
	}
	for {
		text, err := c.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			if c.raw != nil {
				fmt.Fprintln(c.out)
				return nil
			}
			return cli.ExitOf(c.last)
		case err != nil:
			return &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New("interrupted")}
		case strings.TrimSpace(text) == "":
			continue
		}
		left, err := c.send(ctx, text)
		if left || err != nil {
			return err
		}
	}
}

// next reads the next message.
func (c *chat) next(ctx context.Context) (string, error) {
	if c.raw == nil {
		line, err := c.lines.ReadString('\n')
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if line == "" && err != nil {
			return "", io.EOF
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	if w := cli.Width(c.o.Out); w > 0 {
		_ = c.raw.SetSize(w, 24)
	}
	line, err := c.raw.ReadLine()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return c.keys.message(line), err
}

// before prints the last messages of an existing conversation.
func (c *chat) before(ctx context.Context) error {
	patient, enough := c.interruptible(ctx)
	defer enough()
	connecting, cancel := context.WithCancelCause(patient)
	defer cancel(nil)
	probe, err := NewClient(c.o.At, c.o.Access, func(err error) { cancel(err) })
	if err != nil {
		return err
	}
	s, err := probe.History(connecting)
	var refused *client.Error
	switch {
	case errors.As(err, &refused) && refused.Type == conversation.CodeStreamNotFound:
		return nil // the first message creates it
	case err != nil && patient.Err() != nil:
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("interrupted; %s://%s has not responded", c.o.At.Scheme, c.o.At.Host)}
	case err != nil && connecting.Err() != nil:
		return fmt.Errorf("there is no server at %s://%s (%w); start it, for example with parley dev, or correct the URL", c.o.At.Scheme, c.o.At.Host, unreached(context.Cause(connecting)))
	case err != nil:
		return fmt.Errorf("read %s: %w", c.o.At.Redacted(), Readable(err))
	case c.raw == nil:
		return nil // a program needs no history
	}
	if n := len(s.Messages); n > maxMessages {
		fmt.Fprintf(c.out, "(the last %d messages; parley tail %s prints all)\n", maxMessages, c.o.At.Redacted())
		s.Messages = s.Messages[n-maxMessages:]
	}
	s.Settlements = nil // the messages already show failed submissions
	p := c.printer("")
	p.Chunk(conversation.Chunk{Type: conversation.ChunkReset, Snapshot: s})
	p.End()
	return nil
}

// unreached returns the network error without the request.
func unreached(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}

// printer returns a printer for one answer, or for all with "".
func (c *chat) printer(only conversation.SubmissionID) *cli.Printer {
	o := &cli.PrintOptions{Only: only, Bare: only != ""}
	if c.raw != nil {
		o.Width, o.Raw = cli.Width(c.o.Out), c.raw
		if cli.Coloured(c.o.Out) {
			o.Dim, o.Plain = "\x1b[2m", "\x1b[0m"
		}
	}
	return cli.NewPrinter(c.out, o)
}

// send posts a message and prints its answer. left reports that the user left before its end.
func (c *chat) send(ctx context.Context, text string) (left bool, err error) {
	m := client.Message{Body: text, Key: cli.NewKey()}
	if initial := c.o.Initial.JSON(); initial != nil {
		m.InitialData = initial
	}
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	c.notes.Notice, c.notes.reported = nil, false
	posting, posted := c.interruptible(leaving)
	conv, receipt, err := Post(posting, c.notes, c.o.Access, m)
	left = err != nil && posting.Err() != nil && ctx.Err() == nil
	posted()
	if left {
		c.notes.Line("left; it is unknown whether the message was accepted: parley tail %s shows it in this case", c.o.At.Redacted())
		return true, nil
	}
	if err != nil {
		err = Unsure(ctx, "send", "message", m.Key, err)
		if c.raw == nil || ctx.Err() != nil {
			return false, err
		}
		c.notes.Line("%v", err)
		return false, nil
	}
	answer := NewReply(conv, receipt, c.printer(receipt.SubmissionID), c.notes, c.o.Access)
	done := c.watch(leaving, leave, conv)
	outcome, err := answer.Follow(leaving)
	answer.End()
	if c.keys != nil {
		c.keys.answering(false)
	}
	leave()
	if <-done && ctx.Err() == nil {
		c.notes.Line("left; the message continues at the server, parley tail %s shows it", c.o.At.Redacted())
		return true, nil
	}
	switch {
	case ctx.Err() != nil:
		return false, &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New("interrupted; the message continues at the server")}
	case err != nil:
		return false, fmt.Errorf("follow the reply: %w", Readable(err))
	}
	c.last = outcome
	return false, nil
}

// interruptible returns a context that Ctrl-C cancels until stop is called. At a raw terminal, where
// Ctrl-C is a key, nothing else ends a call without an answer.
func (c *chat) interruptible(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	if c.keys == nil {
		return ctx, cancel
	}
	c.keys.answering(true)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-ctx.Done():
		case <-c.keys.interrupts:
			cancel()
		}
	}()
	return ctx, func() { cancel(); <-gone; c.keys.answering(false) }
}

// watch handles interrupts while an answer streams: the first aborts it, the second leaves. When
// leaving ends, the channel receives whether the user has left.
func (c *chat) watch(leaving context.Context, leave func(), conv *client.Conversation) <-chan bool {
	done := make(chan bool, 1)
	if c.keys == nil {
		done <- false
		return done
	}
	c.keys.answering(true)
	go func() {
		left := false
		var asking sync.WaitGroup
		defer func() { asking.Wait(); done <- left }()
		for aborted := false; ; aborted = true {
			select {
			case <-leaving.Done():
				return
			case <-c.keys.interrupts:
			}
			if aborted {
				left = true
				leave()
				return
			}
			c.notes.Line("aborting; Ctrl-C again leaves")
			asking.Go(func() { // may take as long as the server does
				if _, err := conv.Abort(leaving); err != nil && leaving.Err() == nil {
					c.notes.Line("abort: %v", Readable(err))
				}
			})
		}
	}()
	return done
}
