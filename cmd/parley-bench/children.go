package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/storage/local"
)

// modelCommand serves the model of the bench, for its own runs and for an agent on a server that is
// measured with --against.
func modelCommand() *cobra.Command {
	address := ""
	cmd := &cobra.Command{
		Use: bench.ModelCommand, Short: "Serve the model of the bench, for --against", Args: cobra.NoArgs,
		Long: "model serves a model whose replies are scripted in the messages, over the openai-completions\n" +
			"API, until Ctrl-C or SIGTERM. It prints its URL. A run of the bench starts one itself, but\n" +
			"for the agent of a server that runs already: see \"parley-bench --help\" on --model-control.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), address, "", bench.NewModel(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0", "address to listen on; port 0 is a free one")
	return cmd
}

// bucketCommand serves a folder as the bucket of a cluster.
func bucketCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: bench.BucketCommand, Short: "Serve a folder as the bucket of parley-bench cluster", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			store, err := local.Open(dir, nil)
			if err != nil {
				return fmt.Errorf("open the folder of the bucket: %w", err)
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			return serve(cmd.Context(), "127.0.0.1:0", path.Join("/", s3front.Bucket), s3front.New(store), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the folder")
	return cmd
}

// serve serves h until ctx ends, and prints its URL with a path.
func serve(ctx context.Context, address, path string, h http.Handler, out io.Writer) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; set another address with --listen", address, err)
	}
	fmt.Fprintf(out, "http://%s%s\n", l.Addr(), path)
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	// Calls that wait at a gate would block a graceful shutdown.
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}
