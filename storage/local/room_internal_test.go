package local

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const gib = 1 << 30

// TestRoomKeepsItsReserve requests space on volumes of several sizes.
func TestRoomKeepsItsReserve(t *testing.T) {
	for _, tt := range []struct {
		name        string
		free, total uint64
		asked, want int64
		refused     bool
		reserve     int64
	}{
		{"large volume", 10 * gib, 100 * gib, 0, 0, false, gib},
		{"large volume, exactly", 2 * gib, 100 * gib, 0, gib, false, gib},
		{"large volume, one byte", 2 * gib, 100 * gib, 0, gib + 1, true, gib},
		{"large volume, full", 0, 100 * gib, 0, 0, true, gib},
		{"small volume", 52, 1000, 0, 2, false, 50},
		{"small volume, one byte", 52, 1000, 0, 3, true, 50},
		{"own reserve", 1000, 100 * gib, 999, 1, false, 999},
		{"own reserve, one byte", 1000, 100 * gib, 999, 2, true, 999},
		{"endless volume", 1<<64 - 1, 1<<64 - 1, 0, gib, false, gib},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRoom("/data", &RoomOptions{ReserveBytes: tt.asked}, func(folder string) (vfs.DiskUsage, error) {
				return vfs.DiskUsage{AvailBytes: tt.free, TotalBytes: tt.total}, nil
			})
			err := r.Allow(tt.want)
			var full *NoRoomError
			if errors.As(err, &full) != tt.refused || (err != nil) != tt.refused {
				t.Errorf("got %v", err)
			}
			u := r.Usage()
			if u.ReserveBytes != tt.reserve || (u.Refused == 1) != tt.refused {
				t.Errorf("got %+v", u)
			}
			if tt.refused && (full.FreeBytes != int64(tt.free) || full.WantBytes != tt.want || !strings.Contains(err.Error(), "free space")) {
				t.Errorf("got %v", full)
			}
		})
	}
}

// TestRoomLogsShortage requests space while a volume fills up and empties: each change is logged
// once.
func TestRoomLogsShortage(t *testing.T) {
	var logged bytes.Buffer
	var disk vfs.DiskUsage
	r := newRoom("/data", &RoomOptions{ReserveBytes: 10, Logger: slog.New(slog.NewTextHandler(&logged, nil))},
		func(string) (vfs.DiskUsage, error) { return disk, nil })
	for _, free := range []uint64{100, 9, 5, 10, 9, 10, 100, 50, 9} {
		disk.AvailBytes = free
		for range 3 {
			if err := r.Allow(0); (err != nil) != (free < 10) {
				t.Errorf("%d free: %v", free, err)
			}
		}
	}
	var loggedAt []string
	for line := range strings.Lines(logged.String()) {
		loggedAt = append(loggedAt, strings.Fields(line)[1])
	}
	if got := strings.Join(loggedAt, " "); got != "level=WARN level=INFO level=WARN" {
		t.Errorf("got %s", &logged)
	}
	// A body that is too large by itself is not a state of the volume.
	logged.Reset()
	disk.AvailBytes = 100
	if r.Allow(0) != nil || r.Allow(95) == nil || r.Allow(0) != nil || strings.Count(logged.String(), "\n") != 1 {
		t.Errorf("got %s", &logged)
	}
}

func TestRoomThatIsNotKnown(t *testing.T) {
	r := newRoom("/data", nil, func(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{}, vfs.ErrUnsupported })
	if err := r.Allow(gib); err != nil || r.Usage() != (RoomUsage{}) {
		t.Errorf("got %v, %+v", err, r.Usage())
	}
}

// TestRoomOfAFolder measures a real volume.
func TestRoomOfAFolder(t *testing.T) {
	r := NewRoom(t.TempDir(), nil)
	u := r.Usage()
	if _, err := vfs.Default.GetDiskUsage(t.TempDir()); errors.Is(err, vfs.ErrUnsupported) {
		return
	}
	if u.FreeBytes <= 0 || u.ReserveBytes <= 0 {
		t.Errorf("got %+v", u)
	}
	if err := r.Allow(u.FreeBytes + gib); err == nil {
		t.Error("reserved more than the free space")
	}
}
