package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/converse"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

// exitLeft is the exit code of an incomplete import.
const exitLeft = cli.ExitFailure

// importConfig holds the flags of "parley import flue".
type importConfig struct {
	program *cli.Program
	place   *cli.Place
	agent   string
	login   converse.AccessFlags
}

func importCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Import conversations from other servers"}
	cmd.AddCommand(importFlueCommand(p))
	return cmd
}

func importFlueCommand(p *cli.Program) *cobra.Command {
	cfg := &importConfig{program: p}
	cmd := &cobra.Command{
		Use:   "flue URL...",
		Short: "Import conversations from a server of the current or the beta line",
		Long: "flue reads each conversation at its URL and writes it into the bucket: messages in order with\n" +
			"their parts and ids, attachments, settlements in order. Agent and id are the last two segments\n" +
			"of the URL, or the agent is --agent.\n\n" +
			"A server of the current line provides a snapshot and its attachments. One of the beta line\n" +
			"provides the events of a stream, which have no images: each is replaced by a note. Usage, times\n" +
			"and the state of authors are in neither and are not imported.\n\n" +
			"It may run repeatedly: stored messages are skipped, an interrupted import is continued, and new\n" +
			"messages at the old server are appended. A conversation that has continued in this bucket is\n" +
			"skipped, as is one that has running work at the old server.\n\n" +
			"A folder is locked by its server: stop it first. With an endpoint it may run next to servers.\n\n" +
			"Exit code: 0 all were imported, 1 some were not, with the reason; 75 a server uses the folder.",
		Example: "  parley import flue https://old.example.com/agents/support/42\n" +
			"  parley import flue --agent support --token-env OLD_TOKEN $(cat urls.txt)",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return nil
			}
			return errors.New("flue takes the URLs of conversations: parley import flue https://old.example.com/agents/support/42")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return cfg.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	cfg.place = cli.NewPlace(p, cmd, "the bucket", true)
	cmd.Flags().StringVar(&cfg.agent, "agent", "", "the agent of the imported conversations, instead of the one in their URLs")
	cfg.login.Add(cmd)
	return cmd
}

func (cfg *importConfig) run(ctx context.Context, urls []string, out io.Writer) error {
	access, err := cfg.login.Access()
	if err != nil {
		return err
	}
	conf, _, err := cfg.place.Find("bucket")
	if err != nil {
		return err
	}
	old := &oldServer{client: http.Client{Timeout: requestTimeout, CheckRedirect: access.Redirect}, access: access}
	bucket, closeBucket, err := cfg.open(conf.Bucket)
	if err != nil {
		return err
	}
	if err = storage.EnsureFormat(ctx, bucket); err == nil {
		err = cfg.all(ctx, &importing{bucket: bucket, logs: storage.NewLogs(bucket, nil), old: old}, agentsOf(conf), urls, out)
	}
	return errors.Join(err, closeBucket())
}

// open opens the bucket, and creates the folder that a configuration names.
func (cfg *importConfig) open(at config.Bucket) (storage.Bucket, func() error, error) {
	if _, err := os.Stat(filepath.Join(at.Dir, "db")); at.Endpoint == "" && cfg.place.Data == "" && err != nil {
		if err := os.MkdirAll(at.Dir, 0o700); err != nil {
			return nil, nil, fmt.Errorf("create the data folder: %w", err)
		}
		return cli.OpenBucket(at)
	}
	return cli.OpenExisting(at)
}

// agentsOf returns the agents of a configuration, none for a folder alone.
func agentsOf(conf *config.Server) (names []string) {
	for _, a := range conf.Agents {
		names = append(names, a.Agent.Name)
	}
	return names
}

func (cfg *importConfig) all(ctx context.Context, im *importing, agents, urls []string, out io.Writer) error {
	left := 0
	for _, raw := range urls {
		at, err := cfg.address(raw, agents)
		var did string
		if err == nil {
			did, err = im.conversation(ctx, raw, at)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			left++
			did = fmt.Sprintf("not imported: %v", err)
		}
		if _, err := fmt.Fprintf(out, "%s\n  %s\n", raw, did); err != nil {
			return err
		}
	}
	if left > 0 {
		return &cli.ExitError{Code: exitLeft, Err: fmt.Errorf("%d of %d conversations were not imported", left, len(urls))}
	}
	return nil
}

// address returns the target of the conversation at a URL.
func (cfg *importConfig) address(raw string, agents []string) (conversation.Address, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return conversation.Address{}, errors.New("it is not a URL; use the whole URL of a conversation, such as https://old.example.com/agents/support/42")
	}
	path := strings.Split(strings.Trim(u.EscapedPath(), "/"), "/")
	at := conversation.Address{Agent: cfg.agent}
	if at.ID, err = url.PathUnescape(path[len(path)-1]); err != nil || at.ID == "" {
		return at, errors.New("its path does not end with the id of a conversation")
	}
	if at.Agent == "" && len(path) > 1 {
		at.Agent, _ = url.PathUnescape(path[len(path)-2])
	}
	switch {
	case at.Agent == "":
		return at, errors.New("its path has no agent; name one with --agent")
	case len(agents) > 0 && !slices.Contains(agents, at.Agent):
		return at, fmt.Errorf("the configuration has no agent %q; name one of %s with --agent", at.Agent, strings.Join(agents, ", "))
	}
	return at, nil
}

// requestTimeout bounds a request to the old server, including its response.
const requestTimeout = 5 * time.Minute
