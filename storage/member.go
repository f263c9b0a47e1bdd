package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

const (
	epochRoot = "members/"

	// What an epoch may hold. It bounds what a reader takes into memory.
	maxEpochBytes    = 1 << 20
	maxMembers       = 1000
	maxMemberText    = 256
	maxMemberRecords = 256
	maxMemberWeight  = 1000
)

// Epoch is one state of the membership of a bucket: which nodes serve it. The
// stored epoch with the highest number is the one that counts. Who stands in it,
// and who may leave or replace it, is decided by its writers; this package stores
// it.
type Epoch struct {
	N       int64             `json:"n"`     // Number, from 1; equal to its key. 0 stands for no epoch.
	Nonce   Nonce             `json:"nonce"` // Of this write and no other, so that its writer knows it again.
	At      conversation.Time `json:"at"`    // When it was built; informative.
	Members []Member          `json:"members"`
}

// Member is the row of one node.
type Member struct {
	ID        string                    `json:"id"`                 // Incarnation: 1 to 128 letters, digits, '-' or '_', new at every start.
	Address   string                    `json:"address,omitempty"`  // Where people find it; up to 256 bytes of text.
	Node      string                    `json:"node,omitempty"`     // Where other nodes find it, host:port; "" if it serves the bucket alone.
	Version   string                    `json:"version,omitempty"`  // Of its software; up to 256 bytes of text.
	Weight    int                       `json:"weight"`             // Its share of the conversations beside those of the others, 0 to 1000.
	Wants     int                       `json:"wants,omitempty"`    // The weight it takes once it is reached, 0 to 1000; until then Weight is 0.
	Draining  bool                      `json:"draining,omitempty"` // It owns nothing any more and hands over what it has.
	StartedAt conversation.Time         `json:"startedAt"`          // Informative.
	Records   []conversation.RecordType `json:"records,omitempty"`  // Types it can read.
}

// Has reports whether a node stands in the epoch.
func (e Epoch) Has(member string) bool {
	for _, m := range e.Members {
		if m.ID == member {
			return true
		}
	}
	return false
}

func (e Epoch) valid() error {
	switch {
	case e.N < 1 || e.N > maxSeq:
		return fmt.Errorf("number %d is out of range", e.N)
	case len(e.Members) > maxMembers:
		return fmt.Errorf("%d members, limit %d", len(e.Members), maxMembers)
	}
	if err := e.Nonce.Validate(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, m := range e.Members {
		if err := m.Validate(); err != nil {
			return err
		}
		if seen[m.ID] {
			return fmt.Errorf("member %q stands there twice", m.ID)
		}
		seen[m.ID] = true
	}
	return nil
}

// Validate reports whether the row may stand in an epoch.
func (m Member) Validate() error {
	if err := validMember(m.ID); err != nil {
		return err
	}
	for _, s := range []string{m.Address, m.Node, m.Version} {
		if len(s) > maxMemberText || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			return fmt.Errorf("member %q: want up to %d bytes of text without control characters, not %q", m.ID, maxMemberText, s)
		}
	}
	if m.Node != "" && !dialable(m.Node) {
		return fmt.Errorf("member %q: node address %q: want host:port, the port from 1 to 65535", m.ID, m.Node)
	}
	for _, w := range []int{m.Weight, m.Wants} {
		if w < 0 || w > maxMemberWeight {
			return fmt.Errorf("member %q: weight %d: want 0 to %d", m.ID, w, maxMemberWeight)
		}
	}
	if len(m.Records) > maxMemberRecords {
		return fmt.Errorf("member %q: %d record types, limit %d", m.ID, len(m.Records), maxMemberRecords)
	}
	for _, r := range m.Records {
		if len(r) == 0 || len(r) > 64 || !segment.Plain(string(r)) {
			return fmt.Errorf("member %q: record type %q: want 1 to 64 letters, digits, '-' or '_'", m.ID, string(r))
		}
	}
	return nil
}

// dialable reports whether an address has the form that others can dial.
func dialable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, " /") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func validMember(id string) error {
	if len(id) == 0 || len(id) > 128 || !segment.Plain(id) {
		return fmt.Errorf("member %q: want 1 to 128 letters, digits, '-' or '_'", id)
	}
	return nil
}

// storedVersion is what every version of an object of this package states.
type storedVersion struct {
	Version int `json:"v"`
}

type storedEpoch struct {
	storedVersion
	Epoch
}

// EncodeEpoch returns the object of an epoch: one line of JSON,
// {v, n, nonce, at, members: [{id, address, node, version, weight, wants, draining,
// startedAt, records}]}.
func EncodeEpoch(e Epoch) ([]byte, error) {
	if err := e.valid(); err != nil {
		return nil, fmt.Errorf("encode epoch %d: %w", e.N, err)
	}
	if e.Members == nil {
		e.Members = []Member{} // Say that there is none.
	}
	data, err := json.Marshal(storedEpoch{storedVersion{SchemaVersion}, e})
	if err != nil {
		return nil, fmt.Errorf("encode epoch %d: %w", e.N, err)
	}
	if len(data) >= maxEpochBytes {
		return nil, fmt.Errorf("encode epoch %d: %d bytes, limit %d", e.N, len(data), maxEpochBytes)
	}
	return append(data, '\n'), nil
}

// DecodeEpoch reverses EncodeEpoch. It refuses an epoch of a newer version with a
// [*FormatError], and of an older one. Fields it does not know are ignored.
func DecodeEpoch(data []byte) (Epoch, error) {
	var e storedEpoch
	if err := decodeStored(data, maxEpochBytes, &e); err != nil {
		return Epoch{}, fmt.Errorf("decode epoch: %w", err)
	}
	if err := e.valid(); err != nil {
		return Epoch{}, fmt.Errorf("decode epoch: %w", err)
	}
	if len(e.Members) == 0 {
		e.Members = nil
	}
	for i := range e.Members {
		if len(e.Members[i].Records) == 0 {
			e.Members[i].Records = nil
		}
	}
	return e.Epoch, nil
}

// decodeStored decodes a JSON object of this version. The version is read first:
// of a newer one nothing else may be assumed.
func decodeStored(data []byte, limit int, v any) error {
	if len(data) > limit {
		return fmt.Errorf("%d bytes, limit %d", len(data), limit)
	}
	var stored storedVersion
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	switch {
	case stored.Version > SchemaVersion:
		return &FormatError{StoredVersion: stored.Version, SupportedVersion: SchemaVersion,
			Reason: "a newer version serves it; upgrade this program"}
	case stored.Version != SchemaVersion:
		return fmt.Errorf("version %d, supported is %d", stored.Version, SchemaVersion)
	}
	return json.Unmarshal(data, v)
}

// EpochKey returns the object key of an epoch.
func EpochKey(n int64) string { return epochRoot + number(n) }

// listEpochs returns the numbers of the stored epochs above after, lowest first.
// A key that is no epoch's is passed over.
func listEpochs(ctx context.Context, b Bucket, r *retry, after int64) ([]int64, error) {
	var ns []int64
	q := ListQuery{Prefix: epochRoot, After: EpochKey(max(after, 0))}
	err := listAll(ctx, b, r, q, func(page []ListedKey) error {
		for _, k := range page {
			digits, _ := strings.CutPrefix(k.Key, epochRoot)
			if n, err := parseNumber(digits); err == nil && n > after {
				ns = append(ns, n)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list epochs: %w", err)
	}
	return ns, nil
}

// NewestEpoch finds the epoch with the highest number above after, by LIST, and
// the numbers of the others above after, lowest first. Without any, N is 0. A
// [*FormatError] says that a newer version wrote it, a [*CorruptError] that the
// object is not that epoch.
func NewestEpoch(ctx context.Context, b Bucket, after int64) (Epoch, []int64, error) {
	return newestEpoch(ctx, b, after, 0)
}

// ConfirmEpoch reports whether an epoch that was seen stands: it is the newest, or the
// newest is above it and is returned. If neither is there, somebody has deleted what no
// writer deletes. The errors are those of NewestEpoch.
func ConfirmEpoch(ctx context.Context, b Bucket, known int64) (newer Epoch, stands bool, err error) {
	e, _, err := newestEpoch(ctx, b, known-1, known)
	if err != nil || e.N == known {
		return Epoch{}, err == nil, err
	}
	return e, e.N > known, nil
}

// newestEpoch does not read the epoch of a number that is known.
func newestEpoch(ctx context.Context, b Bucket, after, known int64) (Epoch, []int64, error) {
	for tried := int64(0); ; {
		ns, err := listEpochs(ctx, b, newRetry(Retry{}), after)
		if err != nil || len(ns) == 0 {
			return Epoch{}, nil, err
		}
		last := len(ns) - 1
		if ns[last] == known {
			return Epoch{N: known}, nil, nil
		}
		e, err := ReadEpoch(ctx, b, ns[last])
		if errors.Is(err, ErrNotFound) && ns[last] > tried {
			tried = ns[last] // It was replaced, and deleted, since it was listed.
			continue
		}
		if err != nil {
			return Epoch{}, nil, err
		}
		return e, ns[:last], nil
	}
}

// ReadEpoch returns one epoch. ErrNotFound says it is gone; the other errors are
// those of NewestEpoch.
func ReadEpoch(ctx context.Context, b Bucket, n int64) (Epoch, error) {
	key := EpochKey(n)
	e, err := readStored(ctx, b, key, n, maxEpochBytes, func(data []byte) (Epoch, error) {
		e, err := DecodeEpoch(data)
		if err == nil && e.N != n {
			err = fmt.Errorf("it says epoch %d", e.N)
		}
		return e, err
	})
	if err != nil && !IsCorrupt(err) {
		err = fmt.Errorf("read epoch %d: %w", n, err)
	}
	return e, err
}

// getBounded returns an object of at most limit bytes, or the first limit+1 bytes
// of a larger one, which no decoder takes.
func getBounded(ctx context.Context, b Bucket, key string, limit int64) ([]byte, error) {
	r, _, err := b.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, limit+1))
}

// CreateEpoch stores an epoch under its number and reports whether it is the
// newest one: false says that another node was faster, and that the newest is to
// be read and judged again. Like a batch it is sent with the same bytes until the
// outcome is known, a 412 is read back, and it counts only after a LIST has shown
// nothing above it. ErrUncertain says that ctx ended first: the epoch may be
// there, or may still appear.
func CreateEpoch(ctx context.Context, b Bucket, e Epoch) (bool, error) {
	key := EpochKey(e.N)
	data, err := EncodeEpoch(e)
	if err != nil {
		return false, &Error{Op: "create", Key: key, Kind: ErrRefused, Err: err}
	}
	err = createResolved(ctx, b, newRetry(Retry{}), key, func() Body { return Bytes(data) })
	if errors.Is(err, ErrExists) {
		var own bool
		if own, err = holds(ctx, b, key, data); err == nil && !own {
			return false, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("create epoch %d: %w", e.N, err)
	}
	above, err := listEpochs(ctx, b, newRetry(Retry{Reads: math.MaxInt}), e.N)
	if err != nil {
		return false, &Error{Op: "create", Key: key, Kind: ErrUncertain, Err: err}
	}
	return len(above) == 0, nil
}

// holds reports whether the object under key has exactly these bytes.
func holds(ctx context.Context, b Bucket, key string, data []byte) (bool, error) {
	stored, err := readResolved(ctx, newRetry(Retry{}), func(ctx context.Context) ([]byte, error) {
		return getBounded(ctx, b, key, int64(len(data)))
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil // Whoever deleted it has replaced it.
	case err != nil:
		return false, &Error{Op: "create", Key: key, Kind: ErrUncertain, Err: err}
	}
	return bytes.Equal(stored, data), nil
}

// DeleteEpochs deletes epochs that a newer one has replaced, once each. newest is
// the number of an epoch that is known to be stored: nothing from it on is ever
// deleted, so that a late create of an old number cannot become the newest. It
// tries all of them and returns what went wrong.
func DeleteEpochs(ctx context.Context, b Bucket, newest int64, ns []int64) error {
	for _, n := range ns {
		if n < 1 || n >= newest {
			return &Error{Op: "delete", Key: EpochKey(n), Kind: ErrRefused, Err: fmt.Errorf("not below epoch %d", newest)}
		}
	}
	var errs []error
	for _, n := range ns {
		if err := b.Delete(ctx, EpochKey(n)); err != nil {
			errs = append(errs, fmt.Errorf("delete epoch: %w", err))
		}
	}
	return errors.Join(errs...)
}
