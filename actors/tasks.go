package actors

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// tasks are goroutines of activations that Run waits for. It is safe for concurrent use.
type tasks struct {
	log *slog.Logger

	ctx    context.Context // context of all activations; ends before Run returns
	cancel context.CancelFunc

	saving   context.Context // context of checkpoints, which outlive their activations; ends before Run returns
	endSaves context.CancelFunc

	mu      sync.Mutex
	ended   bool // no more tasks start
	started sync.WaitGroup
	saves   sync.WaitGroup
}

func newTasks(log *slog.Logger) *tasks {
	t := &tasks{log: log}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.saving, t.endSaves = context.WithCancel(context.Background())
	return t
}

// spawn runs an effect of an activation. After wait has begun it does nothing, because an overdue
// activation must not start anything.
func (t *tasks) spawn(effect func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.started.Go(effect)
	}
}

// save stores a checkpoint, in a context of its own.
func (t *tasks) save(save func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.saves.Go(func() { save(t.saving) })
	}
}

// abandon cancels all tasks, because the node may no longer write.
func (t *tasks) abandon() {
	t.cancel()
	t.endSaves()
}

// wait waits for the tasks of stopped activations. Only a tool that ignores its context, or a
// checkpoint that cannot be stored, takes long.
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
		t.log.Warn("shutdown timeout: tools or checkpoints running")
	}
	t.endSaves()
	t.saves.Wait()
}
