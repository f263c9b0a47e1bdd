package server

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
)

// initFiles holds the templates of "parley init", which are executed with [initOptions].
//
//go:embed init/*.tmpl
var initFiles embed.FS

// initOptions holds the flags of "parley init" and the data of its templates.
type initOptions struct {
	folder   string
	Go, YAML bool
	Name     string
	// Version is the version of Parley that go.mod requires; "" leaves it to go get.
	Version string
}

// agentName matches names that are valid in a file, a URL and a module path.
var agentName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

func initCommand() *cobra.Command {
	o := initOptions{}
	cmd := &cobra.Command{
		Use:   "init [folder]",
		Short: "Create a first agent: a Go program, a configuration file, or both",
		Long: "init creates a first agent in a folder, which it creates if it does not exist. With --go it writes\n" +
			"a program with a tool, with --yaml a parley.yaml that needs no Go, with both the program and its\n" +
			"operator's file. The agent uses the offline demo model. Existing files are not changed.",
		Example: "  parley init --yaml\n  parley init --go hello\n  parley init --go --yaml --name concierge desk",
		Args:    cli.AtMostOne,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.folder = "."
			if len(args) > 0 {
				o.folder = args[0]
			}
			o.Version = released(cli.Version())
			return o.run(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&o.Go, "go", false, "write main.go and go.mod")
	cmd.Flags().BoolVar(&o.YAML, "yaml", false, "write parley.yaml")
	cmd.Flags().StringVar(&o.Name, "name", "hello", "the agent's name")
	return cmd
}

// released returns version if go.mod can require it, otherwise "", for example for git describe
// output.
func released(version string) string {
	if regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(version) && !regexp.MustCompile(`-(\d+-g[0-9a-f]+|dirty)`).MatchString(version) {
		return version
	}
	return ""
}

func (o *initOptions) run(out io.Writer) error {
	switch {
	case !o.Go && !o.YAML:
		return errors.New("choose the files to create: --go for a Go program with an agent, --yaml for a parley.yaml, or both; parley init --yaml needs no Go")
	case !agentName.MatchString(o.Name):
		return fmt.Errorf("--name %q: use lower-case letters, digits and dashes, for example hello", o.Name)
	}
	var files []string
	if o.Go {
		files = append(files, "main.go", "go.mod")
	}
	if o.YAML {
		files = append(files, "parley.yaml")
	}
	for _, name := range files {
		if _, err := os.Lstat(filepath.Join(o.folder, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists, nothing was written; name another folder: parley init my-agent", filepath.Join(o.folder, name))
		}
	}
	if err := os.MkdirAll(o.folder, 0o755); err != nil {
		return fmt.Errorf("create the folder: %w", err)
	}
	for _, name := range files {
		if err := o.write(name); err != nil {
			return err
		}
	}
	return o.next(out, files)
}

func (o *initOptions) write(name string) error {
	t, err := template.ParseFS(initFiles, "init/"+name+".tmpl")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, o); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.folder, name), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// next prints the created files and the next commands.
func (o *initOptions) next(out io.Writer, files []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "wrote %s in %s\n\nNext:\n\n", strings.Join(files, ", "), o.folder)
	if o.folder != "." {
		fmt.Fprintf(&b, "  cd %s\n", o.folder)
	}
	self := invocation(&cli.Program{}, os.Args)
	if o.Go {
		self = "go run ."
		if o.Version == "" {
			b.WriteString("  go get github.com/parleyrun/parley\n")
		}
		b.WriteString("  go mod tidy\n")
	}
	fmt.Fprintf(&b, "  %s dev\n", self)
	if o.Go {
		b.WriteString("\nThe first build takes one to two minutes and prints nothing.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
