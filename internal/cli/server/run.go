package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

const (
	// maxIDBytes is the default limit of a server.
	maxIDBytes = 512

	// runPage is the number of batches per read.
	runPage = 64
)

type runConfig struct {
	program *cli.Program
	file    string
	message string
	id      string
	data    string
	json    bool
	initial cli.InitialData
}

func runCommand(p *cli.Program) *cobra.Command {
	cfg := runConfig{program: p}
	cmd := &cobra.Command{
		Use:   "run <file.yaml or agent> -m <message>",
		Short: "Send one message to an agent in this process and print the reply",
		Long: "run sends a message to one agent, that of a file or one of the program by its name, and\n" +
			"prints the reply while it streams. It starts no server and does not read parley.yaml.\n\n" +
			"Without --data the conversation is discarded. With it the conversation is stored in that folder:\n" +
			"run again with the same --id to continue it. The next run also resumes a run that was interrupted\n" +
			"or killed there.\n\n" +
			"Exit code: 0 completed, 2 failed, 3 aborted, 130 interrupted, 1 any other error.",
		Example: "  parley run agent.yaml -m 'hello'\n" +
			"  git diff | parley run reviewer.yaml -m - --json\n" +
			"  parley run agent.yaml --data ./conversations --id trip -m 'and on Sunday?'",
		ValidArgsFunction: p.AgentsAndFiles,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return errors.New("run takes one file with an agent, or the name of one of the program; put the message in quotes after -m: parley run agent.yaml -m 'hello'")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.file = args[0]
			if !cmd.Flags().Changed("message") {
				return fmt.Errorf("run needs a message: parley run %s -m 'hello', or -m - to read it from standard input", cfg.file)
			}
			return runAgent(cmd.Context(), cfg, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&cfg.message, "message", "m", "", "the message; - reads it from standard input, without trailing line ends")
	cmd.Flags().StringVar(&cfg.id, "id", "", "id of the conversation (default: a new one)")
	cmd.Flags().StringVar(&cfg.data, "data", "", "folder that stores the conversation (default: none, it is discarded)")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print only one JSON object at the end")
	cfg.initial.Flag(cmd)
	return cmd
}

// runAgent sends one message to the agent of a file.
func runAgent(ctx context.Context, cfg runConfig, in io.Reader, out, errOut io.Writer) (err error) {
	hidden := &cli.Secrets{}
	defer func() { err = hidden.Hidden(err) }()
	log, err := cli.NewLogger(errOut, "dev", true, hidden)
	if err != nil {
		return err
	}
	fresh := cfg.id == ""
	single, alone, err := cfg.alone(hidden, log)
	if err != nil {
		return err
	}
	if cfg.message, err = cli.ReadMessage(cfg.message, in, "write it after -m, or pipe it to -m -"); err != nil {
		return err
	}
	n, err := newBackend(ctx, *alone)
	if err != nil {
		return err
	}
	if fresh && cfg.data != "" {
		fmt.Fprintf(errOut, "parley: this is conversation %s; continue it with --data %s --id %s\n", cfg.id, cfg.data, cfg.id)
	}
	// It also prints the rest of an interrupted run.
	show, end := func(conversation.Chunk) {}, func() {}
	if !cfg.json {
		p := cli.NewPrinter(out, nil)
		show, end = p.Chunk, p.End
	}
	x := &exchange{node: n, initial: cfg.initial.JSON(), at: conversation.Address{Agent: single.Agent.Name, ID: cfg.id}, show: show}
	err = errors.Join(x.run(ctx, cfg.message), n.close())
	end() // of an incomplete text
	switch {
	case x.result == nil && ctx.Err() != nil:
		return interrupted(cfg, x.admitted)
	case err != nil:
		return err
	}
	if cfg.json {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(x.result); err != nil {
			return fmt.Errorf("print result: %w", err)
		}
	}
	return cli.ExitOf(x.result.Outcome)
}

// alone returns the named agent and the configuration of its node, and sets the conversation id.
func (cfg *runConfig) alone(hidden *cli.Secrets, log *slog.Logger) (*config.Single, *nodeConfig, error) {
	single, err := cfg.single()
	if err != nil {
		return nil, nil, err
	}
	reg, err := registryOf(cfg.program, single.Providers)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", cfg.file, err)
	}
	hidden.Add(reg.Secrets()...)
	warnKeys(log, reg, single.BlankKeys)
	warnSchemas(log, reg, single.Agent)
	if err := checkAgent(reg, single.Agent, false, single.BlankKeys); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", cfg.file, err)
	}
	if cfg.id == "" {
		cfg.id = cli.NewKey()
	}
	if err := checkID(cfg.id); err != nil {
		return nil, nil, err
	}
	single.Agent.Notify, single.Agent.Notifiable = nil, nil // a run sends no notices
	return single, &nodeConfig{
		bucket: config.Bucket{Dir: cfg.data}, memory: cfg.data == "",
		agents: []*agent.Agent{single.Agent}, providers: reg, targets: cfg.program.Targets, log: log,
	}, nil
}

// single returns the named agent: one of the program, or that of a file.
func (cfg *runConfig) single() (*config.Single, error) {
	for _, a := range cfg.program.Agents {
		if a.Name == cfg.file {
			return &config.Single{Agent: a}, nil
		}
	}
	single, err := config.LoadSingle(cfg.file, cfg.program.ConfigOptions())
	if names := cfg.program.OwnAgents(); errors.Is(err, fs.ErrNotExist) && len(names) > 0 {
		return nil, fmt.Errorf("%s is neither an agent of the program nor a file; its agents are %s", cfg.file, strings.Join(names, ", "))
	}
	return single, err
}

// interrupted returns the error of an interrupted run, with the state of its message.
func interrupted(cfg runConfig, admitted bool) error {
	text := "interrupted"
	switch {
	case cfg.data != "" && admitted:
		text = fmt.Sprintf("interrupted; the next run with --data %s resumes it", cfg.data)
	case cfg.data != "":
		text = fmt.Sprintf("interrupted; if the message was accepted, the next run with --data %s resumes it", cfg.data)
	}
	return &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New(text)}
}

// checkID rejects a conversation id that a server would reject.
func checkID(id string) error {
	switch {
	case strings.TrimFunc(id, unicode.IsSpace) == "":
		return errors.New("--id is blank; omit it to get a new one")
	case !utf8.ValidString(id):
		return errors.New("--id is not valid UTF-8")
	case len(id) > maxIDBytes:
		return fmt.Errorf("--id has %d bytes; at most %d are allowed", len(id), maxIDBytes)
	}
	return nil
}

// runResult is the output of --json.
type runResult struct {
	ID           string                        `json:"id"`
	Agent        string                        `json:"agent"`
	SubmissionID conversation.SubmissionID     `json:"submissionId"`
	UID          conversation.UID              `json:"uid"`
	Outcome      conversation.Outcome          `json:"outcome"`
	Text         string                        `json:"text"`
	Output       json.RawMessage               `json:"output,omitempty"`
	Data         []conversation.NamedData      `json:"data,omitempty"`
	Metadata     json.RawMessage               `json:"metadata,omitempty"`
	Error        *conversation.SettlementError `json:"error,omitempty"`
}

// exchange is one message to a conversation of a node, and the reply.
type exchange struct {
	node     *backend
	at       conversation.Address
	initial  json.RawMessage // for a new conversation
	show     func(conversation.Chunk)
	before   int64 // last batch of the log before the node started, -1 for none
	admitted bool
	result   *runResult // nil until the message is settled
}

// run runs the node until the message is settled.
func (x *exchange) run(ctx context.Context, message string) error {
	var err error
	if x.before, err = storage.NewLogs(x.node.bucket, nil).Tail(ctx, x.at.Key(), -1); err != nil {
		x.before = -1 // the node reports the error
	}
	g, ctx := errgroup.WithContext(ctx)
	nodeCtx, stop := context.WithCancel(ctx)
	defer stop()
	g.Go(func() error { return x.node.run(nodeCtx) })
	g.Go(func() error {
		defer stop()
		select {
		case <-x.node.runtime.Ready():
		case <-ctx.Done():
			return nil // the node reports the error
		}
		return x.send(ctx, message)
	})
	return g.Wait()
}

// send admits the message and follows the conversation until it is settled.
func (x *exchange) send(ctx context.Context, message string) error {
	receipt, err := x.node.runtime.Admit(ctx, conversation.Admission{
		Address: x.at, Key: cli.NewKey(), InitialData: x.initial,
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: message},
	})
	if err != nil {
		return fmt.Errorf("send the message: %w", err)
	}
	x.admitted = true
	if err := x.follow(ctx, receipt); err != nil {
		return fmt.Errorf("follow the reply: %w", err)
	}
	page, err := x.node.runtime.Reader().Snapshot(ctx, x.at)
	if err != nil {
		return fmt.Errorf("read the reply: %w", err)
	}
	var s conversation.Snapshot
	encoded, err := page.Bytes(ctx)
	if err == nil {
		err = json.Unmarshal(encoded, &s)
	}
	if err != nil {
		return fmt.Errorf("decode the reply: %w", err)
	}
	x.result = resultOf(x.at, receipt, s)
	return nil
}

// follow prints the records until the settlement of the message, except the message itself. It begins
// at the former end of the log, because the node resumes an interrupted run at once.
func (x *exchange) follow(ctx context.Context, receipt conversation.Receipt) error {
	reader, next := x.node.runtime.Reader(), receipt.Offset
	if x.before >= 0 {
		next = conversation.Offset(x.before)
	}
	for settled := false; !settled; {
		page, err := reader.Updates(ctx, x.at, next, runPage)
		if err != nil {
			return err
		}
		var chunks []conversation.Chunk
		encoded, err := page.Bytes(ctx)
		if err == nil {
			err = json.Unmarshal(encoded, &chunks)
		}
		if err != nil {
			return fmt.Errorf("decode chunks: %w", err)
		}
		for _, c := range chunks {
			if own := c.Message; own == nil || own.Role != conversation.RoleUser || own.SubmissionID != receipt.SubmissionID {
				x.show(c)
			}
			if _, ok := cli.SettlementOf(c, receipt.SubmissionID); ok {
				settled = true
			}
		}
		next = page.Next
		if settled || !page.UpToDate {
			continue
		}
		if err := reader.Wait(ctx, x.at, next); err != nil {
			return err
		}
	}
	return nil
}

// resultOf extracts the reply to a message from its conversation.
func resultOf(at conversation.Address, receipt conversation.Receipt, s conversation.Snapshot) *runResult {
	r := &runResult{ID: at.ID, Agent: at.Agent, SubmissionID: receipt.SubmissionID, UID: receipt.UID}
	m, end := s.Reply(receipt.SubmissionID)
	if end != nil {
		r.Outcome, r.Error = end.Outcome, end.Error
	}
	if m != nil {
		r.Text, r.Output, r.Data, r.Metadata = m.Text(), m.Output(), m.Data(), m.Metadata
	}
	return r
}
