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
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

// variable names a server that is there.
const variable = "PARLEY_TEST_CLICKHOUSE"

// program is a server as it is started.
type program interface {
	// start runs the server at its addresses, of which port 0 is a free one and is
	// made known in s, and returns when it answers.
	start(ctx context.Context, s *Server) (*proc.Process, error)
}

// find returns the program to run.
func find(ctx context.Context) (program, error) {
	if file, err := exec.LookPath("clickhouse"); err == nil {
		return installed{file}, nil
	}
	root, err := proc.Root()
	if err != nil {
		return nil, err
	}
	lib := filepath.Join(root, "test", "engine", "node_modules", "@chdb", libraryPackage(), "libchdb.so")
	if _, err := os.Stat(lib); err != nil {
		return nil, fmt.Errorf("find the engine: %w: run make engine, put the program clickhouse in PATH, or let %s name a server", err, variable)
	}
	// It calls C, so the race detector is of no use in it.
	file, err := proc.Build(ctx, "internal/clickhousetest/engine", false)
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

// engine is the library in a process.
type engine struct{ file, lib string }

func (e engine) start(ctx context.Context, s *Server) (*proc.Process, error) {
	p, err := s.run(false, e.file, "-lib", e.lib, "-path", filepath.Join(s.dir, "data"), "-native", s.native, "-http", s.web)
	if err != nil {
		return nil, err
	}
	line, err := p.Await(ctx)
	if err == nil {
		var at struct{ Native, HTTP string }
		if err = json.Unmarshal([]byte(line), &at); err == nil {
			s.native, s.web = at.Native, at.HTTP
			return p, nil
		}
		err = fmt.Errorf("the engine says where it serves with %q: %w", line, err)
	}
	p.Kill()
	return nil, fmt.Errorf("wait for the engine: %w", err)
}

// installed is the program of a distribution.
type installed struct{ file string }

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

func (i installed) start(ctx context.Context, s *Server) (*proc.Process, error) {
	if port(s.native) == "0" {
		free, err := proc.FreeAddresses("127.0.0.1", 2)
		if err != nil {
			return nil, err
		}
		s.native, s.web = free[0], free[1]
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
	p, err := s.run(true, i.file, "server", "--config-file="+file)
	if err != nil {
		return nil, err
	}
	if err := answers(ctx, s, p); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// answers polls until the server does.
func answers(ctx context.Context, s *Server, p *proc.Process) error {
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
		case <-p.Ended():
			return errors.New("the server ends at its start")
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}
