package local

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// defaultReserveBytes is the reserve of a large volume. On a smaller one it is 1/reserveShare of
	// the volume.
	defaultReserveBytes = 1 << 30
	reserveShare        = 20
)

// RoomOptions configure NewRoom. Nil and zero fields work.
type RoomOptions struct {
	// Logger receives a line when the reserve is reached and when it is free again; nil discards them.
	Logger *slog.Logger
	// ReserveBytes is the space reserved for work in progress. 0 means 1 GiB, or a twentieth of the
	// volume if that is less.
	ReserveBytes int64
}

// Room measures the free space on the volume of a folder, minus a reserve. New work is rejected at the
// reserve. So work in progress can complete, and the store, whose process ends on a full disk, can
// write. It counts all files on the volume. Room is safe for concurrent use.
type Room struct {
	folder  string
	asked   int64 // reserve of the options
	log     *slog.Logger
	measure func(folder string) (vfs.DiskUsage, error)

	mu    sync.Mutex
	usage RoomUsage
	short bool // state in the log
}

// RoomUsage is a measurement of a Room.
type RoomUsage struct {
	// FreeBytes and ReserveBytes are 0 if the system does not report them.
	FreeBytes, ReserveBytes int64
	// Refused counts rejected requests.
	Refused int64
}

// NoRoomError reports that a volume has only its reserve left.
type NoRoomError struct {
	// Folder is a folder of the volume.
	Folder string
	// FreeBytes are free on the volume, ReserveBytes are reserved, and WantBytes were requested.
	FreeBytes, ReserveBytes, WantBytes int64
}

// Error names the folder and the remedy.
func (e *NoRoomError) Error() string {
	return fmt.Sprintf("volume of %q has %d bytes free, %d of them reserved: free space on it", e.Folder, e.FreeBytes, e.ReserveBytes)
}

// NewRoom returns the Room of the volume of folder, which need not exist yet.
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

// Allow returns *NoRoomError if n more bytes would use the reserve. It calls the system, which costs
// some microseconds, and allows everything if that fails.
func (r *Room) Allow(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.update() {
		return nil
	}
	u := &r.usage
	enough := u.ReserveBytes
	if r.short {
		enough += enough / 10 // Hysteresis: a volume near its reserve crosses it often.
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
		r.log.Warn("volume reserve reached; rejecting new work", args...)
	} else {
		r.log.Info("volume has free space again", args...)
	}
}

// Usage measures the free space and returns the number of rejections.
func (r *Room) Usage() RoomUsage {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.update()
	return r.usage
}

// update measures the volume and reports whether that succeeded. The caller holds mu.
func (r *Room) update() bool {
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
