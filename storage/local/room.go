package local

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// defaultReserveBytes is the reserve of a large volume, of smaller ones it is one
	// reserveShare-th.
	defaultReserveBytes = 1 << 30
	reserveShare        = 20
)

// RoomOptions tune NewRoom. Nil and every zero field work.
type RoomOptions struct {
	// Logger is told when the reserve is reached, and when it is free again; nil
	// discards it.
	Logger *slog.Logger
	// ReserveBytes is how much of the volume is kept for what has begun. 0 means 1 GiB,
	// or a twentieth of the volume if that is less.
	ReserveBytes int64
}

// Room is what is free on the volume of a folder, without a reserve: work that would
// begin leaves the reserve to work that has to end, and to the store, whose process
// ends on a full disk. All that is on the volume counts, whoever has written it. It is
// safe for concurrent use.
type Room struct {
	folder  string
	asked   int64 // the reserve of the options
	log     *slog.Logger
	measure func(folder string) (vfs.DiskUsage, error)

	mu    sync.Mutex
	usage RoomUsage
	short bool // so the log says
}

// RoomUsage is what a Room has seen.
type RoomUsage struct {
	// FreeBytes and ReserveBytes are 0 if the system does not say.
	FreeBytes, ReserveBytes int64
	// Refused counts the refusals.
	Refused int64
}

// NoRoomError says that a volume has no more than its reserve left.
type NoRoomError struct {
	// Folder is a folder of the volume.
	Folder string
	// FreeBytes are free there, ReserveBytes are not to be used, and WantBytes were
	// asked for.
	FreeBytes, ReserveBytes, WantBytes int64
}

// Error names the folder and the remedy.
func (e *NoRoomError) Error() string {
	return fmt.Sprintf("volume of %q has %d bytes free and keeps %d of them: free space there", e.Folder, e.FreeBytes, e.ReserveBytes)
}

// NewRoom returns the room on the volume of folder, which need not exist yet.
func NewRoom(folder string, opts *RoomOptions) *Room {
	return newRoom(folder, opts, vfs.Default.GetDiskUsage)
}

func newRoom(folder string, opts *RoomOptions, measure func(string) (vfs.DiskUsage, error)) *Room {
	var o RoomOptions
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Room{folder: folder, asked: o.ReserveBytes, log: o.Logger, measure: measure}
}

// Allow returns *NoRoomError if n more bytes would not leave the reserve alone. It asks
// the system, which costs some microseconds, and allows everything where that does not
// tell.
func (r *Room) Allow(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.look() {
		return nil
	}
	u := &r.usage
	enough := u.ReserveBytes
	if r.short {
		enough += enough / 10 // A volume at its reserve crosses it often.
	}
	if short := u.FreeBytes < enough; short != r.short {
		r.short = short
		r.logChange()
	}
	if u.FreeBytes-n >= u.ReserveBytes {
		return nil
	}
	u.Refused++
	return &NoRoomError{Folder: r.folder, FreeBytes: u.FreeBytes, ReserveBytes: u.ReserveBytes, WantBytes: n}
}

// logChange logs that the reserve was reached, or is free again. The caller holds mu.
func (r *Room) logChange() {
	args := []any{"folder", r.folder, "free", r.usage.FreeBytes, "reserve", r.usage.ReserveBytes}
	if r.short {
		r.log.Warn("volume is down to its reserve, new work is refused; free space there", args...)
	} else {
		r.log.Info("volume has room again", args...)
	}
}

// Usage returns what is free now, and how often something was refused.
func (r *Room) Usage() RoomUsage {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	return r.usage
}

// look measures the volume and reports whether the system says. The caller holds mu.
func (r *Room) look() bool {
	disk, err := r.measure(r.folder)
	if err != nil {
		r.usage.FreeBytes, r.usage.ReserveBytes = 0, 0
		return false
	}
	const most = 1<<63 - 1
	r.usage.FreeBytes = int64(min(disk.AvailBytes, most))
	r.usage.ReserveBytes = r.asked
	if r.asked == 0 {
		r.usage.ReserveBytes = min(defaultReserveBytes, int64(min(disk.TotalBytes/reserveShare, most)))
	}
	return true
}
