package parley_test

import (
	"fmt"
	"go/ast"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const formatPage = "docs/format.md"

// tableRows returns the cells of a table of the page, below its header line.
func tableRows(t *testing.T, header string) (rows [][]string) {
	t.Helper()
	b, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(b), "\n"+header+"\n")
	if !ok {
		t.Fatalf("%s has no table %q", formatPage, header)
	}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !strings.HasPrefix(cells[0], "---") {
			rows = append(rows, cells)
		}
	}
	return rows
}

// The table of records matches the code: types and their order, optional types, members, and chunks.
func TestFormatPageHasEveryRecord(t *testing.T) {
	rows := tableRows(t, "| type | must | members | chunk |")
	var types []conversation.RecordType
	for _, cells := range rows {
		if len(cells) != 4 {
			t.Fatalf("got row %q, want four cells", cells)
		}
		name := conversation.RecordType(strings.Trim(cells[0], "`"))
		types = append(types, name)
		if must := map[bool]string{true: "yes", false: "no"}[conversation.Must(name)]; cells[1] != must {
			t.Errorf("%s: must is %q, want %q", name, cells[1], must)
		}
		if want := membersOf(t, name); cells[2] != want {
			t.Errorf("%s has the members\n%s, want\n%s", name, cells[2], want)
		}
		if got, want := quoted(cells[3]), chunksOf(t, name); !slices.Equal(got, want) {
			t.Errorf("%s: got chunks %q, want %q", name, got, want)
		}
	}
	if want := conversation.Types(); !slices.Equal(types, want) {
		t.Errorf("the table has the types\n%q, want\n%q", types, want)
	}
}

func quoted(cell string) (names []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	return names
}

// recordOf decodes a line of a type, with members that some chunks need.
func recordOf(t *testing.T, name conversation.RecordType, more string) conversation.Record {
	t.Helper()
	records, err := conversation.DecodeRecords(fmt.Appendf(nil, `{"type":"%s","text":"x","metadata":{"a":1}%s}`, name, more))
	if err != nil || len(records) != 1 {
		t.Fatalf("%s: %v", name, err)
	}
	return records[0]
}

// membersOf formats the members of a record as the page does.
func membersOf(t *testing.T, name conversation.RecordType) string {
	t.Helper()
	var members []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(recordOf(t, name, "")).Elem()) {
		if f.Anonymous {
			continue
		}
		tag, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		member := "`" + tag + "`"
		if strings.HasPrefix(option, "omit") {
			member += "?"
		}
		members = append(members, member)
	}
	return strings.Join(members, ", ")
}

// chunksOf projects a record in each of its forms.
func chunksOf(t *testing.T, name conversation.RecordType) (chunks []string) {
	t.Helper()
	at := func() (*conversation.Snapshot, error) { return &conversation.Snapshot{}, nil }
	for _, form := range []string{"", `,"failed":true`} {
		got, err := conversation.Project("conv_1", conversation.Batch{Records: []conversation.Record{recordOf(t, name, form)}}, at)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, c := range got {
			if !slices.Contains(chunks, string(c.Type)) {
				chunks = append(chunks, string(c.Type))
			}
		}
	}
	return chunks
}

// The table of keys has exactly one row for every kind of object, and so does the list of
// docs/architecture.md.
func TestFormatPageHasEveryKey(t *testing.T) {
	var rows, want []string
	for _, cells := range tableRows(t, "| key | object | written | deleted |") {
		rows = append(rows, strings.Trim(cells[0], "`"))
	}
	for _, k := range storage.KeyTemplates() {
		want = append(want, k.Template)
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("the table has other keys than storage.KeyTemplates (-want +got):\n%s", diff)
	}
	b, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(b), "```\n<hh>")
	list, _, _ = strings.Cut("<hh>"+list, "```")
	var listed []string
	for line := range strings.Lines(list) {
		key, _, _ := strings.Cut(line, "  ")
		listed = append(listed, key)
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("docs/architecture.md lists other keys than storage.KeyTemplates (-want +got):\n%s", diff)
	}
}

// TestEveryKindHasItsKey holds the templates of keys against the constants of kinds and
// the functions that make keys.
func TestEveryKindHasItsKey(t *testing.T) {
	parts := strings.NewReplacer(
		"<hh>", "[0-9a-f]{2}", "<conv>", "[0-9a-f]{32}", "<sha256>", "[0-9a-f]{64}", "<digest>", "[0-9a-f]{32}", "<endpoint>", "[0-9a-f]{32}",
		"<seq>", "[0-9]{16}", "<first>", "[0-9]{16}", "<last>", "[0-9]{16}", "<n>", "[0-9]{16}", "<shard>", "[0-9]+",
		"<member>", "[A-Za-z0-9_-]+", "<agent>", "[^/]+", "<name>", "[A-Za-z0-9_-]+", "<object>", ".+", "<minute>", "[0-9]{8}T[0-9]{4}",
		"<database>", "[0-9a-f]{32}", "<version>", "[0-9]{4}", "<yyyy-mm-dd>", "[0-9]{4}-[0-9]{2}-[0-9]{2}", ".", `\.`,
	)
	address := conversation.Address{Agent: "triage", ID: "issue 42"}
	conv := address.Key()
	keys := map[storage.ObjectKind]string{
		storage.KindBatch: storage.LogKey(conv, 7), storage.KindSegment: storage.SegmentKey(conv, 3, 9),
		storage.KindAttachment: storage.BlobKey(conv, storage.Digest{1}), storage.KindHead: storage.HeadKey(conv),
		storage.KindCheckpoint: storage.CheckpointKey(conv, 7, storage.Digest{1}), storage.KindPage: storage.PageKey(conv, storage.PageRef{N: 3}),
		storage.KindTruncated: storage.TruncatedKey(conv, "cut-7", storage.LogKey(conv, 7)),
		storage.KindIndex:     storage.IndexKey(storage.IndexEntry{Address: address, Day: "2026-01-02"}),
		storage.KindJournal:   storage.JournalKey("node-1", 7), storage.KindQuarantine: storage.QuarantineKey(conv),
		storage.KindExport: storage.ExportJournalKey("node-1", 2, 7), storage.KindTimer: storage.TimerKey(storage.Timer{Conv: conv, Seq: 7, Until: 60_000}),
		storage.KindDeadLetter: storage.DeadLetterKey(storage.DeadLetter{Conv: conv, Post: "post_1", Seq: 7}),
		storage.KindStaged:     storage.StagedKey("node-1", "x"), storage.KindMigration: storage.MigrationKey(string(conv), 1),
		storage.KindEpoch: storage.EpochKey(7), storage.KindHeartbeat: storage.HeartbeatKey("node-1"),
		storage.KindProbe: "probe/result/" + string(conv), storage.KindFormat: "format.json",
	}
	var kinds []storage.ObjectKind
	for _, k := range storage.KeyTemplates() {
		kinds = append(kinds, k.Kind)
		key := keys[k.Kind]
		if !regexp.MustCompile("^" + parts.Replace(k.Template) + "$").MatchString(key) {
			t.Errorf("the key of a %s is %q, which is not %s", k.Kind, key, k.Template)
		}
		if got := storage.KindOf(key); got != k.Kind {
			t.Errorf("%s: got kind %q, want %s", key, got, k.Kind)
		}
		if _, err := storage.ParseKey(key); err != nil {
			t.Error(err)
		}
	}
	if want := objectKinds(t); !slices.Equal(kinds, want) {
		t.Errorf("storage.KeyTemplates has the kinds\n%q, want\n%q", kinds, want)
	}
}

// objectKinds returns the constants of storage.ObjectKind.
func objectKinds(t *testing.T) (kinds []storage.ObjectKind) {
	for _, f := range goFiles(t) {
		if f.dir != "storage" || f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "ObjectKind" {
				kind, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				kinds = append(kinds, storage.ObjectKind(kind))
			}
			return true
		})
	}
	return kinds
}

// TestFormatPageStatesTheVersion: the page is of the version that the code writes.
func TestFormatPageStatesTheVersion(t *testing.T) {
	rows := tableRows(t, "| version | history |")
	if got, want := rows[0][0], fmt.Sprint(storage.SchemaVersion); got != want {
		t.Errorf("the newest version of the page is %s, want %s", got, want)
	}
	b, err := os.ReadFile(formatPage)
	if want := fmt.Sprintf("`format.json` is `{\"schemaVersion\":%d,\"minWriter\":%[1]d}`", storage.SchemaVersion); err != nil || !strings.Contains(string(b), want) {
		t.Errorf("the page lacks %s: %v", want, err)
	}
}
