package cli

import (
	"runtime/debug"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBuildOrigin(t *testing.T) {
	settings := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.time", Value: "2026-11-25T23:30:00+02:00"}, {Key: "vcs.modified", Value: "true"},
	}
	own := func(version string) debug.Module { return debug.Module{Path: module, Version: version} }
	author := debug.Module{Path: "example.com/hello", Version: "v9.0.0"}
	for _, tt := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"nothing", nil, "devel"},
		{"go run", &debug.BuildInfo{Main: own("(devel)")}, "devel"},
		{"a release", &debug.BuildInfo{Main: own("v1.2.3"), Settings: settings[:2]}, "v1.2.3 (commit 0123456789ab, 2026-11-25)"},
		{"a checkout", &debug.BuildInfo{Main: own("(devel)"), Settings: settings}, "devel (commit 0123456789ab, 2026-11-25, modified)"},
		{"installed at a commit", &debug.BuildInfo{Main: own("v0.0.0-20261124101112-abcdefabcdef")}, "v0.0.0-20261124101112-abcdefabcdef (commit abcdefabcdef, 2026-11-24)"},
		{"behind a release", &debug.BuildInfo{Main: own("v1.2.4-0.20261124101112-abcdefabcdef+dirty")}, "v1.2.4-0.20261124101112-abcdefabcdef+dirty (commit abcdefabcdef, 2026-11-24)"},
		{"a dependency", &debug.BuildInfo{Main: author, Deps: []*debug.Module{{Path: "x", Version: "v7.0.0"}, new(own("v1.2.3"))}, Settings: settings}, "v1.2.3"},
		{"a dependency from a folder", &debug.BuildInfo{Main: author, Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "../parley"}}}}, "devel"},
	} {
		if got := BuildOf(tt.info).String(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The version set by the linker overrides that of the repository. An author's program reports its own
// version and that of Parley, so that nodes of two builds differ.
func TestSoftwareIsTheStampedProgram(t *testing.T) {
	own := &debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}
	dep := []*debug.Module{{Path: module, Version: "v1.2.3"}}
	author := &debug.BuildInfo{Main: debug.Module{Path: "example.com/desk", Version: "(devel)"}, Deps: dep}
	commit := &debug.BuildInfo{Main: author.Main, Deps: dep, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}}}
	long := &debug.BuildInfo{Main: debug.Module{Path: "example.com/desk", Version: "v1." + strings.Repeat("é", maxSoftware)}, Deps: dep}
	for _, tt := range []struct {
		name    string
		info    *debug.BuildInfo
		stamped string
		want    string
	}{
		{"an image of parley", own, "v1.3.0-2-gabcdef0", "v1.3.0-2-gabcdef0"},
		{"a build that has no information", nil, "v1.3.0", "v1.3.0"},
		{"not stamped", own, "", "devel"},
		{"an image of an author's program", author, "v7", "desk v7 with parley v1.2.3"},
		{"an author's checkout", commit, "", "desk 0123456789ab with parley v1.2.3"},
		{"an author's checkout, stamped", commit, "v7", "desk v7 with parley v1.2.3"},
		{"an author's program that is not stamped", author, "", "desk devel with parley v1.2.3"},
	} {
		if got := softwareOf(stamp(tt.info, tt.stamped)); got != tt.want {
			t.Errorf("%s, stamped %q: got %q, want %q", tt.name, tt.stamped, got, tt.want)
		}
	}
	if got := softwareOf(long); len(got) > maxSoftware || !utf8.ValidString(got) {
		t.Errorf("a long version: got %d bytes, want valid text of at most %d", len(got), maxSoftware)
	}
	if own.Main.Version != "(devel)" {
		t.Errorf("stamp changed its argument: got %q", own.Main.Version)
	}
}
