package proctest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/witness"
)

// patience is how long anything may take that nothing hinders.
const patience = 30 * time.Second

// process is one of the cluster, as its parent sees it. Safe for concurrent use.
type process struct {
	name  string
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	hello hello         // once it is ready
	file  string        // its witness; "": none
	err   error         // how it ended, once done is closed
	died  time.Duration // when, if it was killed; once done is closed
	log   bytes.Buffer  // its standard error, once done is closed
	// settled: the test has looked at how it ended.
	settled bool

	mu      sync.Mutex
	in      io.WriteCloser
	lines   []string      // that it has said and nobody has looked for
	changed chan struct{} // closed and made anew with each line
}

// spawn runs a program.
func spawn(name string, args []string) (*process, error) {
	p := &process{name: name, done: make(chan struct{}), changed: make(chan struct{})}
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Env = append(os.Environ(), childVariable+"=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.log
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.watch(out)
	return p, nil
}

// watch ends with the process.
func (p *process) watch(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
	p.err = p.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(p.err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		p.died = witness.Now()
	}
	close(p.done)
}

// errNotSaid is that of a process that ends, or lets time go by, in silence.
var errNotSaid = errors.New("it did not say so")

// heard waits for a line that begins with the word, takes it and returns the rest.
func (p *process) heard(word string) (string, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		p.mu.Lock()
		changed := p.changed
		i := slices.IndexFunc(p.lines, func(line string) bool { return strings.HasPrefix(line, word+" ") })
		if i >= 0 {
			line := p.lines[i]
			p.lines = slices.Delete(p.lines, i, i+1)
			p.mu.Unlock()
			return line[len(word)+1:], nil
		}
		p.mu.Unlock()
		select {
		case <-changed:
		case <-p.done:
			select {
			case <-changed: // the last line came with its end
				continue
			default:
			}
			return "", fmt.Errorf("%s, %q: %w, and ended with %w\n%s", p.name, word, errNotSaid, p.err, p.log.String())
		case <-late.C:
			return "", fmt.Errorf("%s, %q: %w within %v", p.name, word, errNotSaid, patience)
		}
	}
}

// all takes all lines that begin with the word, and returns what is behind it.
func (p *process) all(word string) (rest []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = slices.DeleteFunc(p.lines, func(line string) bool {
		tail, is := strings.CutPrefix(line, word+" ")
		if is {
			rest = append(rest, tail)
		}
		return is
	})
	return rest
}

// tell gives it a line.
func (p *process) tell(line string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := io.WriteString(p.in, line+"\n")
	return err
}

// begin gives it its order and waits until it is ready.
func (p *process) begin(o *order) error {
	p.file = o.Witness
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := p.tell(string(b)); err != nil {
		return err
	}
	line, err := p.heard("ready")
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(line), &p.hello)
}

// arm arms a failpoint.
func (p *process) arm(spec string) error {
	if err := p.tell("arm " + spec); err != nil {
		return err
	}
	_, err := p.heard("armed")
	return err
}

// view returns what the node says of itself.
func (p *process) view() (v view, err error) {
	err = p.ask("view", &v)
	return v, err
}

// relocate begins a relocation of the node; relocated waits for its result.
func (p *process) relocate(r *zlnode.Relocate) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return p.tell("relocate " + string(b))
}

func (p *process) relocated() (r zlnode.RelocateResult, err error) {
	line, err := p.heard("relocated")
	if err == nil {
		err = json.Unmarshal([]byte(line), &r)
	}
	return r, err
}

// relocation returns how far it is.
func (p *process) relocation() (r zlnode.Relocation, err error) {
	err = p.ask("relocation", &r)
	return r, err
}

// ask says a word, and decodes what it is answered with.
func (p *process) ask(word string, v any) error {
	if err := p.tell(word); err != nil {
		return err
	}
	line, err := p.heard(word)
	if err == nil {
		err = json.Unmarshal([]byte(line), v)
	}
	return err
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill is kill -9, and waits.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// pause stops the process where it is, and returns when it stands; resume has it go on.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.stands()
}

// stands waits until the process is stopped.
func (p *process) stands() error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte(") T ")) {
			return nil
		}
		select {
		case <-tick.C:
		case <-late.C:
			return fmt.Errorf("%s does not stop", p.name)
		}
	}
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// terminate is kill -TERM, and does not wait.
func (p *process) terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// exit returns the status with which it has ended, of which stop does not complain then.
func (p *process) exit() int {
	<-p.done
	p.settled = true
	return p.cmd.ProcessState.ExitCode()
}

// stop has the process end in order, if it lives.
func (p *process) stop() error {
	p.mu.Lock()
	_ = p.in.Close() // it may have ended
	p.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // so that it says where it is
		<-p.done
		return fmt.Errorf("%s does not end\n%s", p.name, p.log.String())
	}
	if p.died == 0 && p.err != nil && !p.settled {
		return fmt.Errorf("%w: %s", p.err, p.said())
	}
	return nil
}

// complaints are what in its log is a bug whatever was done to it. It has ended.
func (p *process) complaints() (found []string) {
	for _, sign := range []string{"DATA RACE", "panic:", "invariant broken", "fatal error:", "application code panicked"} {
		if i := strings.Index(p.log.String(), sign); i >= 0 {
			text := p.log.String()[i:]
			found = append(found, fmt.Sprintf("%s: %s", p.name, text[:min(len(text), 6000)]))
		}
	}
	return found
}

// said is its log's end, without what the Store's absence makes it repeat.
func (p *process) said() string {
	lines := slices.DeleteFunc(strings.Split(p.log.String(), "\n"), func(line string) bool {
		return strings.Contains(line, "was not renewed") || strings.HasPrefix(line, "redis: ")
	})
	return p.name + ":\n" + strings.Join(lines[max(len(lines)-saidLines, 0):], "\n")
}

const saidLines = 40

// records returns what it has witnessed.
func (p *process) records() (witness.Log, error) {
	l := witness.Log{Process: p.name, Died: p.died}
	if p.file == "" {
		return l, nil
	}
	var err error
	l.Records, err = witness.Read(p.file)
	return l, err
}
