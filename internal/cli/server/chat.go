package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/converse"
	"github.com/parleyrun/parley/internal/config"
)

// chatConfig holds the flags of "parley chat".
type chatConfig struct {
	runConfig // for an agent that runs in this process
	login     converse.AccessFlags
}

func chatCommand(p *cli.Program) *cobra.Command {
	cfg := chatConfig{runConfig: runConfig{program: p}}
	cmd := &cobra.Command{
		Use:   "chat <conversation URL, file.yaml or agent>",
		Short: "Chat with an agent at a prompt",
		Long: "chat is an interactive conversation: with a server by the URL of the conversation, or with the\n" +
			"agent of a file, or of the program by its name, in this process. An existing conversation\n" +
			"continues; its last messages are printed first.\n\n" +
			"Enter sends a line; Alt-Enter begins another one, and a pasted text stays together. Ctrl-C\n" +
			"aborts the current answer, and leaves if pressed again; the server continues then. Ctrl-D leaves.\n" +
			"Without a terminal, each line of standard input is a message.\n\n" +
			"The conversation with an agent in this process is discarded, unless --data names a folder: run\n" +
			"chat again with the same --id to continue it.\n\n" +
			"Exit code: 0 left, or without a terminal that of the last message: 2 failed, 3 aborted; 130\n" +
			"interrupted, 1 any other error.",
		Example: "  parley chat http://127.0.0.1:5173" + cli.MountPath + "/hello\n  parley chat agent.yaml\n" +
			"  parley chat agent.yaml --data ./conversations --id trip\n  NO_COLOR=1 parley chat agent.yaml",
		ValidArgsFunction: p.AgentsAndFiles,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return errors.New("chat takes one conversation URL, one file with an agent, or the name of an agent of the program: parley chat http://127.0.0.1:5173" + cli.MountPath + "/hello")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o := converse.ChatOptions{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), ErrOut: cmd.ErrOrStderr(), Initial: cfg.initial}
			if strings.Contains(args[0], "://") {
				return cfg.remote(cmd.Context(), args[0], o)
			}
			cfg.file = args[0]
			return cfg.local(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&cfg.id, "id", "", "id of the conversation with an agent in this process (default: a new one)")
	cmd.Flags().StringVar(&cfg.data, "data", "", "folder that stores it (default: none, it is discarded)")
	cfg.initial.Flag(cmd)
	cfg.login.Add(cmd)
	return cmd
}

// remote runs a chat with a conversation of a server.
func (cfg *chatConfig) remote(ctx context.Context, rawURL string, o converse.ChatOptions) (err error) {
	if cfg.id != "" || cfg.data != "" {
		return errors.New("--id and --data apply to an agent in this process; a URL already names the conversation, which its server stores")
	}
	if o.At, err = converse.ParseURL(rawURL); err != nil {
		return err
	}
	if o.Access, err = cfg.login.Access(); err != nil {
		return err
	}
	o.Welcome = o.At.Redacted()
	return converse.Chat(ctx, o)
}

// local runs a chat with an agent in this process. Its server requires a random token, so no other
// process can use it.
func (cfg *chatConfig) local(ctx context.Context, o converse.ChatOptions) (err error) {
	hidden := &cli.Secrets{}
	defer func() { err = hidden.Hidden(err) }()
	log, err := cli.NewLogger(o.ErrOut, "dev", true, hidden)
	if err != nil {
		return err
	}
	single, cfgNode, err := cfg.alone(hidden, log)
	if err != nil {
		return err
	}
	listener, err := openListener("127.0.0.1:0", "there is no free port on this machine", log)
	if err != nil {
		return err
	}
	defer listener.Close()
	cfgNode.mounts = []parleyhttp.Mount{{Path: config.DefaultMount(single.Agent.Name), Agent: single.Agent.Name}}
	cfgNode.edge.Dev = true
	n, err := newBackend(ctx, *cfgNode)
	if err != nil {
		return err
	}
	o.Access.Token = cli.NewKey() + cli.NewKey()
	if o.At, err = url.Parse(localURL(listener.Addr()) + config.DefaultMount(single.Agent.Name) + "/" + url.PathEscape(cfg.id)); err != nil {
		return errors.Join(err, n.close())
	}
	o.Welcome = fmt.Sprintf("%s, model %s", single.Agent.Name, single.Agent.Model)
	if cfg.data != "" {
		o.Welcome += fmt.Sprintf("; this is conversation %s; continue it with --data %s --id %s", cfg.id, cfg.data, cfg.id)
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- serveNode(serving, n, bearer(o.Access.Token, n.handler), listener, func() { close(ready) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	err = converse.Chat(ctx, o)
	stop()
	return errors.Join(err, <-ended)
}
