package localserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// Starter starts children for a folder.
type Starter struct {
	Program string // whose `serve` is the child
	Version string // of the program: a child of another one is replaced
	Data    string // the folder, absolute
	Idle    time.Duration
	Began   func(Ready) // hears of each child that was started; nil: nobody
}

// Ready is what a child says when it can serve, or why it can't: one line of JSON on its standard output.
type Ready struct {
	Ready    bool   `json:"ready"`
	Sessions int    `json:"sessions,omitempty"` // over [MostSessions]: at least that many
	Error    string `json:"error,omitempty"`
	InUse    bool   `json:"in_use,omitempty"` // another process has the folder
}

// MostSessions is up to how many sessions a child counts before it serves.
const MostSessions = 200

// patience is how long Serving waits for a process that starts or ends.
const patience = 60 * time.Second

// ErrSilent: a process has the folder open and answers nobody. It was stopped, or starts for longer than we wait.
var ErrSilent = errors.New("a process has this folder open and does not answer")

// Serving returns a process that serves the folder and that answers. It starts one where there is none. Errors: what the child
// said; [ErrFolder]; [ErrSilent].
func (st *Starter) Serving(ctx context.Context) (Serving, error) {
	deadline := time.Now().Add(patience)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		s, err := Find(st.Data)
		if err == nil && Answers(s.URL) {
			if !s.Child || s.Version == st.Version {
				return s, nil
			}
			if _, err := TakeOver(ctx, st.Data); err != nil {
				return s, err
			}
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
		said, err := st.start(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded): // the child waits for that process, or starts for longer than we wait
			return s, fmt.Errorf("%w: %w", ErrSilent, err)
		case err != nil:
			return s, err
		case said.Ready:
			if st.Began != nil {
				st.Began(said)
			}
			continue
		case !said.InUse:
			return s, errors.New(said.Error)
		case time.Now().After(deadline):
			return s, fmt.Errorf("%w: %s", ErrSilent, said.Error)
		}
		select {
		case <-ctx.Done():
			err := context.Cause(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%w: %w", ErrSilent, err)
			}
			return s, err
		case <-time.After(pause):
		}
	}
}

// IsServed reports whether a process serves the folder and answers. It starts none.
func (st *Starter) IsServed() bool {
	s, err := Find(st.Data)
	return err == nil && Answers(s.URL)
}

// start starts a child, and returns what it says first. The child has a session of its own: a signal to this process's
// group does not reach it, and it outlives this process.
func (st *Starter) start(ctx context.Context) (said Ready, err error) {
	if err := check(st.Data); err != nil {
		return said, err
	}
	if err := os.MkdirAll(st.Data, 0o700); err != nil {
		return said, err
	}
	log, err := os.OpenFile(filepath.Join(st.Data, "serve.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return said, err
	}
	defer log.Close()
	if info, err := log.Stat(); err == nil && info.Size() > maxLog {
		_ = log.Truncate(0)
	}
	cmd := exec.Command(st.Program, "serve", "--data", st.Data, "--idle", st.Idle.String())
	cmd.Stderr, cmd.Dir, cmd.SysProcAttr = log, string(filepath.Separator), &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return said, err
	}
	if err := cmd.Start(); err != nil {
		return said, fmt.Errorf("start %s serve: %w", st.Program, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = out.Close() }) // the child goes on, for who asks next
	line, err := bufio.NewReader(out).ReadBytes('\n')
	stop()
	_ = out.Close()
	if err == nil {
		err = json.Unmarshal(line, &said)
	}
	if ctx.Err() != nil {
		return said, context.Cause(ctx)
	}
	if err == nil && said.Ready {
		return said, cmd.Process.Release()
	}
	if waited := cmd.Wait(); err != nil {
		return said, fmt.Errorf("the process that was started to serve %s ended without a word (%v); its log is %s", st.Data, waited, log.Name())
	}
	return said, nil
}

// maxLog is the size in bytes from which the log of a child is begun anew.
const maxLog = 1 << 20

// Answers reports whether a server greets at the first address of a URL.
func Answers(list string) bool {
	conn, err := dialFirst("tcp", list)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	_, err = conn.Read(make([]byte, 1)) // one that ends closes it instead
	return err == nil
}

// Dial connects to whatever serves the folder when it is called, whatever the address: so a connection whose server ended
// comes back at the next one.
func (st *Starter) Dial(network, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := st.Serving(ctx)
	if err != nil {
		return nil, err
	}
	return dialFirst(network, s.URL)
}

// dialFirst connects to the first address of a list of URLs.
func dialFirst(network, list string) (net.Conn, error) {
	first, _, _ := strings.Cut(list, ",")
	u, err := url.Parse(first)
	if err != nil {
		return nil, err
	}
	return net.DialTimeout(network, u.Host, 2*time.Second)
}
