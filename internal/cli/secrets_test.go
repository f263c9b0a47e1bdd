package cli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/config"
)

// saying is a value with a String method.
type saying struct{ text string }

func (s saying) LogValue() slog.Value { return slog.GroupValue(slog.String("text", s.text)) }

func TestLogHidesSecrets(t *testing.T) {
	const secret = `to"ps<ecret`
	for name, emit := range map[string]func(*slog.Logger){
		"message":  func(l *slog.Logger) { l.Info("it is " + secret) },
		"text":     func(l *slog.Logger) { l.Info("it", "is", secret) },
		"error":    func(l *slog.Logger) { l.Info("it", "err", fmt.Errorf("call: %w", errors.New(secret))) },
		"bytes":    func(l *slog.Logger) { l.Info("it", "body", []byte(secret)) },
		"list":     func(l *slog.Logger) { l.Info("it", "all", []string{"a", secret}) },
		"struct":   func(l *slog.Logger) { l.Info("it", "conf", config.Auth{Bearer: secret}) },
		"group":    func(l *slog.Logger) { l.Info("it", slog.Group("g", slog.Group("h", "k", secret))) },
		"valuer":   func(l *slog.Logger) { l.Info("it", "is", saying{secret}) },
		"with":     func(l *slog.Logger) { l.With("k", secret).WithGroup("g").Info("it") },
		"in group": func(l *slog.Logger) { l.WithGroup("g").With("a", 1).Info("it", "k", secret) },
		"key":      func(l *slog.Logger) { l.Info("it", secret, 1) },
	} {
		for _, format := range []string{"text", "json"} {
			t.Run(name+" as "+format, func(t *testing.T) {
				var out bytes.Buffer
				hidden := &Secrets{}
				log, err := NewLogger(&out, format, false, hidden)
				if err != nil {
					t.Fatal(err)
				}
				hidden.Add(secret)
				emit(log)
				if got := out.String(); strings.Contains(got, "ecret<") || strings.Contains(got, "ps") || !strings.Contains(got, "[secret]") {
					t.Errorf("the line is %s", got)
				}
			})
		}
	}
}

// Every format writes a duration as text in seconds.
func TestDurationsInLogs(t *testing.T) {
	for _, format := range []string{"text", "json", "dev"} {
		for d, want := range map[time.Duration]string{
			1500 * time.Millisecond: "1.5s", 90 * time.Minute: "5400s", 250 * time.Microsecond: "0.00025s", 0: "0s", -time.Second: "-1s",
		} {
			for name, write := range map[string]func(l *slog.Logger){
				"attribute": func(l *slog.Logger) { l.Info("it", "took", d) },
				"with":      func(l *slog.Logger) { l.With("took", d).Info("it") },
				"group":     func(l *slog.Logger) { l.WithGroup("g").Info("it", slog.Group("h", "took", d)) },
			} {
				var out bytes.Buffer
				log, err := NewLogger(&out, format, false, &Secrets{})
				if err != nil {
					t.Fatal(err)
				}
				write(log)
				if got := out.String(); !strings.Contains(got, "took="+want+"\n") && !strings.Contains(got, `"took":"`+want+`"`) {
					t.Errorf("%s, %s of %v: got %s, want %s", format, name, d, got, want)
				}
			}
		}
	}
}

func TestSecretsOfConfiguration(t *testing.T) {
	hidden := &Secrets{}
	hidden.Add(SecretsOf(&config.Server{
		Bucket: config.Bucket{AccessKey: "access-key-id", SecretKey: "bucket-key"}, Auth: config.Auth{Bearer: "bearer-token"},
		Events: config.Events{ClickHouse: &config.ClickHouse{Password: "ch-password"}, OTel: &config.OTel{Headers: map[string]string{"a": "otel-header"}}},
	})...)
	err := errors.New("access-key-id bucket-key bearer-token ch-password otel-header")
	got := hidden.Hidden(fmt.Errorf("serve: %w", err))
	if want := "serve: access-key-id " + strings.TrimSpace(strings.Repeat("[secret] ", 4)); got.Error() != want || !errors.Is(got, err) {
		t.Errorf("got %v, want %s", got, want)
	}
}
