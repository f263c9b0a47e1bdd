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

	// Limits of an epoch. They bound the memory of a reader.
	maxEpochBytes    = 1 << 20
	maxMembers       = 1000
	maxMemberText    = 256
	maxMemberRecords = 256
	maxMemberWeight  = 1000
)

// Epoch is one version of the member table of a bucket, which lists the nodes that serve it. The
// stored epoch with the highest number is current. Its writers decide on members and replacement; this
// package stores it.
type Epoch struct {
	N       int64             `json:"n"`     // Number, from 1; equal to its key. 0 means no epoch.
	Nonce   Nonce             `json:"nonce"` // Unique per write, so that the writer recognizes its own epoch.
	At      conversation.Time `json:"at"`    // Creation time; informative.
	Members []Member          `json:"members"`
}

// Member is the row of one node.
type Member struct {
	ID        string                    `json:"id"`                 // Incarnation: 1 to 128 letters, digits, '-' or '_', new at every start.
	Address   string                    `json:"address,omitempty"`  // Public address, for people; up to 256 bytes of text.
	Node      string                    `json:"node,omitempty"`     // Address for other nodes, host:port; "" if the node serves the bucket alone.
	Version   string                    `json:"version,omitempty"`  // Software version; up to 256 bytes of text.
	Weight    int                       `json:"weight"`             // Relative share of the conversations, 0 to 1000.
	Wants     int                       `json:"wants,omitempty"`    // Weight once the node is reachable, 0 to 1000; until then Weight is 0.
	Draining  bool                      `json:"draining,omitempty"` // The node owns no conversations any more and hands over those in memory.
	StartedAt conversation.Time         `json:"startedAt"`          // Informative.
	Records   []conversation.RecordType `json:"records,omitempty"`  // Record types that it can read.
}

// Has reports whether the epoch lists a member.
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
			return fmt.Errorf("duplicate member %q", m.ID)
		}
		seen[m.ID] = true
	}
	return nil
}

// Validate checks the row for use in an epoch.
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

// dialable reports whether an address has the form host:port.
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

// storedVersion is the version field of every JSON object of this package.
type storedVersion struct {
	Version int `json:"v"`
}

type storedEpoch struct {
	storedVersion
	Epoch
}

// EncodeEpoch returns the object of an epoch: one line of JSON, {v, n, nonce, at, members: [{id,
// address, node, version, weight, wants, draining, startedAt, records}]}.
func EncodeEpoch(e Epoch) ([]byte, error) {
	if err := e.valid(); err != nil {
		return nil, fmt.Errorf("encode epoch %d: %w", e.N, err)
	}
	if e.Members == nil {
		e.Members = []Member{} // Encode an empty list rather than null.
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

// DecodeEpoch reverses [EncodeEpoch]. It rejects a newer version with a [*FormatError], and an older
// one. It ignores unknown fields.
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

// decodeStored decodes a JSON object of this version. It checks the version first, because the other
// fields of a newer version may have another meaning.
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
			Reason: "a newer version serves this bucket; upgrade this program"}
	case stored.Version != SchemaVersion:
		return fmt.Errorf("version %d, supported is %d", stored.Version, SchemaVersion)
	}
	return json.Unmarshal(data, v)
}

// EpochKey returns the object key of an epoch.
func EpochKey(n int64) string { return epochRoot + number(n) }

// listEpochs returns the numbers of the stored epochs above after, lowest first. It skips keys of
// other objects.
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

// NewestEpoch returns the epoch with the highest number above after, and the numbers of the others
// above after, lowest first. If there is none, N is 0. A [*FormatError] means that a newer version
// wrote it, a [*CorruptError] that the object is not that epoch.
func NewestEpoch(ctx context.Context, b Bucket, after int64) (Epoch, []int64, error) {
	return newestEpoch(ctx, b, after, 0)
}

// ConfirmEpoch reports whether epoch known is still the newest; if a newer one exists it is returned.
// If neither exists, epochs were deleted by something other than Parley. Its errors are those of
// [NewestEpoch].
func ConfirmEpoch(ctx context.Context, b Bucket, known int64) (newer Epoch, stands bool, err error) {
	e, _, err := newestEpoch(ctx, b, known-1, known)
	if err != nil || e.N == known {
		return Epoch{}, err == nil, err
	}
	return e, e.N > known, nil
}

// newestEpoch does not read the epoch with the number known.
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
			tried = ns[last] // The epoch was replaced and deleted after the LIST.
			continue
		}
		if err != nil {
			return Epoch{}, nil, err
		}
		return e, ns[:last], nil
	}
}

// ReadEpoch returns one epoch, or ErrNotFound if it is deleted. Other errors are those of
// [NewestEpoch].
func ReadEpoch(ctx context.Context, b Bucket, n int64) (Epoch, error) {
	key := EpochKey(n)
	e, err := readStored(ctx, b, key, n, maxEpochBytes, func(data []byte) (Epoch, error) {
		e, err := DecodeEpoch(data)
		if err == nil && e.N != n {
			err = fmt.Errorf("object names epoch %d", e.N)
		}
		return e, err
	})
	if err != nil && !IsCorrupt(err) {
		err = fmt.Errorf("read epoch %d: %w", n, err)
	}
	return e, err
}

// getBounded returns an object of at most limit bytes, or the first limit+1 bytes of a larger one,
// which every decoder rejects.
func getBounded(ctx context.Context, b Bucket, key string, limit int64) ([]byte, error) {
	r, _, err := b.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, limit+1))
}

// CreateEpoch stores an epoch under its number and reports whether it is the newest. False means that
// another node was faster, and the caller must read the newest epoch and decide again. CreateEpoch
// retries with the same bytes until the outcome is known and reads the object back after a 412. A
// success counts only after a LIST has returned nothing above it. If ctx ends first it returns
// ErrUncertain: the epoch may be stored, or may still appear.
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
		return false, nil // Its deleter has replaced it.
	case err != nil:
		return false, &Error{Op: "create", Key: key, Kind: ErrUncertain, Err: err}
	}
	return bytes.Equal(stored, data), nil
}

// DeleteEpochs deletes replaced epochs, with one attempt each. newest is the number of an epoch that
// is known to be stored. DeleteEpochs never deletes newest or above, so that a late create of an old
// number cannot become the newest. It tries all and returns the joined errors.
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
