package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

const (
	timerRoot     = "timer/"
	maxTimerBytes = 4 << 10

	// minuteLayout formats a minute so that keys sort by time.
	minuteLayout = "20060102T1504"

	// timersPerPage bounds one LIST of timers. Most pages end with a timer that is not due, so a large
	// page would be wasted.
	timersPerPage = 100
)

// TimerShards is the number of shards of the timers of a bucket. It is a constant because all nodes
// must agree. Shards spread the timers of one moment over several key ranges, because stores serve one
// narrow range from one place; four shards take thousands of timers per second. A sweep lists only
// shards that hold a timer, so it costs one LIST for a bucket without timers and at most five
// otherwise.
const TimerShards = 4

// Timer is the timer of a suspended conversation: the batch of its log at Seq suspends it until a
// time. A timer is stored once and never changed. The conversation's owner decides on its deletion.
type Timer struct {
	Conv  conversation.Key  `json:"conv"`
	Seq   int64             `json:"seq"`   // Batch of the record that it belongs to.
	Until conversation.Time `json:"until"` // Time at which it is due.
}

type storedTimer struct {
	storedVersion
	Timer
}

func (t Timer) valid() error {
	if err := validConv(t.Conv); err != nil {
		return err
	}
	if t.Seq < 0 || t.Seq > maxSeq {
		return fmt.Errorf("sequence number %d is out of range", t.Seq)
	}
	if y := minuteOf(t.Until).Year(); y < 0 || y > 9999 {
		return fmt.Errorf("year %d is out of range", y)
	}
	return nil
}

// EncodeTimer returns the object of a timer: one line of JSON, {v, conv, seq, until}.
func EncodeTimer(t Timer) ([]byte, error) {
	if err := t.valid(); err != nil {
		return nil, fmt.Errorf("encode timer: %w", err)
	}
	data, err := json.Marshal(storedTimer{storedVersion{SchemaVersion}, t})
	if err != nil {
		return nil, fmt.Errorf("encode timer: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeTimer reverses [EncodeTimer]. It rejects a newer version with a [*FormatError], and an older
// one. It ignores unknown fields.
func DecodeTimer(data []byte) (Timer, error) {
	var t storedTimer
	if err := decodeStored(data, maxTimerBytes, &t); err != nil {
		return Timer{}, fmt.Errorf("decode timer: %w", err)
	}
	if err := t.valid(); err != nil {
		return Timer{}, fmt.Errorf("decode timer: %w", err)
	}
	return t.Timer, nil
}

// TimerShard returns the shard of a conversation's timers. conv must be a conversation's key.
func TimerShard(conv conversation.Key) int {
	n, _ := strconv.ParseUint(string(conv[:min(1, len(conv))]), 16, 8) // a key is hexadecimal
	return int(n % TimerShards)
}

// minuteOf returns the first full minute at or after t, so that every timer of a key is due by the
// minute in the key.
func minuteOf(t conversation.Time) time.Time {
	at := time.UnixMilli(int64(t)).UTC()
	minute := at.Truncate(time.Minute)
	if minute.Before(at) {
		minute = minute.Add(time.Minute)
	}
	return minute
}

// TimerKey returns the object key of a timer. The key holds everything that a sweep needs.
func TimerKey(t Timer) string {
	return timerPrefix(TimerShard(t.Conv)) + minuteOf(t.Until).Format(minuteLayout) + "/" + string(t.Conv) + "." + number(t.Seq)
}

func timerPrefix(shard int) string { return timerRoot + strconv.Itoa(shard) + "/" }

// TimerRef names a stored timer.
type TimerRef struct {
	Key    string
	Conv   conversation.Key
	Seq    int64
	Minute conversation.Time // The first full minute at which it is due.
}

// parseTimerKey reverses TimerKey, for timers that are due at a full minute. ok is false for any other
// key.
func parseTimerKey(key string) (TimerRef, bool) {
	rest, ok := strings.CutPrefix(key, timerRoot)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return TimerRef{}, false
	}
	conv, seq, _ := strings.Cut(parts[2], ".")
	minute, errMinute := time.Parse(minuteLayout, parts[1])
	n, errSeq := parseNumber(seq)
	t := Timer{Conv: conversation.Key(conv), Seq: n, Until: conversation.TimeOf(minute)}
	if errMinute != nil || errSeq != nil || t.valid() != nil || TimerKey(t) != key {
		return TimerRef{}, false
	}
	return TimerRef{Key: key, Conv: t.Conv, Seq: n, Minute: t.Until}, true
}

// PutTimer stores a timer under its key and retries until the outcome is known. An existing object is
// a success, because a key determines its content. If ctx ends first it returns ErrUncertain.
func PutTimer(ctx context.Context, b Bucket, t Timer) error {
	data, err := EncodeTimer(t)
	if err != nil {
		return &Error{Op: "create", Key: timerRoot, Kind: ErrRefused, Err: err}
	}
	err = createResolved(ctx, b, newRetry(Retry{}), TimerKey(t), func() Body { return Bytes(data) })
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("put timer: %w", err)
	}
	return nil
}

// ReadTimer returns a stored timer: ErrNotFound if it is deleted, a [*CorruptError] if the object is
// not that timer, a [*FormatError] if a newer version wrote it.
func ReadTimer(ctx context.Context, b Bucket, ref TimerRef) (Timer, error) {
	t, err := readStored(ctx, b, ref.Key, ref.Seq, maxTimerBytes, func(data []byte) (Timer, error) {
		t, err := DecodeTimer(data)
		if err == nil && TimerKey(t) != ref.Key {
			err = fmt.Errorf("object names conversation %s, batch %d", t.Conv, t.Seq)
		}
		return t, err
	})
	if err != nil && !IsCorrupt(err) {
		err = fmt.Errorf("read timer: %w", err)
	}
	return t, err
}

// DueTimers calls visit with the timers that are due at now, one bounded page at a time, until visit
// returns an error. Timers of a shard come in the order of their minutes. Each call starts from the
// beginning; visit deletes timers that are done. DueTimers skips keys of other objects.
func DueTimers(ctx context.Context, b Bucket, now conversation.Time, visit func(page []TimerRef) error) error {
	r := newRetry(Retry{})
	shards, err := readRetried(ctx, r, func(ctx context.Context) (ListPage, error) {
		return b.List(ctx, ListQuery{Prefix: timerRoot, Delimiter: "/"})
	})
	if err != nil {
		return fmt.Errorf("list timers: %w", err)
	}
	for _, prefix := range shards.Prefixes {
		q := ListQuery{Prefix: prefix, Limit: timersPerPage}
		err := listAll(ctx, b, r, q, func(page []ListedKey) error {
			due, end := dueOf(page, now)
			if len(due) > 0 {
				if err := visit(due); err != nil {
					return err
				}
			}
			if end {
				return errNotDue
			}
			return nil
		})
		if err != nil && !errors.Is(err, errNotDue) {
			return fmt.Errorf("list timers: %w", err)
		}
	}
	return nil
}

// errNotDue ends a listing at the first timer that is not due.
var errNotDue = errors.New("not due yet")

// dueOf returns the due timers of a page. end reports whether one is not due.
func dueOf(page []ListedKey, now conversation.Time) (due []TimerRef, end bool) {
	for _, k := range page {
		ref, ok := parseTimerKey(k.Key)
		switch {
		case !ok:
		case ref.Minute > now:
			return due, true
		default:
			due = append(due, ref)
		}
	}
	return due, false
}

// DeleteTimer deletes a stored timer, in one request. An absent timer is a success.
func DeleteTimer(ctx context.Context, b Bucket, ref TimerRef) error {
	if _, ok := parseTimerKey(ref.Key); !ok {
		return &Error{Op: "delete", Key: ref.Key, Kind: ErrRefused, Err: errors.New("not a timer's key")}
	}
	if err := b.Delete(ctx, ref.Key); err != nil {
		return fmt.Errorf("delete timer: %w", err)
	}
	return nil
}
