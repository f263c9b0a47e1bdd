package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestCheckEndsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, done := newCheck(ctx, MaxSchemaSteps)
		defer done()
		if !c.spend(1024) {
			t.Fatalf("at the start: got %v", c.err)
		}
		cancel()
		if c.spend(1024) || !errors.Is(c.err, context.Canceled) {
			t.Errorf("after its context ended: got %v", c.err)
		}

		c, done = newCheck(t.Context(), MaxSchemaSteps)
		defer done()
		time.Sleep(MaxSchemaTime)
		synctest.Wait()
		var bound *SchemaBoundError
		if c.spend(1024) || !errors.As(c.err, &bound) || c.err.Error() != "takes more than 5s to check against the schema; send less, or nest it less" {
			t.Errorf("after its time: got %v", c.err)
		}
	})
}
