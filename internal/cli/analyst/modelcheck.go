package analyst

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/providers"
)

const (
	checkPrompt = "Answer with the one word: pong"
	// checkTokens suffices for models that think before they answer.
	checkTokens  = 1024
	checkTimeout = time.Minute
)

func modelsCheckCommand(models *modelsConfig) *cobra.Command {
	timeout := checkTimeout
	cmd := &cobra.Command{
		Use:   "check <provider/model>",
		Short: "Make one small call of a model and print the result",
		Long: "check sends a model one short message, as an agent would, and prints the destination and the\n" +
			"credentials of the call, its duration, the answer and its cost. It does not retry. Exit code: 0\n" +
			"for an answer, 1 for any error.",
		Example: "  parley models check anthropic/claude-haiku-4-5\n  parley models check --config parley.yaml local/m1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return errors.New("check takes one model: parley models check anthropic/claude-haiku-4-5")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return models.check(ctx, args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", checkTimeout, "timeout of the call")
	return cmd
}

// checkReport is the output of "parley models check --json".
type checkReport struct {
	Model       string `json:"model"`
	API         string `json:"api"`
	BaseURL     string `json:"baseUrl"`
	Credentials string `json:"credentials"`
	// FirstMS and TotalMS are the milliseconds to the first piece of the answer and to its end.
	// FirstMS is absent if no piece arrived.
	FirstMS *int64 `json:"firstMs,omitempty"`
	TotalMS int64  `json:"totalMs"`
	// Text is the answer, and ReasoningBytes the length of the reasoning before it.
	Text           string               `json:"text"`
	ReasoningBytes int                  `json:"reasoningBytes"`
	StopReason     providers.StopReason `json:"stopReason,omitempty"`
	ResponseModel  string               `json:"responseModel,omitempty"`
	Usage          *checkUsage          `json:"usage,omitempty"`
	Error          *checkFailure        `json:"error,omitempty"`
	err            error
}

// checkUsage counts tokens; Cost is in US dollars.
type checkUsage struct {
	Input      int64   `json:"input"`
	Output     int64   `json:"output"`
	CacheRead  int64   `json:"cacheRead"`
	CacheWrite int64   `json:"cacheWrite"`
	Cost       float64 `json:"cost"`
}

// checkFailure is the error of a check. Message is the vendor's if it sent one.
type checkFailure struct {
	Kind      providers.ErrorKind `json:"kind"`
	Status    int                 `json:"status,omitempty"`
	RequestID string              `json:"requestId,omitempty"`
	Message   string              `json:"message"`
	Remedy    string              `json:"remedy"`
}

func (cfg *modelsConfig) check(ctx context.Context, spec string, out io.Writer) (err error) {
	hidden := &cli.Secrets{}
	defer func() { err = hidden.Hidden(err) }()
	reg, err := cfg.registry(hidden, "providers")
	if err != nil {
		return err
	}
	if err := cli.Allow(reg, spec); err != nil {
		return err
	}
	if err := cli.CheckModel(reg, spec, "register one with --config"); err != nil {
		return err
	}
	m, err := reg.Resolve(spec)
	if err != nil {
		return err
	}
	if m.BaseURL, err = reg.Endpoint(m); err != nil {
		return err
	}
	r := call(ctx, reg, m)
	if cfg.json {
		err = printJSON(out, r)
	} else {
		err = r.print(out)
	}
	if err == nil && r.err != nil {
		err = &cli.ExitError{Code: 1}
	}
	return err
}

// call makes the call.
func call(ctx context.Context, reg *providers.Registry, m providers.Model) *checkReport {
	r := &checkReport{Model: m.Spec(), API: m.API, BaseURL: m.BaseURL, Credentials: reg.Credentials(m)}
	begin := time.Now()
	var text strings.Builder
	first := func() {
		if r.FirstMS == nil {
			r.FirstMS = new(time.Since(begin).Milliseconds())
		}
	}
	req := providers.Request{Messages: []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: checkPrompt}}}}}
	for event, err := range reg.Stream(ctx, m.Spec(), req, providers.Options{MaxTokens: checkTokens, ThinkingLevel: providers.ThinkingOff}) {
		switch e := event.(type) {
		case providers.TextDelta:
			first()
			text.WriteString(e.Text)
		case providers.ReasoningDelta:
			first()
			r.ReasoningBytes += len(e.Text)
		case providers.Done:
			price := m.Cost.PriceOf(e)
			r.StopReason, r.ResponseModel = e.StopReason, e.ResponseModel
			r.Usage = &checkUsage{e.Usage.Input, e.Usage.Output, e.Usage.CacheRead, e.Usage.CacheWrite, price.Total}
		}
		r.err = err
	}
	r.TotalMS, r.Text = time.Since(begin).Milliseconds(), text.String()
	if r.err != nil {
		r.Error = failureOf(m, r.Credentials, r.err)
	}
	return r
}

func failureOf(m providers.Model, credentials string, err error) *checkFailure {
	f := &checkFailure{Message: err.Error()}
	var failed *providers.Error
	if errors.As(err, &failed) {
		f.Kind, f.Status, f.RequestID = failed.Kind, failed.Status, failed.RequestID
		f.Remedy = remedyOf(failed, m, credentials)
	}
	var answer *providers.VendorError
	switch {
	case errors.As(err, &answer):
		f.Message = cmp.Or(answer.Message, answer.Code)
	case failed != nil && utf8.Valid(failed.Body) && len(failed.Body) > 0:
		f.Message = string(failed.Body)
	}
	return f
}

// remedyOf returns the remedy for an error.
func remedyOf(e *providers.Error, m providers.Model, credentials string) string {
	switch e.Kind {
	case providers.KindAuth:
		return "check the key of " + m.Provider + " (from: " + cmp.Or(credentials, "no source") + "), and that its account may call this model"
	case providers.KindQuota:
		return "the account has no credit left; add credit, or use another key"
	case providers.KindRateLimit, providers.KindOverloaded:
		if e.RetryAfter > 0 {
			return "try again in " + e.RetryAfter.Round(time.Second).String()
		}
		return "try again later"
	case providers.KindInvalidRequest:
		return "check the id of the model, and that " + m.BaseURL + " supports " + m.API
	case providers.KindNetwork:
		return "check that " + m.BaseURL + " can be reached from here"
	case providers.KindTruncated, providers.KindProtocol:
		return "check that " + m.BaseURL + " supports " + m.API
	case providers.KindAborted:
		return "increase --timeout"
	}
	return "see the vendor's message"
}

// print prints the report as text.
func (r *checkReport) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s at %s, credentials from %s\n", r.Model, r.API, cmp.Or(r.BaseURL, "no address"), cmp.Or(r.Credentials, "no source"))
	if r.FirstMS != nil {
		fmt.Fprintf(&b, "first piece after %s\n", cli.Took(*r.FirstMS))
	}
	if r.ReasoningBytes > 0 {
		fmt.Fprintf(&b, "reasoning: %s\n", cli.Count(int64(r.ReasoningBytes), "byte"))
	}
	if r.Text != "" {
		fmt.Fprintf(&b, "answer: %q\n", cli.OneLine(r.Text, 200))
	}
	if r.Error == nil {
		u := r.Usage
		fmt.Fprintf(&b, "done after %s: %s, model %s\n", cli.Took(r.TotalMS), r.StopReason, cmp.Or(r.ResponseModel, "not named"))
		fmt.Fprintf(&b, "%s in, %s out, %s from the cache, %s to it; cost %s\n",
			cli.Number(u.Input), cli.Number(u.Output), cli.Number(u.CacheRead), cli.Number(u.CacheWrite), cli.Dollars(u.Cost))
		_, err := io.WriteString(out, b.String())
		return err
	}
	fmt.Fprintf(&b, "failed after %s: %s", cli.Took(r.TotalMS), r.Error.Kind)
	if r.Error.Status != 0 {
		fmt.Fprintf(&b, ", status %d", r.Error.Status)
	}
	if r.Error.RequestID != "" {
		fmt.Fprintf(&b, ", request %s", r.Error.RequestID)
	}
	fmt.Fprintf(&b, "\n%s\n%s\n", cli.OneLine(r.Error.Message, 1000), r.Error.Remedy)
	_, err := io.WriteString(out, b.String())
	return err
}
