package devlog_test

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/devlog"
)

func crash() { panic("out of cheese") }

func TestStacksAreReadable(t *testing.T) {
	var out strings.Builder
	log := slog.New(devlog.New(&out, slog.LevelWarn)).With("agent", "desk").WithGroup("g")
	func() {
		defer func() {
			v := recover()
			log.Error("tool crashed", "n", 1, "cause", fmt.Sprintf("panic: %v\n%s", v, debug.Stack()))
		}()
		crash()
	}()
	log.Info("not shown")
	lines := strings.Split(out.String(), "\n")
	if !strings.Contains(lines[0], `level=ERROR msg="tool crashed" agent=desk g.n=1`) || lines[1] != "  cause: panic: out of cheese" {
		t.Errorf("it begins with %q", lines[:2])
	}
	if !strings.Contains(lines[2], "devlog_test.crash") || !strings.Contains(lines[3], "devlog_test.go:") {
		t.Errorf("stack does not begin at the panic: %q", lines[2:4])
	}
	if strings.Contains(out.String(), "debug.Stack") || strings.Contains(out.String(), "not shown") {
		t.Errorf("it shows too much:\n%s", &out)
	}
}
