package s3server

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parleyrun/parley/internal/proc"
)

// program is an installable server.
type program struct {
	name     string
	version  string // As in the Makefile.
	variable string // Variable that names a program in place of the pinned one.
	env      func(*Server) []string
	// args returns the alternative command lines, tried in order.
	args func(*Server) [][]string
}

// versitygw has two backends. With extended attributes an object and its S3 metadata appear
// atomically. With the files that replace them they do not, and a failed create can leave such files.
// So those are used only on file systems without extended attributes, which the server rejects
// otherwise.
func versitygw() program {
	return program{name: "versitygw", version: "v1.8.0", variable: "PARLEY_TEST_VERSITYGW", env: func(s *Server) []string {
		return []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey, "GOGC=400"} // Tests have more memory than processors.
	}, args: func(s *Server) [][]string {
		args := []string{"--port", s.Endpoint, "--region", s.Region, "--keep-alive", "--quiet", "posix"}
		return [][]string{append(slices.Clone(args), s.objects()), append(args, "--sidecar", s.private(), s.objects())}
	}}
}

func minio() program {
	return program{name: "minio", version: "v0.0.0-20260212201848-7aac2a2c5b7c", variable: "PARLEY_TEST_MINIO", env: func(s *Server) []string {
		return []string{
			"HOME=" + s.private(), "MINIO_ROOT_USER=" + s.AccessKey, "MINIO_ROOT_PASSWORD=" + s.SecretKey, "MINIO_REGION=" + s.Region,
			"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CALLHOME_ENABLE=off",
		}
	}, args: func(s *Server) [][]string {
		return [][]string{{"server", "--address", s.Endpoint, "--certs-dir", s.private(), s.objects()}}
	}}
}

// find returns the program's path.
func (p program) find(t testing.TB) string {
	t.Helper()
	file, root, err := os.Getenv(p.variable), "", error(nil)
	if file == "" {
		root, err = proc.Root()
		file = filepath.Join(root, "bin", p.name+"@"+p.version) // Output folder of make.
	}
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		t.Fatalf("find %s: %v: run make servers, or set %s to the program", p.name, err, p.variable)
	}
	return file
}
