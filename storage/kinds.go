package storage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ObjectKind is the kind of an object.
type ObjectKind string

// Every kind of object.
const (
	KindBatch      ObjectKind = "batch"
	KindSegment    ObjectKind = "segment"
	KindAttachment ObjectKind = "attachment"
	KindHead       ObjectKind = "head"
	KindCheckpoint ObjectKind = "checkpoint"
	KindPage       ObjectKind = "page"
	KindTruncated  ObjectKind = "truncated" // Any object of a conversation that was moved by a truncation, see [TruncatedKey].
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

// KeyTemplate describes the keys of a kind of object, with variable parts in angle brackets.
type KeyTemplate struct {
	Kind     ObjectKind
	Template string
}

// convFolder is the prefix of the templates of all objects of a conversation.
const convFolder = "<hh>/<conv>/"

// keyTemplates lists every kind of object of a bucket.
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

// KeyTemplates returns the templates of all kinds of objects. The caller owns the slice.
func KeyTemplates() []KeyTemplate { return slices.Clone(keyTemplates) }

// entry identifies a kind: the first element of its keys, at the root or in the folder of a
// conversation, and whether that element is a folder.
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

// KindOf returns the kind of the objects under a key or prefix, by its folders alone, or "" if
// they do not decide it. [ParseKey] parses the rest of a key. KindOf is called for every request to a
// bucket.
func KindOf(key string) ObjectKind {
	if kind, ok := kindsByEntry[firstOf(key, false)]; ok {
		return kind
	}
	_, inner, _ := strings.Cut(key, "/")
	_, inner, _ = strings.Cut(inner, "/")
	return kindsByEntry[firstOf(inner, true)]
}

// migrationRoot holds the claims to change the schema of an event database.
const migrationRoot = "migrate/"

// MigrationKey returns the object key of a node's claim to migrate an event database to a version of
// its schema. database consists of letters, digits, '-' or '_'.
func MigrationKey(database string, version int) string {
	return fmt.Sprintf("%s%s/%04d", migrationRoot, database, version)
}

// parseMigrationKey reports whether key is exactly what MigrationKey returns.
func parseMigrationKey(key string) bool {
	database, digits, _ := strings.Cut(strings.TrimPrefix(key, migrationRoot), "/")
	version, err := strconv.Atoi(digits)
	return err == nil && validMember(database) == nil && version > 0 && MigrationKey(database, version) == key
}
