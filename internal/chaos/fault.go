package chaos

import (
	"time"

	"github.com/parleyrun/parley/internal/schedule"
)

// course is when a request arrives, how long its answer takes, and its fate.
type course struct {
	fate        schedule.Fate
	there, back time.Duration
	late        time.Duration // until a delayed request, or a copy, lands
}

// plan decides the course of a request.
func plan(seed uint64, rate float64, o op) course {
	id := o.id()
	c := course{
		there: schedule.Between(schedule.Draw(seed, "there", id), time.Millisecond, 40*time.Millisecond),
		back:  schedule.Between(schedule.Draw(seed, "back", id), time.Millisecond, 40*time.Millisecond),
		late:  schedule.Between(schedule.Draw(seed, "late", id), 0, 25*time.Second),
	}
	if d := schedule.Draw(seed, "fate", id); schedule.Share(d) < rate {
		c.fate = schedule.Fault(schedule.Draw(seed, "which", id))
	}
	if !o.writes() {
		c.fate = c.fate.Reads()
	}
	if c.fate == schedule.Slow {
		c.there = schedule.Between(schedule.Draw(seed, "slow", id), 500*time.Millisecond, 6*time.Second)
	}
	return c
}
