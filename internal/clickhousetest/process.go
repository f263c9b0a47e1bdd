package clickhousetest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// endTimeout is what a server has to end by itself.
const endTimeout = 20 * time.Second

// process is one life of a server. It ends when its standard input does.
type process struct {
	cmd        *exec.Cmd
	supervised bool          // Whether the command is not the server but one that kills it.
	input      *os.File      // The other end of its standard input.
	line       chan string   // Gets the first line of its standard output, and "" if there is none.
	ended      chan struct{} // Closed once it was waited for.
}

// run starts a command that prints to the log of the server; one that speaks has its
// first line of output read instead.
func run(s *Server, speaks bool, command ...string) (*process, error) {
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	stdin, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	p := &process{cmd: exec.Command(command[0], command[1:]...), supervised: !speaks, input: input, line: make(chan string, 1), ended: make(chan struct{})}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TZ=UTC"}
	p.cmd.Stdin, p.cmd.Stderr = stdin, log
	var stdout io.Reader
	if speaks {
		stdout, err = p.cmd.StdoutPipe()
	} else {
		p.cmd.Stdout = log
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		input.Close()
		return nil, err
	}
	go p.wait(stdout)
	return p, nil
}

// wait reads what the process says and returns when it has ended.
func (p *process) wait(stdout io.Reader) {
	defer close(p.ended)
	if stdout != nil {
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n') // A line that is cut off is none that can be read.
		p.line <- line
		_, _ = io.Copy(io.Discard, r) // It ends with the process.
	}
	_ = p.cmd.Wait() // An end before its time shows in the test.
}

// kill ends the server at once.
func (p *process) kill() {
	if !p.supervised {
		_ = p.cmd.Process.Kill() // It may have ended.
	}
	p.input.Close()
	<-p.ended
}

// end lets the server end by itself.
func (p *process) end() {
	p.input.Close()
	late := time.NewTimer(endTimeout)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		p.kill()
	}
}
