package clickhousetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// variable names a server that is there.
const variable = "PARLEY_TEST_CLICKHOUSE"

// program is a server as it is started.
type program interface {
	// start runs the server at its addresses, of which port 0 is a free one and is
	// made known in s, and returns when it answers.
	start(ctx context.Context, s *Server) (*process, error)
}

// find returns the program to run.
func find(ctx context.Context) (program, error) {
	if file, err := exec.LookPath("clickhouse"); err == nil {
		return installed{file}, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	lib := filepath.Join(root, "test", "engine", "node_modules", "@chdb", libraryPackage(), "libchdb.so")
	if _, err := os.Stat(lib); err != nil {
		return nil, fmt.Errorf("find the engine: %w: run make engine, put the program clickhouse in PATH, or let %s name a server", err, variable)
	}
	file, err := build(ctx, root)
	if err != nil {
		return nil, err
	}
	return engine{file: file, lib: lib}, nil
}

// libraryPackage is the package of the library for this kind of machine.
func libraryPackage() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return "lib-" + runtime.GOOS + "-" + arch + "-gnu"
}

// moduleRoot returns the folder of go.mod: a test runs in the folder of its package,
// somewhere below it.
func moduleRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if strings.HasSuffix(dir, string(filepath.Separator)) {
			return "", fmt.Errorf("no go.mod at or above %s", wd)
		}
	}
}

// build returns the engine's program, which is built if its source is newer. Tests
// of several packages build it at a time, one after the other. It calls C, so the
// race detector is of no use in it.
func build(ctx context.Context, root string) (string, error) {
	dir := filepath.Join(root, "bin", "clickhousetest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // Which unlocks it.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	file := filepath.Join(dir, "engine")
	cmd := exec.CommandContext(ctx, "go", "build", "-race=false", "-o", file, "./internal/clickhousetest/engine")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the engine: %w\n%s", err, out)
	}
	return file, nil
}

// engine is the library in a process.
type engine struct{ file, lib string }

func (e engine) start(ctx context.Context, s *Server) (*process, error) {
	p, err := run(s, true, e.file, "-lib", e.lib, "-path", filepath.Join(s.dir, "data"), "-native", s.native, "-http", s.web)
	if err != nil {
		return nil, err
	}
	select {
	case line := <-p.line:
		var at struct{ Native, HTTP string }
		if err = json.Unmarshal([]byte(line), &at); err == nil {
			s.native, s.web = at.Native, at.HTTP
			return p, nil
		}
		err = fmt.Errorf("the engine says where it serves with %q: %w", line, err)
	case <-ctx.Done():
		err = fmt.Errorf("wait for the engine: %w", ctx.Err())
	}
	p.kill()
	return nil, err
}

// installed is the program of a distribution.
type installed struct{ file string }

// supervise runs a command until that ends, or until the standard input does.
const supervise = `
exec 3<&0
"$@" 3<&- </dev/null & server=$!
{ read -r _; kill -9 "$server"; } <&3 2>/dev/null & watcher=$!
wait "$server"; status=$?
kill "$watcher" 2>/dev/null
exit "$status"`

// configuration is that of a server with two users and nothing else. Its values are
// ports and a folder.
const configuration = `<clickhouse>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>127.0.0.1</listen_host>
  <tcp_port>%[1]s</tcp_port>
  <http_port>%[2]s</http_port>
  <path>%[3]s/</path>
  <tmp_path>%[3]s/tmp/</tmp_path>
  <user_files_path>%[3]s/user_files/</user_files_path>
  <format_schema_path>%[3]s/format_schemas/</format_schema_path>
  <timezone>UTC</timezone>
  <user_directories><users_xml><path>%[4]s</path></users_xml></user_directories>
  <profiles><default/><readonly><readonly>2</readonly></readonly></profiles>
  <quotas><default/></quotas>
  <users>
    <default><password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>
    <readonly><password/><networks><ip>::/0</ip></networks><profile>readonly</profile><quota>default</quota></readonly>
  </users>
</clickhouse>
`

func (i installed) start(ctx context.Context, s *Server) (*process, error) {
	for _, address := range []*string{&s.native, &s.web} {
		if err := choosePort(address); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "config.xml")
	text := fmt.Sprintf(configuration, port(s.native), port(s.web), filepath.Join(dir, "data"), file)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	p, err := run(s, false, "sh", "-c", supervise, "sh", i.file, "server", "--config-file="+file)
	if err != nil {
		return nil, err
	}
	if err := answers(ctx, s, p); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// answers polls until the server does.
func answers(ctx context.Context, s *Server, p *process) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.web+"/ping", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.ended:
			return errors.New("the server ends at its start")
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// choosePort replaces port 0 by one that nobody has, for now.
func choosePort(address *string) error {
	if port(*address) != "0" {
		return nil
	}
	l, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	*address = l.Addr().String()
	return l.Close()
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}
