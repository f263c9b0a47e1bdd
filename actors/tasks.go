package actors

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// tasks are what activations have started, in goroutines that Run waits for. They are safe
// for concurrent use.
type tasks struct {
	log *slog.Logger

	life    context.Context // of all activations; ends before Run does
	endLife context.CancelFunc

	saving   context.Context // of checkpoints, which outlive their activations; ends before Run does
	endSaves context.CancelFunc

	mu      sync.Mutex
	ended   bool // nothing is started any more
	started sync.WaitGroup
	saves   sync.WaitGroup
}

func newTasks(log *slog.Logger) *tasks {
	t := &tasks{log: log}
	t.life, t.endLife = context.WithCancel(context.Background())
	t.saving, t.endSaves = context.WithCancel(context.Background())
	return t
}

// spawn runs an effect of an activation. Once Run waits for what is left, an
// activation that outlived its time starts nothing any more.
func (t *tasks) spawn(effect func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.started.Go(effect)
	}
}

// save runs the storing of checkpoints, in a context of its own.
func (t *tasks) save(save func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.saves.Go(func() { save(t.saving) })
	}
}

// abandon ends all of them: the node may write no more.
func (t *tasks) abandon() {
	t.endLife()
	t.endSaves()
}

// wait waits for what stopped activations have left running. Only a tool that
// ignores its context takes long, and a checkpoint that cannot be stored.
func (t *tasks) wait(limit time.Duration) {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		t.saves.Wait()
		t.started.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.log.Warn("tools or checkpoints were still under way at the end")
	}
	t.endSaves()
	t.saves.Wait()
}
