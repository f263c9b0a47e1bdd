package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

const (
	// profileMost is the maximum duration of a profile; it is ended long before.
	profileMost = time.Hour
	// pprofPath is the path of profiles on an admin listener.
	pprofPath = "/debug/pprof/"
)

func (c *child) savePage(ctx context.Context, path, file string) error {
	b, err := c.page(ctx, pprofPath+path)
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}

// profile starts to profile the child: the processor into path.cpu.pprof, allocations since process
// start into path.allocs.pprof, and the allocations before the profile into path.before.pprof. The
// returned function stops it and writes the files.
func (c *child) profile(ctx context.Context, path string) (end func(context.Context) error, err error) {
	if err := c.savePage(ctx, "allocs", path+".before.pprof"); err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.admin)
	if err != nil {
		return nil, fmt.Errorf("profile the processor: %w", err)
	}
	var resp *http.Response
	if err = conn.SetDeadline(time.Now().Add(profileMost)); err == nil {
		_, err = fmt.Fprintf(conn, "GET %sprofile?seconds=%d HTTP/1.1\r\nHost: %s\r\n\r\n", pprofPath, int(profileMost.Seconds()), c.admin)
	}
	if err == nil {
		// The header arrives once the profile has begun.
		resp, err = http.ReadResponse(bufio.NewReader(conn), nil)
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %sprofile answered %d", pprofPath, resp.StatusCode)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("profile the processor: %w", err), conn.Close())
	}
	return func(ctx context.Context) (err error) {
		defer func() { err = errors.Join(err, conn.Close()) }()
		// Closing this half of the connection ends the profile.
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			return fmt.Errorf("end the profile: %w", err)
		}
		b, err := io.ReadAll(resp.Body)
		if err == nil {
			err = os.WriteFile(path+".cpu.pprof", b, 0o600)
		}
		if err != nil {
			return fmt.Errorf("write profile: %w", err)
		}
		return c.savePage(ctx, "allocs", path+".allocs.pprof")
	}, nil
}

// heapStatistics matches lines of the statistics at the end of a textual heap profile.
var heapStatistics = regexp.MustCompile(`(?ms)^# HeapIdle = (\d+)$.*^# HeapReleased = (\d+)$`)

// freed returns the memory of the child without garbage. It runs a collection. Then it subtracts the
// idle bytes of the heap that are not released yet, which are exactly those that debug.FreeOSMemory
// would return to the system.
func (c *child) freed(ctx context.Context) (proc.Memory, error) {
	text, err := c.page(ctx, pprofPath+"heap?gc=1&debug=1")
	if err != nil {
		return proc.Memory{}, fmt.Errorf("collect garbage: %w", err)
	}
	idle, err := unreleased(text)
	if err != nil {
		return proc.Memory{}, err
	}
	u, err := proc.UsageOf(c.pid())
	u.Memory.RSS -= idle
	u.Memory.Anonymous -= idle
	return u.Memory, err
}

// unreleased returns the idle bytes of the heap that are not returned to the system.
func unreleased(text []byte) (int64, error) {
	m := heapStatistics.FindSubmatch(text)
	if m == nil {
		return 0, errors.New("read statistics of the heap: HeapIdle or HeapReleased is missing")
	}
	idle, err := strconv.ParseInt(string(m[1]), 10, 64)
	released, failed := strconv.ParseInt(string(m[2]), 10, 64)
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("read statistics of the heap: %w", err)
	}
	return idle - released, nil
}
