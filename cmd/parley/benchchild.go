package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"strings"

	"github.com/parleyrun/parley/cmd/parley/internal/bench"
)

// obey returns a context that ends when in does, and does what lines of in ask for.
// Nothing can wait for the goroutine that reads: a read of standard input ends with
// the process at the latest.
func obey(ctx context.Context, in io.Reader, out io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		var p profiler
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			var err error
			answer := ""
			switch request, argument, _ := strings.Cut(lines.Text(), " "); {
			case lines.Text() == bench.FreeRequest:
				debug.FreeOSMemory()
				answer = bench.FreedAnswer
			case lines.Text() == bench.ProfiledRequest:
				answer, err = bench.ProfiledAnswer, p.stop()
			case request == bench.ProfileRequest:
				answer, err = bench.ProfilingAnswer, p.start(argument)
			default:
				continue // A request of another version is not answered.
			}
			if err != nil { // An answer is one line.
				answer = strings.ReplaceAll(err.Error(), "\n", "; ")
			}
			fmt.Fprintln(out, answer)
		}
	}()
	return ctx, cancel
}

// profiler writes the profiles of one stretch of time.
type profiler struct {
	path string
	cpu  *os.File // Nil unless one is under way.
}

func (p *profiler) start(path string) (err error) {
	if p.cpu != nil {
		return errors.New("a profile is under way")
	}
	if err := writeAllocs(path + ".before.pprof"); err != nil {
		return err
	}
	f, err := os.Create(path + ".cpu.pprof")
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(fmt.Errorf("profile the processor: %w", err), f.Close())
	}
	p.path, p.cpu = path, f
	return nil
}

func (p *profiler) stop() error {
	if p.cpu == nil {
		return errors.New("no profile is under way")
	}
	pprof.StopCPUProfile()
	err := p.cpu.Close()
	p.cpu = nil
	return errors.Join(err, writeAllocs(p.path+".allocs.pprof"))
}

func writeAllocs(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
