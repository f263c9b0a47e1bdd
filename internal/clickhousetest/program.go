package clickhousetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/parleyrun/parley/internal/proc"
)

// configuration is the configuration of a server with two users. Its values are a host, two ports and
// a folder.
const configuration = `<clickhouse>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>%[1]s</listen_host>
  <tcp_port>%[2]s</tcp_port>
  <http_port>%[3]s</http_port>
  <path>%[4]s/data/</path>
  <tmp_path>%[4]s/data/tmp/</tmp_path>
  <user_files_path>%[4]s/data/user_files/</user_files_path>
  <format_schema_path>%[4]s/data/format_schemas/</format_schema_path>
  <timezone>UTC</timezone>
  <user_directories><users_xml><path>%[4]s/config.xml</path></users_xml></user_directories>
  <profiles><default/><readonly><readonly>2</readonly></readonly></profiles>
  <quotas><default/></quotas>
  <users>
    <default><password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>
    <readonly><password/><networks><ip>::/0</ip></networks><profile>readonly</profile><quota>default</quota></readonly>
  </users>
</clickhouse>
`

// command returns the command line of a server with two addresses over a folder: the program of a
// distribution, or the library in a process.
func command(ctx context.Context, dir, native, web string) ([]string, error) {
	if file, err := exec.LookPath("clickhouse"); err == nil {
		host, port, _ := net.SplitHostPort(native)
		_, webPort, _ := net.SplitHostPort(web)
		config := filepath.Join(dir, "config.xml")
		text := fmt.Sprintf(configuration, host, port, webPort, dir)
		return []string{file, "server", "--config-file=" + config}, os.WriteFile(config, []byte(text), 0o644)
	}
	root, err := proc.Root()
	if err != nil {
		return nil, err
	}
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	lib := filepath.Join(root, "test", "engine", "node_modules", "@chdb", "lib-"+runtime.GOOS+"-"+arch+"-gnu", "libchdb.so")
	if _, err := os.Stat(lib); err != nil {
		return nil, fmt.Errorf("find the engine: %w: run make engine, put the program clickhouse in PATH, or let %s name a server", err, variable)
	}
	// It calls C, so the race detector is useless in it.
	file, err := proc.Build(ctx, "internal/clickhousetest/engine", false)
	return []string{file, "-lib", lib, "-path", filepath.Join(dir, "data"), "-native", native, "-http", web}, err
}
