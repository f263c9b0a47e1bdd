package storage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ObjectKind says what an object is.
type ObjectKind string

// Every kind of object there is.
const (
	KindBatch      ObjectKind = "batch"
	KindSegment    ObjectKind = "segment"
	KindAttachment ObjectKind = "attachment"
	KindHead       ObjectKind = "head"
	KindCheckpoint ObjectKind = "checkpoint"
	KindPage       ObjectKind = "page"
	KindTruncated  ObjectKind = "truncated" // Any object of a conversation that is kept aside, see [TruncatedKey].
	KindIndex      ObjectKind = "index"
	KindJournal    ObjectKind = "journal"
	KindQuarantine ObjectKind = "quarantine"
	KindExport     ObjectKind = "export"
	KindTimer      ObjectKind = "timer"
	KindDeadLetter ObjectKind = "deadletter"
	KindStaged     ObjectKind = "staged"
	KindMigration  ObjectKind = "migration"
	KindEpoch      ObjectKind = "epoch"
	KindHeartbeat  ObjectKind = "heartbeat"
	KindProbe      ObjectKind = "probe"
	KindFormat     ObjectKind = "format"
)

// KeyTemplate says how the keys of a kind of object look. What varies stands in angle
// brackets.
type KeyTemplate struct {
	Kind     ObjectKind
	Template string
}

// convFolder begins the template of everything that belongs to one conversation.
const convFolder = "<hh>/<conv>/"

// keyTemplates is the one list of what a bucket holds: a kind that it lacks has no keys.
var keyTemplates = []KeyTemplate{
	{KindBatch, convFolder + "log/<seq>"},
	{KindSegment, convFolder + "seg/<last>-<first>"},
	{KindAttachment, convFolder + "blob/<sha256>"},
	{KindHead, convFolder + "head"},
	{KindCheckpoint, convFolder + "ckpt/<seq>-<digest>"},
	{KindPage, convFolder + "page/<n>-<digest>"},
	{KindTruncated, convFolder + "truncated/<name>/<object>"},
	{KindIndex, indexRoot + "<agent>/<yyyy-mm-dd>/<conv>"},
	{KindJournal, journalRoot + "<member>/0/<n>"},
	{KindQuarantine, quarantineRoot + "<conv>"},
	{KindExport, exportRoot + "<member>/<shard>/<n>"},
	{KindTimer, timerRoot + "<shard>/<minute>/<conv>.<seq>"},
	{KindDeadLetter, deadLetterRoot + "<conv>.<name>.<seq>"},
	{KindStaged, stagedRoot + "<member>/<name>"},
	{KindMigration, migrationRoot + "<database>/<version>"},
	{KindEpoch, epochRoot + "<n>"},
	{KindHeartbeat, heartbeatRoot + "<member>"},
	{KindProbe, probePrefix + "result/<endpoint>"},
	{KindFormat, formatKey},
}

// KeyTemplates returns how the keys of every kind of object look. The caller owns the
// slice.
func KeyTemplates() []KeyTemplate { return slices.Clone(keyTemplates) }

// entry is what tells a kind: the first name of its keys, at the root or within the
// folder of a conversation, and whether that is a folder itself.
type entry struct {
	name           string
	folder, inConv bool
}

func firstOf(key string, inConv bool) entry {
	name, _, folder := strings.Cut(key, "/")
	return entry{name, folder, inConv}
}

var kindsByEntry = func() map[entry]ObjectKind {
	kinds := make(map[entry]ObjectKind, len(keyTemplates))
	for _, t := range keyTemplates {
		inner, inConv := strings.CutPrefix(t.Template, convFolder)
		kinds[firstOf(inner, inConv)] = t.Kind
	}
	return kinds
}()

// KindOf returns the kind of what is stored under a key or below a prefix, as far as its
// folders tell, and "" if they do not. [ParseKey] reads the rest of a key. It is called
// for every request to a bucket.
func KindOf(key string) ObjectKind {
	if kind, ok := kindsByEntry[firstOf(key, false)]; ok {
		return kind
	}
	_, inner, _ := strings.Cut(key, "/")
	_, inner, _ = strings.Cut(inner, "/")
	return kindsByEntry[firstOf(inner, true)]
}

// migrationRoot holds who changes the schema of a database of events.
const migrationRoot = "migrate/"

// MigrationKey returns the object key of a node's claim to bring a database of events to
// a version of its schema; database is letters, digits, '-' or '_'.
func MigrationKey(database string, version int) string {
	return fmt.Sprintf("%s%s/%04d", migrationRoot, database, version)
}

// parseMigrationKey reports whether key is exactly what MigrationKey returns.
func parseMigrationKey(key string) bool {
	database, digits, _ := strings.Cut(strings.TrimPrefix(key, migrationRoot), "/")
	version, err := strconv.Atoi(digits)
	return err == nil && validMember(database) == nil && version > 0 && MigrationKey(database, version) == key
}
