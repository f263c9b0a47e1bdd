package talk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
)

// queueLook is how long nothing may come of an answer before it is looked at what the message
// waits for.
const queueLook = 500 * time.Millisecond

type sendConfig struct {
	key      string
	tokenEnv string
	attach   []string
	noWait   bool
	json     bool
	initial  cli.InitialData
}

func sendCommand() *cobra.Command {
	cfg := sendConfig{}
	cmd := &cobra.Command{
		Use:   "send <conversation URL> <message>",
		Short: "Send a message to a conversation and print the reply as it comes",
		Long: "send posts a message and follows the conversation until the message is settled: it prints\n" +
			"the answer to this message, and no other's. It survives restarts of the server.\n\n" +
			"Exit code: 0 completed, 2 failed, 3 aborted, 130 interrupted, 1 anything else.",
		Example: "  parley send http://127.0.0.1:5173" + cli.MountPath + "/hello 'long 100'\n" +
			"  git diff | parley send http://127.0.0.1:5173" + cli.MountPath + "/review -\n" +
			"  parley send --attach photo.png http://127.0.0.1:5173" + cli.MountPath + "/hello 'What is this?'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return errors.New("send takes a conversation URL and one message; put the message in quotes: parley send http://127.0.0.1:5173" + cli.MountPath + "/hello 'long 100'")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := cli.ReadMessage(args[1], cmd.InOrStdin(), "write it behind the URL, or pipe it to -")
			if err != nil {
				return err
			}
			return send(cmd.Context(), cfg, args[0], text, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.key, "key", "", "idempotency key, by default a fresh one; a message sent again under its key is not repeated")
	cmd.Flags().StringArrayVar(&cfg.attach, "attach", nil, "send this picture with the message; may be given again")
	cmd.Flags().BoolVar(&cfg.noWait, "no-wait", false, "print the receipt as JSON and do not wait for the reply")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print chunks as JSON lines")
	cfg.initial.Flag(cmd)
	cmd.Flags().Var(&cfg.initial, "data", "the same as --initial-data")
	tokenFlag(cmd, &cfg.tokenEnv)
	return cmd
}

func send(ctx context.Context, cfg sendConfig, rawURL, text string, out, errOut io.Writer) error {
	at, err := conversationURL(rawURL)
	if err != nil {
		return err
	}
	if cfg.key == "" {
		cfg.key = cli.NewKey()
	}
	m := client.Message{Body: text, Key: cfg.key}
	if m.Attachments, err = attachments(cfg.attach); err != nil {
		return err
	}
	if initial := cfg.initial.JSON(); initial != nil {
		m.InitialData = initial
	}
	notes := &notices{at: at, errOut: errOut}
	c, receipt, err := post(ctx, notes, cfg.tokenEnv, m)
	if err != nil {
		return unsure(ctx, "send", "message", m, err)
	}
	if cfg.noWait {
		return json.NewEncoder(out).Encode(receipt)
	}
	before := ""
	if receipt.Deduplicated {
		before = ", before"
	}
	notes.line("accepted%s as %s", before, receipt.SubmissionID)
	reply := newReply(c, receipt, cli.NewPrinter(out, &cli.PrintOptions{Only: receipt.SubmissionID, JSON: cfg.json}), notes)
	outcome, err := reply.follow(ctx)
	reply.printer.End()
	if err != nil && ctx.Err() != nil {
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("interrupted; the server goes on with the message, and parley tail %s shows it", at.Redacted())}
	}
	if err != nil {
		return fmt.Errorf("follow the reply: %w", readable(err))
	}
	return cli.ExitOf(outcome)
}

// reply is the answer to one message while it comes.
type reply struct {
	conversation *client.Conversation
	receipt      client.Receipt
	notes        *notices

	mu      sync.Mutex // of what prints
	printer *cli.Printer
}

func newReply(c *client.Conversation, r client.Receipt, p *cli.Printer, notes *notices) *reply {
	a := &reply{conversation: c, receipt: r, printer: p, notes: notes}
	notes.notice = func(errOut io.Writer, format string, args ...any) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.printer.Notice(errOut, format, args...)
	}
	return a
}

// follow prints it until its settlement.
func (r *reply) follow(ctx context.Context) (conversation.Outcome, error) {
	looking, begun := context.WithCancel(ctx)
	var look sync.WaitGroup
	look.Go(func() { r.queue(looking) })
	defer look.Wait()
	defer begun()
	for update, err := range r.conversation.Observe(ctx, r.receipt.Offset, nil) {
		if err != nil {
			return "", err
		}
		if outcome, ended := r.print(update.Chunks, begun); ended {
			return outcome, nil
		}
	}
	return "", ctx.Err() // not reached: it ends with an error
}

// print shows what has come, and reports whether that is the end.
func (r *reply) print(chunks []conversation.Chunk, begun func()) (conversation.Outcome, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range chunks {
		r.printer.Chunk(c)
		if r.printer.Begun() {
			begun()
		}
		if outcome, ok := cli.SettlementOf(c, r.receipt.SubmissionID); ok {
			return outcome, true
		}
	}
	return "", false
}

// queue says how many messages are before this one, if it is not answered soon.
func (r *reply) queue(ctx context.Context) {
	timer := time.NewTimer(queueLook)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	s, err := r.conversation.History(ctx)
	if err != nil {
		return // who follows the answer finds out why
	}
	if n := waiting(s, r.receipt.SubmissionID); n > 0 && ctx.Err() == nil {
		r.notes.line("it waits behind %s", cli.Count(int64(n), "message"))
	}
}

// waiting counts the submissions before one that are not settled.
func waiting(s *conversation.Snapshot, id conversation.SubmissionID) int {
	settled := map[conversation.SubmissionID]bool{}
	for _, e := range s.Settlements {
		settled[e.SubmissionID] = true
	}
	n := 0
	for _, m := range s.Messages {
		if m.SubmissionID == id {
			return n
		}
		if delivered := m.Purpose == conversation.PurposeUser || m.Purpose == conversation.PurposeDispatch; delivered && !settled[m.SubmissionID] {
			n++
		}
	}
	return 0
}
