package noderun

import (
	"errors"

	"github.com/prometheus/procfs"
)

// Memory reads how much memory a process has resident, and the most that it ever had, in
// bytes. One that is about to end has none.
func Memory(pid int) (now, most int64, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, err
	}
	status, err := p.NewStatus()
	if err == nil && (status.VmRSS == 0 || status.VmHWM == 0) {
		err = errors.New("the process has no memory")
	}
	return int64(status.VmRSS), int64(status.VmHWM), err
}
