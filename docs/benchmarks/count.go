package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cpuTime is the nanoseconds of CPU, user and system, that processes have used. It
// reads the clocks that the kernel keeps for them, which say what getrusage says. One
// that has ended, as PostgreSQL's vacuum does, counts nothing.
func cpuTime(pids []int) (n int64, err error) {
	for _, pid := range pids {
		var ts unix.Timespec
		// The number of a process's CPU clock, as clock_getcpuclockid makes it.
		if err := unix.ClockGettime(int32(^pid<<3|2), &ts); errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH) {
			continue
		} else if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		n += ts.Nano()
	}
	return n, nil
}

// fsyncCounter counts the calls of fsync and fdatasync of processes, by the kernel's tracepoints.
type fsyncCounter struct{ fds []int }

// countFsyncs begins to count. Where this user may not, or the kernel can't, the
// counter says -1 for all.
func countFsyncs(pids []int) (*fsyncCounter, error) {
	c := new(fsyncCounter)
	for _, call := range []string{"sys_enter_fsync", "sys_enter_fdatasync"} {
		id, ok := tracepoint(call)
		if !ok {
			c.close()
			return new(fsyncCounter), nil
		}
		for _, pid := range pids {
			if err := c.add(id, pid); err != nil {
				c.close()
				if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOENT) {
					return new(fsyncCounter), nil
				}
				return nil, fmt.Errorf("count the fsyncs of process %d: %w", pid, err)
			}
		}
	}
	return c, nil
}

// add counts a tracepoint in all threads of a process. Threads that start later inherit
// the counter; the folder is read until it names no thread that is not counted.
func (c *fsyncCounter) add(id uint64, pid int) error {
	counted := make(map[int]bool)
	for more := true; more; {
		more = false
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || counted[tid] {
				continue
			}
			counted[tid], more = true, true
			fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id,
				Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitInherit}, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
			if errors.Is(err, unix.ESRCH) { // it has ended
				continue
			}
			if err != nil {
				return err
			}
			c.fds = append(c.fds, fd)
		}
	}
	return nil
}

// read returns the calls since the counter began; -1: they are not counted.
func (c *fsyncCounter) read() (float64, error) {
	if len(c.fds) == 0 {
		return -1, nil
	}
	var n uint64
	for _, fd := range c.fds {
		var b [8]byte
		if _, err := unix.Read(fd, b[:]); err != nil {
			return 0, fmt.Errorf("read a counter of fsyncs: %w", err)
		}
		n += *(*uint64)(unsafe.Pointer(&b))
	}
	return float64(n), nil
}

func (c *fsyncCounter) close() {
	for _, fd := range c.fds {
		_ = unix.Close(fd) // a counter, with nothing to lose
	}
	c.fds = nil
}

// tracepoint is the number of a system call's tracepoint. The file system that says
// it has to be mounted, as it is by default where debugfs is.
func tracepoint(call string) (id uint64, ok bool) {
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		b, err := os.ReadFile(filepath.Join(dir, "events/syscalls", call, "id"))
		if err != nil {
			continue
		}
		if id, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil {
			return id, true
		}
	}
	return 0, false
}

// diskOf returns the bytes that the files below folders hold on the disk: no holes, and no
// blocks that are only set aside behind a file's end.
func diskOf(dirs ...string) (n int64, err error) {
	_, n, err = allotted(dirs...)
	return n, err
}

// allotted returns the bytes of all blocks that the files below folders have, and those that they hold.
func allotted(dirs ...string) (blocks, held int64, err error) {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return ignoreGone(err)
			}
			info, err := d.Info()
			if err != nil {
				return ignoreGone(err)
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				blocks += st.Blocks * 512
				held += min(st.Blocks*512, info.Size())
			}
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return blocks, held, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
