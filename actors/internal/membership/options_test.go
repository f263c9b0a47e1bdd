package membership_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

func TestNewChecksTheRow(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		bucket storage.Bucket
		self   membership.Self
	}{
		"no bucket": {nil, membership.Self{ID: "a"}},
		"no id":     {w.bucket, membership.Self{}},
		"address":   {w.bucket, membership.Self{ID: "a", Address: "x\n"}},
		"node":      {w.bucket, membership.Self{ID: "a", Node: "x"}},
		"weight":    {w.bucket, membership.Self{ID: "a", Weight: 1001}},
		"records":   {w.bucket, membership.Self{ID: "a", Records: []conversation.RecordType{""}}},
	} {
		if _, err := membership.New(tt.bucket, tt.self, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestNewChecksTheTimes covers each unsafe relation and the nearest safe one. The error contains the
// remedy.
func TestNewChecksTheTimes(t *testing.T) {
	w := newWorld(t)
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		heartbeat, suspect, fence time.Duration
		want                      string // substring of the error; "" is none
	}{
		"defaults":                 {},
		"as the defaults":          {500 * ms, 2000 * ms, 1500 * ms, ""},
		"fast":                     {100 * ms, 300 * ms, 200 * ms, ""},
		"negative":                 {-1, 0, 0, "raise it"},
		"too fast":                 {time.Microsecond, 0, 0, "raise it"},
		"negative suspect":         {0, -1, 0, "raise suspect to 1.5s"},
		"negative fence":           {0, 0, -1, "raise fence to 1s"},
		"suspect at the limit":     {500 * ms, 1500 * ms, 1250 * ms, ""},
		"suspect too soon":         {500 * ms, 1499 * ms, 1000 * ms, "raise suspect to 1.5s"},
		"heartbeat alone too slow": {2000 * ms, 0, 0, "or lower heartbeat to 666.666666ms"},
		"fence at the lower limit": {500 * ms, 2000 * ms, 1000 * ms, ""},
		"fence too soon":           {500 * ms, 2000 * ms, 999 * ms, "raise fence to 1s or more, or lower heartbeat to 499.5ms"},
		"fence at the upper limit": {500 * ms, 2000 * ms, 1750 * ms, ""},
		"fence too late":           {500 * ms, 2000 * ms, 1751 * ms, "lower fence to 1.75s, or raise suspect to 2.001s"},
		"suspect alone too soon":   {0, 1600 * ms, 0, "lower fence to 1.35s"},
	} {
		_, err := membership.New(w.bucket, membership.Self{ID: "a"}, &membership.Options{Heartbeat: tt.heartbeat, Suspect: tt.suspect, Fence: tt.fence})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}
