package s3server

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parleyrun/parley/internal/proc"
)

// program is a server as it is installed and started.
type program struct {
	name     string
	version  string // That of the Makefile.
	variable string // Names the program to run instead of the pinned one.
	env      func(*Server) []string
	// args are those of the ways to start it, which are tried one after the other.
	args func(*Server) [][]string
}

// versitygw has two backends. With extended attributes an object and what S3 knows of it
// appear at once; not so with the files that stand in for them, which a create that fails can
// leave behind. So those are for file systems without extended attributes, which the server
// refuses.
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
		file = filepath.Join(root, "bin", p.name+"@"+p.version) // Where make puts it.
	}
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		t.Fatalf("find %s: %v: run make servers, or let %s name the program", p.name, err, p.variable)
	}
	return file
}
