//go:build linux && amd64

package faulttest

import (
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// strace can kill a process at the Nth call, but it counts the calls of each thread apart, and Go
// moves its work between threads. So this traces by itself, and counts the calls of the process.

// fileCall is a system call that changes a file under the data folder.
type fileCall struct {
	name  string // of the system call
	path  string // relative to the folder; ids and numbers are replaced by N
	stack string // the innermost functions of nexusd and its libraries
}

func (c fileCall) String() string { return c.name + " " + c.path + " by " + c.stack }

// target is the moment at which the process is killed: before or after the nth call of a kind.
type target struct {
	call  fileCall
	nth   int // from 1
	after bool
}

func (x target) String() string {
	when := "before"
	if x.after {
		when = "after"
	}
	return fmt.Sprintf("%s number %d of %s", when, x.nth, x.call)
}

// fileCalls are the system calls that change a file: which argument is the descriptor, or the path.
var fileCalls = map[uint64]struct {
	name     string
	fd, path int // -1: none
	flags    int // index of the flags of an open; 0: no open
}{
	syscall.SYS_WRITE:     {"write", 0, -1, 0},
	syscall.SYS_PWRITE64:  {"pwrite64", 0, -1, 0},
	syscall.SYS_WRITEV:    {"writev", 0, -1, 0},
	syscall.SYS_FSYNC:     {"fsync", 0, -1, 0},
	syscall.SYS_FDATASYNC: {"fdatasync", 0, -1, 0},
	277:                   {"sync_file_range", 0, -1, 0},
	syscall.SYS_FALLOCATE: {"fallocate", 0, -1, 0},
	syscall.SYS_FTRUNCATE: {"ftruncate", 0, -1, 0},
	syscall.SYS_TRUNCATE:  {"truncate", -1, 0, 0},
	syscall.SYS_RENAME:    {"rename", -1, 1, 0},
	syscall.SYS_RENAMEAT:  {"rename", -1, 3, 0},
	316:                   {"rename", -1, 3, 0},
	syscall.SYS_UNLINK:    {"unlink", -1, 0, 0},
	syscall.SYS_UNLINKAT:  {"unlink", -1, 1, 0},
	syscall.SYS_MKDIR:     {"mkdir", -1, 0, 0},
	syscall.SYS_MKDIRAT:   {"mkdir", -1, 1, 0},
	syscall.SYS_LINKAT:    {"link", -1, 3, 0},
	syscall.SYS_OPENAT:    {"create", -1, 1, 2},
}

// tracer stops a process, which leads a process group, at each of its system calls.
type tracer struct {
	pid    int
	folder string
	code   *gosym.Table
	goal   *target // nil: count only

	mu    sync.Mutex
	calls []fileCall
	hit   bool
	err   error

	attached chan struct{}
	ended    chan struct{} // the process is gone
}

// Of ptrace(2), which package syscall lacks.
const (
	ptraceSeize          = 0x4206
	ptraceInterrupt      = 0x4207
	ptraceGetSyscallInfo = 0x420e
	ptraceEventStop      = 128
	waitAll              = 0x40000000 // __WALL
	waitOwn              = 0x20000000 // __WNOTHREAD: what this thread traces
)

// trace attaches to a process and returns when every thread of it is traced. It kills the process
// at goal, if there is one.
func trace(pid int, folder string, code *gosym.Table, goal *target) (*tracer, error) {
	x := &tracer{pid: pid, folder: folder, code: code, goal: goal, attached: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // ptrace and its waits belong to a thread, which ends with this function
		defer close(x.ended)
		err := x.attach()
		if err != nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		x.mu.Lock()
		x.err = err
		x.mu.Unlock()
		close(x.attached)
		x.follow()
	}()
	<-x.attached
	x.mu.Lock()
	defer x.mu.Unlock()
	return x, x.err
}

func ptrace(request, pid int, addr, data uintptr) error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, uintptr(request), uintptr(pid), addr, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func (x *tracer) attach() error {
	seized := make(map[int]bool)
	for found := true; found; { // threads that are made meanwhile are listed by the next round, or traced already
		found = false
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", x.pid))
		if err != nil {
			return err
		}
		for _, e := range entries {
			tid, err := strconv.Atoi(e.Name())
			if err != nil {
				return err
			}
			if seized[tid] {
				continue
			}
			seized[tid], found = true, true
			err = ptrace(ptraceSeize, tid, 0, syscall.PTRACE_O_TRACESYSGOOD|syscall.PTRACE_O_TRACECLONE)
			if err == nil {
				err = ptrace(ptraceInterrupt, tid, 0, 0)
			}
			if err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) { // the thread is gone, or traced already
				return fmt.Errorf("trace thread %d: %w", tid, err)
			}
			if tid == x.pid && err != nil {
				return fmt.Errorf("trace process %d: %w", tid, err)
			}
		}
	}
	return nil
}

// follow lets the threads run from one system call to the next until the process is gone.
func (x *tracer) follow() {
	leaving := make(map[int]bool) // threads in the call after which the process is to be killed
	for {
		var status syscall.WaitStatus
		tid, err := syscall.Wait4(-x.pid, &status, waitAll|waitOwn, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil { // ECHILD: no thread is left
			return
		}
		if !status.Stopped() {
			continue
		}
		signal := status.StopSignal()
		deliver := uintptr(0)
		switch {
		case signal == syscall.SIGTRAP|0x80:
			x.atCall(tid, leaving)
		case status>>16 != 0 || signal == syscall.SIGTRAP: // it was made, or interrupted, or made another
		default:
			deliver = uintptr(signal)
		}
		_ = ptrace(syscall.PTRACE_SYSCALL, tid, 0, deliver) // a thread that was killed meanwhile is reported as gone
	}
}

func (x *tracer) atCall(tid int, leaving map[int]bool) {
	var info struct {
		op    uint8
		_     [3]byte
		arch  uint32
		ip    uint64
		sp    uint64
		entry struct {
			nr   uint64
			args [6]uint64
		}
	}
	if err := ptrace(ptraceGetSyscallInfo, tid, unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info))); err != nil {
		return // it is gone
	}
	if info.op == 2 { // the call is done
		if leaving[tid] {
			x.kill()
		}
		return
	}
	call, ok := x.fileCall(tid, info.entry.nr, info.entry.args)
	if !ok {
		return
	}
	x.mu.Lock()
	x.calls = append(x.calls, call)
	n := 0
	for _, c := range x.calls {
		if c == call {
			n++
		}
	}
	now := x.goal != nil && !x.hit && x.goal.call == call && x.goal.nth == n
	x.mu.Unlock()
	if now && x.goal.after {
		leaving[tid] = true
	} else if now {
		x.kill()
	}
}

func (x *tracer) kill() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hit = syscall.Kill(x.pid, syscall.SIGKILL) == nil || x.hit
}

func (x *tracer) recorded() (calls []fileCall, hit bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]fileCall(nil), x.calls...), x.hit
}

// variable is what differs between two runs in one part of a path: an id, the folder of a key, a
// number.
var variable = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}|^[0-9a-f]{2}$|[0-9]+`)

func (x *tracer) fileCall(tid int, nr uint64, args [6]uint64) (fileCall, bool) {
	kind, ok := fileCalls[nr]
	if !ok || kind.flags > 0 && args[kind.flags]&(syscall.O_CREAT|syscall.O_TRUNC) == 0 {
		return fileCall{}, false
	}
	var path string
	if kind.fd >= 0 {
		var err error
		if path, err = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(args[kind.fd]))); err != nil {
			return fileCall{}, false
		}
	} else {
		b := make([]byte, 4096)
		n, _ := syscall.PtracePeekData(tid, uintptr(args[kind.path]), b) // what is there up to the end of the memory
		path, _, _ = strings.Cut(string(b[:n]), "\x00")
	}
	rel, err := filepath.Rel(x.folder, path)
	if err != nil || strings.HasPrefix(rel, "..") || rel == path {
		return fileCall{}, false
	}
	parts := strings.Split(rel, "/")
	for i := range parts {
		parts[i] = variable.ReplaceAllString(parts[i], "N")
	}
	return fileCall{kind.name, strings.Join(parts, "/"), x.stack(tid)}, true
}

// stack follows the frame pointers and returns the innermost functions above package os.
func (x *tracer) stack(tid int) string {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return "?"
	}
	var names []string
	for frame, n := regs.Rbp, 0; frame != 0 && n < 40 && len(names) < 4; n++ {
		var words [16]byte
		if got, err := syscall.PtracePeekData(tid, uintptr(frame), words[:]); err != nil || got < len(words) {
			break
		}
		next, back := binary.LittleEndian.Uint64(words[:]), binary.LittleEndian.Uint64(words[8:])
		if f := x.code.PCToFunc(back); f != nil && !below.MatchString(f.Name) {
			name := f.Name[strings.LastIndex(f.Name, "/")+1:]
			if len(names) == 0 || names[len(names)-1] != name {
				names = append(names, name)
			}
		}
		if next <= frame {
			break
		}
		frame = next
	}
	return strings.Join(names, " < ")
}

// below are functions that every call of a file has.
var below = regexp.MustCompile(`^(syscall|os|io|bufio|internal/poll|internal/runtime|internal/syscall|runtime)\.|^internal/`)

// symbols reads the functions of a Go binary.
func symbols(bin string) (*gosym.Table, error) {
	f, err := elf.Open(bin)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := f.Section(".gopclntab")
	if lines == nil {
		return nil, errors.New("the binary has no table of functions")
	}
	all, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	start := uint64(0) // of Go's code; C code may come before it
	for _, s := range all {
		if s.Name == "runtime.text" {
			start = s.Value
		}
	}
	b, err := lines.Data()
	if err != nil {
		return nil, err
	}
	return gosym.NewTable(nil, gosym.NewLineTable(b, start))
}
