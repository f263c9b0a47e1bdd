package cli

import (
	"runtime/debug"
	"testing"
)

func TestBuildSaysWhereItComesFrom(t *testing.T) {
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
