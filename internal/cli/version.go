package cli

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/storage"
)

// module is the path of this module, which is a dependency of an author's program.
const module = "github.com/parleyrun/parley"

// stamped is the version of the linked program, which may be an author's. The linker sets it in builds
// without a repository, for example of an image: -ldflags "-X
// github.com/parleyrun/parley/internal/cli.stamped=v1.2.3".
var stamped string

// shortCommit is the number of printed digits of a commit, as in Go's pseudo-versions.
const shortCommit = 12

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program, its commit and its storage format",
		Args:  NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), versionLine())
		},
	}
}

func versionLine() string {
	info := buildInfo()
	line := fmt.Sprintf("parley %s (%s %s/%s, stored format %d)", BuildOf(info), runtime.Version(), runtime.GOOS, runtime.GOARCH, storage.SchemaVersion)
	if info != nil && info.Main.Path != module && info.Main.Path != "" {
		line = fmt.Sprintf("%s %s with %s", info.Main.Path, version(info.Main), line)
	}
	return line
}

// buildInfo returns the build information of the process, with the stamped version.
func buildInfo() *debug.BuildInfo {
	info, _ := debug.ReadBuildInfo()
	return stamp(info, stamped)
}

// stamp sets the version of the main module; "" leaves info unchanged.
func stamp(info *debug.BuildInfo, version string) *debug.BuildInfo {
	if version == "" {
		return info
	}
	if info == nil {
		info = &debug.BuildInfo{Main: debug.Module{Path: module}}
	}
	out := *info
	out.Main.Version = version
	return &out
}

// Version returns the version of Parley: a release, or the time and commit of a checkout. It is
// "devel" if the build has neither, as with go run.
func Version() string {
	return BuildOf(buildInfo()).Version
}

// maxSoftware bounds [SoftwareVersion] in bytes, like the list of members.
const maxSoftware = 256

// SoftwareVersion returns [Version] with commit and date if known. In an author's program it begins
// with the version of that program, so that a rolling upgrade is visible in the list of members.
func SoftwareVersion() string { return softwareOf(buildInfo()) }

func softwareOf(info *debug.BuildInfo) string {
	s := BuildOf(info).String()
	if info != nil && info.Main.Path != module && info.Main.Path != "" {
		s = fmt.Sprintf("%s %s with parley %s", path.Base(info.Main.Path), revision(info), s)
	}
	return strings.ToValidUTF8(s[:min(len(s), maxSoftware)], "")
}

// revision returns the version of the main module, or its commit if it has none.
func revision(info *debug.BuildInfo) string {
	v := version(info.Main)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v == "devel" {
			v = s.Value[:min(len(s.Value), shortCommit)]
		}
	}
	return v
}

// Build describes the origin of a program. Fields that the build does not record are "".
type Build struct {
	Version string
	Commit  string
	Date    string // date of the commit, as 2006-01-02
	// Modified reports uncommitted changes.
	Modified bool
}

// pseudo matches the suffix of a pseudo-version.
var pseudo = regexp.MustCompile(`[-.](\d{8})\d{6}-([0-9a-f]{12})(\+[a-z]+)*$`)

// BuildOf reads the origin of Parley from build information, as the main module or a dependency. info
// may be nil.
func BuildOf(info *debug.BuildInfo) Build {
	if info == nil {
		return Build{Version: "devel"}
	}
	b := Build{Version: "devel"}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		b.Version = version(*m)
	}
	if m := pseudo.FindStringSubmatch(b.Version); m != nil {
		b.Commit, b.Date = m[2], m[1][:4]+"-"+m[1][4:6]+"-"+m[1][6:]
	}
	if info.Main.Path != module {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value[:min(len(s.Value), shortCommit)]
		case "vcs.time":
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
				b.Date = at.UTC().Format(time.DateOnly)
			}
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func version(m debug.Module) string {
	if m.Version == "(devel)" {
		return "devel"
	}
	return cmp.Or(m.Version, "devel")
}

// String returns the version, with the fields that it does not contain in parentheses.
func (b Build) String() string {
	var more []string
	if b.Commit != "" {
		more = append(more, "commit "+b.Commit)
	}
	if b.Date != "" {
		more = append(more, b.Date)
	}
	if b.Modified {
		more = append(more, "modified")
	}
	if len(more) == 0 {
		return b.Version
	}
	return b.Version + " (" + strings.Join(more, ", ") + ")"
}
