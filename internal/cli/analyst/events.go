package analyst

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/storage"
)

func eventsCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Replay events from the bucket, print their schema, migrate a database",
	}
	cmd.AddCommand(replayCommand(p), schemaCommand(), migrateCommand(p))
	return cmd
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of events",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(observability.Schema())
			return err
		},
	}
}

// migrateConfig holds the flags of "parley events migrate".
type migrateConfig struct {
	place     *cli.Place
	file, dsn string
}

func migrateCommand(p *cli.Program) *cobra.Command {
	cfg := &migrateConfig{}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the tables of events in ClickHouse",
		Long: "migrate updates a database to the schema of this version: it creates the database, its tables\n" +
			"and views if they are missing. A server does the same before it sends the first events; run it\n" +
			"yourself if the database user of the servers lacks the permission. It may run repeatedly and\n" +
			"concurrently.",
		Example: "  parley events migrate\n  parley events migrate --config /etc/parley.yaml\n  parley events migrate --clickhouse clickhouse://admin:secret@10.0.0.9:9000/parley",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cfg.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cfg.place = cli.NewPlace(p, cmd, "the database, and the bucket for the claims of migrations", false)
	cmd.Flags().StringVar(&cfg.dsn, "clickhouse", "", "this database, instead of a configuration file; a new one keeps events for 90 days")
	cmd.MarkFlagsMutuallyExclusive("config", "clickhouse")
	return cmd
}

func (cfg *migrateConfig) run(ctx context.Context, out io.Writer) (err error) {
	var claims storage.Bucket
	var opts clickhouse.Options
	if cfg.dsn != "" {
		if opts, err = cli.ParseDSN(cfg.dsn); err != nil {
			return err
		}
		opts.TTLDays, opts.KeepExpiry = config.DefaultTTLDays, true
	} else {
		conf, file, err := cfg.place.Find("bucket", "events.clickhouse")
		if cfg.file = file; err != nil {
			return err
		}
		if opts, err = configuredDatabase(cfg.file, conf); err != nil {
			return err
		}
		// A folder has one process and needs no claims.
		if conf.Bucket.Endpoint != "" {
			if claims, err = conf.Bucket.Open(); err != nil {
				return err
			}
		}
	}
	db, err := clickhouse.Open(ctx, opts)
	if err != nil {
		return atDatabase(cfg.dsn, cfg.file, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Migrate(ctx, claims, cli.HostName()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s has the schema of this version.\n", databaseName(opts))
	return err
}

// configuredDatabase returns the ClickHouse of a configuration.
func configuredDatabase(file string, conf *config.Server) (clickhouse.Options, error) {
	if conf.Events.ClickHouse == nil {
		return clickhouse.Options{}, fmt.Errorf("%s configures no ClickHouse; add for example events: {clickhouse: {addresses: [\"127.0.0.1:9000\"]}}, or name a database with --clickhouse", cmp.Or(file, "the data folder"))
	}
	return cli.DatabaseOptions(conf.Events.ClickHouse)
}
