package analyst

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/table"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/catalog"
)

// modelsConfig holds the flags of "parley models".
type modelsConfig struct {
	program          *cli.Program
	config, provider string
	json             bool
}

func modelsCommand(p *cli.Program) *cobra.Command {
	cfg := modelsConfig{program: p}
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the known models, or check one",
		Long: "models lists the models of the built-in catalog, and those that the providers of the configuration\n" +
			"name: windows in tokens, prices in US dollars per million tokens, and the source of the credentials\n" +
			"in this environment. It sends no request.\n\n" +
			"A registered provider, for example by providers: {openai: {}}, accepts models that the catalog does\n" +
			"not list.",
		Example: "  parley models --provider openai\n  parley models --config parley.yaml --json\n  parley models check anthropic/claude-haiku-4-5",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("unexpected argument %q; use --provider %s to list the models of a provider", args[0], args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cfg.run(cmd.OutOrStdout()) },
	}
	cmd.PersistentFlags().StringVar(&cfg.config, "config", "", "also register the providers of this file (default "+cli.DefaultConfig+" if it exists)")
	cmd.PersistentFlags().BoolVar(&cfg.json, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&cfg.provider, "provider", "", "only the models of this provider")
	cmd.AddCommand(modelsCheckCommand(&cfg))
	return cmd
}

// registry registers the providers that the command can name. needs lists the configuration keys below
// which environment variables must be set.
func (cfg *modelsConfig) registry(hidden *cli.Secrets, needs ...string) (*providers.Registry, error) {
	var configured map[string]providers.Registration
	if file := cmp.Or(cfg.config, cli.Discovered()); file != "" {
		opts := cfg.program.ConfigOptions()
		opts.Needs = append([]string{}, needs...)
		conf, err := config.Load(file, opts)
		if err != nil {
			return nil, err
		}
		configured = conf.Providers
	}
	reg, err := cfg.program.NewProviders(0, os.Getenv, configured)
	if err == nil {
		hidden.Add(reg.Secrets()...)
	}
	return reg, err
}

// modelsReport is the output of "parley models --json".
type modelsReport struct {
	Catalog catalog.Source `json:"catalog"`
	Models  []modelReport  `json:"models"`
}

// modelReport describes a model as it would be called now.
type modelReport struct {
	Provider       string                    `json:"provider"`
	ID             string                    `json:"id"`
	API            string                    `json:"api"`
	BaseURL        string                    `json:"baseUrl"`
	ContextWindow  int                       `json:"contextWindow"`
	MaxTokens      int                       `json:"maxTokens"`
	Reasoning      bool                      `json:"reasoning"`
	ThinkingLevels []providers.ThinkingLevel `json:"thinkingLevels"`
	Input          []string                  `json:"input"`
	Cost           providers.Cost            `json:"cost"`
	// Priced reports whether limits in dollars count its calls.
	Priced bool `json:"priced"`
	// Credentials is the source of the credentials, "" for none. Callable reports whether this program
	// implements the API.
	Credentials string `json:"credentials"`
	Callable    bool   `json:"callable"`
}

func (cfg *modelsConfig) run(out io.Writer) (err error) {
	hidden := &cli.Secrets{}
	defer func() { err = hidden.Hidden(err) }()
	reg, err := cfg.registry(hidden)
	if err != nil {
		return err
	}
	report := modelsReport{Catalog: catalog.Provenance(), Models: []modelReport{}}
	ids := map[string]bool{}
	for _, m := range reg.Models() {
		ids[m.Provider] = true
		if cfg.provider == "" || m.Provider == cfg.provider || catalog.Builtin()[cfg.provider].AliasOf == m.Provider {
			report.Models = append(report.Models, reportOf(reg, m))
		}
	}
	if len(report.Models) == 0 {
		return noModels(cfg.provider, slices.Sorted(maps.Keys(ids)))
	}
	if cfg.json {
		return printJSON(out, report)
	}
	return printModels(out, report)
}

func noModels(provider string, ids []string) error {
	if slices.Contains(cli.BuiltinProviders(), provider) {
		return fmt.Errorf("provider %q lists no models", provider)
	}
	return fmt.Errorf("provider %q is unknown; use one of %s, or name the file that registers it with --config", provider, strings.Join(ids, ", "))
}

func reportOf(reg *providers.Registry, m providers.Model) modelReport {
	r := modelReport{
		Provider: m.Provider, ID: m.ID, API: m.API, BaseURL: m.BaseURL, ContextWindow: m.ContextWindow, MaxTokens: m.MaxTokens,
		Reasoning: m.Reasoning, ThinkingLevels: []providers.ThinkingLevel{}, Input: m.Input, Cost: m.Cost, Priced: m.Cost.Known(),
		Credentials: reg.Credentials(m), Callable: reg.Supports(m.API),
	}
	for _, level := range providers.ThinkingLevels() {
		if m.Reasoning && m.Thinking.Takes(level) {
			r.ThinkingLevels = append(r.ThinkingLevels, level)
		}
	}
	return r
}

func printModels(out io.Writer, report modelsReport) error {
	ids, unspoken, unpriced := map[string]bool{}, map[string]bool{}, int64(0)
	t := table.New([]int{6, 7, 8}, "MODEL", "WINDOW", "OUTPUT", "IN", "OUT", "TIERS", "TAKES", "THINKS", "CREDENTIALS")
	t.Width, t.Spare, t.Whole = cli.Width(out), []int{5, 7, 6, 2, 1, 8, 3, 4}, []int{0}
	for _, m := range report.Models {
		ids[m.Provider] = true
		if !m.Priced {
			unpriced++
		}
		credentials := cmp.Or(m.Credentials, "-")
		if !m.Callable {
			unspoken[m.API] = true
			credentials += " (not callable)"
		}
		t.Add(cli.OneLine(m.Provider+"/"+m.ID, 80), cli.Number(int64(m.ContextWindow)), cli.Number(int64(m.MaxTokens)), cli.Dollars(m.Cost.Input), cli.Dollars(m.Cost.Output),
			cli.Number(int64(len(m.Cost.Tiers))), strings.Join(m.Input, "+"), thinks(m), credentials)
	}
	source := report.Catalog
	collected, _, _ := strings.Cut(source.Generated, "T")
	_, err := fmt.Fprintf(out, "parley models: %s of %s; catalog from %s %s, collected %s\n",
		cli.Count(int64(len(report.Models)), "model"), cli.Count(int64(len(ids)), "provider"), source.Package, source.Version, collected)
	err = errors.Join(err, t.Print(out))
	if unpriced > 0 {
		_, more := fmt.Fprintf(out, "\nWithout a price: %s, with - at IN and OUT. Limits of dollars count their calls as 0; set cost of a model below\n"+
			"providers, or limits: {pricedOnly: true} of an agent, which rejects such calls.\n", cli.Count(unpriced, "model"))
		err = errors.Join(err, more)
	}
	if len(unspoken) > 0 {
		_, more := fmt.Fprintf(out, "\nNot callable: this program does not support %s.\n", strings.Join(slices.Sorted(maps.Keys(unspoken)), ", "))
		err = errors.Join(err, more)
	}
	return err
}

// thinks formats the thinking levels of a model.
func thinks(m modelReport) string {
	if len(m.ThinkingLevels) == 0 {
		return "-"
	}
	first, last := m.ThinkingLevels[0], m.ThinkingLevels[len(m.ThinkingLevels)-1]
	if first == last {
		return string(first)
	}
	return fmt.Sprintf("%s…%s", first, last)
}
