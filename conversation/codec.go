package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Batch is a list of records that is appended atomically under one offset. A batch without records is
// a claim: it advances the offset and has no chunks.
type Batch struct {
	Offset  Offset
	Records []Record
}

// recordKind is a row of the record table.
type recordKind struct {
	name RecordType
	// must is set if a node that does not know the type may not skip it, because state or transcript
	// would be wrong.
	must bool
	make func() Record
}

// maxTypeName exceeds the length of every type name, in bytes.
const maxTypeName = 64

// recordTable lists every type once. Every node of schema version 8 knows the types before
// TypePartSigned, so their lines carry no flag. The struct of a later type has a member "must", which
// is true if older nodes have to reject its lines.
//
// The first release freezes the list; until then types are added and written freely. From then on a
// type with "must" is written only if every member of the cluster reads it.
func recordTable() []recordKind {
	return append([]recordKind{
		{TypeConversationCreated, true, func() Record { return new(ConversationCreated) }},
		{TypeSubmissionAdmitted, true, func() Record { return new(SubmissionAdmitted) }},
		{TypeAttemptStarted, true, func() Record { return new(AttemptStarted) }},
		{TypeAttemptReleased, true, func() Record { return new(AttemptReleased) }},
		{TypeResponseStarted, true, func() Record { return new(ResponseStarted) }},
		{TypeDelta, true, func() Record { return new(Delta) }},
		{TypePartDone, false, func() Record { return new(PartDone) }},
		{TypeToolCalled, true, func() Record { return new(ToolCalled) }},
		{TypeToolSettled, true, func() Record { return new(ToolSettled) }},
		{TypeStepCompleted, true, func() Record { return new(StepCompleted) }},
		{TypeDataWritten, true, func() Record { return new(DataWritten) }},
		{TypeMetadataMerged, true, func() Record { return new(MetadataMerged) }},
		{TypeAdvisory, true, func() Record { return new(Advisory) }},
		{TypeAbortRequested, true, func() Record { return new(AbortRequested) }},
		{TypeSubmissionSettled, true, func() Record { return new(SubmissionSettled) }},
		{TypeStepDropped, true, func() Record { return new(StepDropped) }},
		{TypeCompacted, true, func() Record { return new(Compacted) }},
		{TypeStateWritten, true, func() Record { return new(StateWritten) }},
		{TypeStepRecorded, true, func() Record { return new(StepRecorded) }},
		{TypeSuspended, true, func() Record { return new(Suspended) }},
		{TypeHookDone, true, func() Record { return new(HookDone) }},
		{TypeChildStarted, true, func() Record { return new(ChildStarted) }},
		{TypeChildSettled, true, func() Record { return new(ChildSettled) }},
		{TypeConversationDeleted, true, func() Record { return new(ConversationDeleted) }},
		{TypePartSigned, true, func() Record { return new(PartSigned) }},
		{TypeRetryScheduled, true, func() Record { return new(RetryScheduled) }},
		{TypeImagesRefused, true, func() Record { return new(ImagesRefused) }},
		{TypeOutputStored, true, func() Record { return new(OutputStored) }},
		{TypeWaitStarted, true, func() Record { return new(WaitStarted) }},
		{TypeWaitEnded, true, func() Record { return new(WaitEnded) }},
		{TypeSignalKept, true, func() Record { return new(SignalKept) }},
		{TypeOvertook, true, func() Record { return new(Overtook) }},
		{TypeReplyPending, true, func() Record { return new(ReplyPending) }},
		{TypeReplySent, true, func() Record { return new(ReplySent) }},
		{TypeKeyKept, true, func() Record { return new(KeyKept) }},
		{TypeNoticeAsked, true, func() Record { return new(NoticeAsked) }},
		{TypePostEnqueued, true, func() Record { return new(PostEnqueued) }},
		{TypePostDeferred, true, func() Record { return new(PostDeferred) }},
		{TypePostDone, true, func() Record { return new(PostDone) }},
		{TypeRunStarted, true, func() Record { return new(RunStarted) }},
		{TypeTreeCounted, true, func() Record { return new(TreeCounted) }},
		{TypeReplyAddressed, true, func() Record { return new(ReplyAddressed) }},
	}, nextRecords()...)
}

// Types returns every record type of this version, in table order.
func Types() []RecordType {
	var out []RecordType
	for _, k := range recordTable() {
		out = append(out, k.name)
	}
	return out
}

// Must reports whether a node that does not know the type has to reject the conversation. It is false
// for types unknown to this version.
func Must(t RecordType) bool {
	i := slices.IndexFunc(recordTable(), func(k recordKind) bool { return k.name == t })
	return i >= 0 && recordTable()[i].must
}

// UnknownRecordError is returned for a line of an unknown type that may not be skipped. A newer node
// wrote the conversation.
type UnknownRecordError struct{ Name RecordType }

// Error implements error.
func (e *UnknownRecordError) Error() string {
	return fmt.Sprintf("record type %q is unknown and must not be skipped: a newer version wrote it; upgrade this node", string(e.Name))
}

// newRecord returns an empty record of the type, nil if the type is unknown.
func newRecord(t RecordType) Record {
	switch t {
	case TypeDelta: // the common case, before the table lookup
		return new(Delta)
	default:
		for _, k := range recordTable() {
			if k.name == t {
				return k.make()
			}
		}
		return nil
	}
}

// EncodeRecords appends the records to dst as JSON lines. Each line is one object whose first member
// is "type", and ends with a newline.
func EncodeRecords(dst []byte, records []Record) ([]byte, error) {
	const line = 256 // estimated size of a record without long text, in bytes
	out := &appender{slices.Grow(dst, line*len(records))}
	enc := out.encoder()
	for i, r := range records {
		start := len(out.b)
		if err := encodeRecord(out, enc, r); err != nil {
			return out.b[:start], fmt.Errorf("encode record %d: %w", i, err)
		}
	}
	return out.b, nil
}

// encodeRecord appends the line of a record to out, the destination of enc.
func encodeRecord(out *appender, enc *json.Encoder, r Record) error {
	var s splice
	if short := s.withoutText(r); len(s.long) > 0 {
		line := &appender{}
		if err := encodeLine(line, line.encoder(), short); err != nil {
			return err
		}
		if b, ok := s.append(out.b, line.b); ok {
			start := len(out.b)
			out.b = b
			return checkNesting(r, b[start:])
		}
	}
	return encodeLine(out, enc, r)
}

// encodeLine appends the line of a record like encodeRecord, without its fast path for long text.
func encodeLine(out *appender, enc *json.Encoder, r Record) error {
	if u, ok := r.(*Unknown); ok {
		out.b = append(append(out.b, u.Line...), '\n')
		return nil
	}
	start := len(out.b)
	out.b = strconv.AppendQuote(append(out.b, `{"type":`...), string(r.Type()))
	head := len(out.b)
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("%s: %w", r.Type(), err)
	}
	if string(out.b[head:]) == "{}\n" {
		out.b = append(out.b[:head], "}\n"...)
		return nil
	}
	out.b[head] = ','
	return checkNesting(r, out.b[start:])
}

// checkNesting rejects a line that a decoder could not read back. The encoder checks a raw value by
// itself; within the line it may be nested deeper than a decoder accepts.
func checkNesting(r Record, line []byte) error {
	if mayNest(line) && !json.Valid(line) {
		return fmt.Errorf("%s: the line could not be read back", r.Type())
	}
	return nil
}

// mayNest reports whether a line has enough brackets to exceed the nesting limit of a decoder.
// Counting them is cheaper than an exact check.
func mayNest(line []byte) bool {
	const most = 10_000 // the limit of encoding/json
	return bytes.Count(line, []byte("{"))+bytes.Count(line, []byte("[")) > most
}

// DecodeRecords decodes JSON lines written by [EncodeRecords]. It ignores unknown members of a known
// record. A line of an unknown type becomes [Unknown], or an [*UnknownRecordError] if it has "must".
func DecodeRecords(lines []byte) ([]Record, error) {
	var out []Record
	for n := 0; len(lines) > 0; n++ {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		lines = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r, err := decodeRecord(line)
		if err != nil {
			return nil, fmt.Errorf("decode record %d: %w", n, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func decodeRecord(line []byte) (Record, error) {
	r := newRecord(writtenType(line))
	if r == nil {
		name, must, err := readType(line)
		if err != nil {
			return nil, err
		}
		if r = newRecord(name); r == nil && must {
			return nil, &UnknownRecordError{Name: name}
		} else if r == nil {
			return &Unknown{Name: name, Line: bytes.Clone(line)}, nil
		}
	}
	if err := json.Unmarshal(line, r); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Type(), err)
	}
	return r, nil
}

// writtenType returns the type of a line that begins as [EncodeRecords] writes it, otherwise "". It
// avoids decoding a long line twice.
func writtenType(line []byte) RecordType {
	rest, ok := bytes.CutPrefix(line, []byte(`{"type":"`))
	name, _, closed := bytes.Cut(rest[:min(len(rest), maxTypeName)], []byte(`"`))
	if !ok || !closed {
		return ""
	}
	return RecordType(name)
}

// readType returns the type of any line, and whether a node that does not know the type must reject
// it.
func readType(line []byte) (name RecordType, must bool, err error) {
	var head struct {
		Type RecordType `json:"type"`
		Must bool       `json:"must"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return "", false, err
	}
	if head.Type == "" {
		return "", false, fmt.Errorf("line without a type: %.80q", line)
	}
	return head.Type, head.Must, nil
}
