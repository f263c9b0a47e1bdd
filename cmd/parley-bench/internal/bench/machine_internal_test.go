package bench

import (
	"os"
	"testing"
	"time"
)

// stat is a line with 5 ticks of user and 7 of system time.
const stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 5 7 0 0 20 0 8 0 123 456 789"

const status = "Name:\tparley\nVmHWM:\t   300 kB\nVmRSS:\t   200 kB\nRssAnon:\t   100 kB\nRssFile:\t 1 kB\n"

func TestParseStat(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     time.Duration
		wrong    bool
	}{
		{"whole", stat, 120 * time.Millisecond, false},
		{"empty", "", 0, true},
		{"too short", "42 (x) S 1 42 42 0 -1 4194304 100 0 0 0 5", 0, true},
		{"no numbers", "42 (x) S 1 42 42 0 -1 4194304 100 0 0 0 five 7 0", 0, true},
	} {
		if got, err := parseStat(tt.in); got != tt.want || (err != nil) != tt.wrong {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
}

func TestParseStatus(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     Memory
		wrong    bool
	}{
		{"whole", status, Memory{RSS: 200 << 10, Peak: 300 << 10, Anonymous: 100 << 10}, false},
		{"empty", "", Memory{}, true},
		{"one is missing", "VmHWM: 1 kB\nVmRSS: 1 kB\n", Memory{}, true},
		{"no number", "VmHWM: many kB\n", Memory{}, true},
	} {
		if got, err := parseStatus(tt.in); got != tt.want || (err != nil) != tt.wrong {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

func FuzzProc(f *testing.F) {
	f.Add(stat)
	f.Add(status)
	f.Add("1 () ) S")
	f.Fuzz(func(_ *testing.T, s string) {
		_, _ = parseStat(s)
		_, _ = parseStatus(s)
	})
}

func TestUsageOf(t *testing.T) {
	u, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if m := u.memory; m.RSS <= 0 || m.Peak <= 0 || m.Anonymous <= 0 || m.Anonymous > m.RSS {
		t.Errorf("memory %+v", m)
	}
	if _, err := usageOf(-1); err == nil {
		t.Error("nobody has used something")
	}
}

func TestCounts(t *testing.T) {
	full, quick := countsOf(false, 0), countsOf(true, 100)
	if full.Readers != 500 || full.Idle != 10_000 || full.LongTurns != 1000 || full.Run > 10*time.Minute {
		t.Errorf("full counts %+v", full)
	}
	if quick.Readers >= full.Readers || quick.Run > time.Minute {
		t.Errorf("quick counts %+v", quick)
	}
	few := countsOf(true, 1)
	if few.RawPuts != quick.RawPuts/100 || few.Replies != 1 || few.Kills != 1 || few.Loop != full.Loop || few.Run != full.Run {
		t.Errorf("few counts %+v", few)
	}
}
