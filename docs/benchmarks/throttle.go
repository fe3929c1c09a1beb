package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// slowFsync is what nine of ten fsyncs take at least on a slow disk. The median would take
// a disk for slow on which others work at the moment.
const slowFsync = 2 * time.Millisecond

// layered is a file system in a file of a file system, several times: each layer turns a
// fsync into several writes and fsyncs of the layer below.
type layered struct {
	dir    string // in the topmost one
	layers int
	undo   [][]string // commands, the last first
}

// slowDisk makes file systems in files, one in the other, until a fsync is slow enough.
// It is a real latency of every fsync. The kernel's throttle of writes (io.max of a control group) is not: it lets
// a tenth of a second's worth of writes pass at once and then none, so that the median fsync is as fast as without.
func slowDisk(ctx context.Context, r *run) (_ *layered, err error) {
	for _, tool := range []string{"losetup", "mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, skipped(tool + " is not installed")
		}
	}
	if os.Getuid() != 0 {
		return nil, skipped("only root may mount file systems")
	}
	d := &layered{dir: r.dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	const most = 8
	for size := int64(24 << 30); d.layers < most; size -= 2 << 30 { // sparse: it takes what is written
		took, err := bareFsync(d.dir, 0.1)
		if err != nil {
			return nil, err
		}
		r.say("nine of ten bare fsyncs take %v or more in %d nested file systems", took.Round(10*time.Microsecond), d.layers)
		if took >= slowFsync {
			return d, nil
		}
		if err := d.add(ctx, size); err != nil {
			return nil, err
		}
	}
	return nil, skipped(fmt.Sprintf("many fsyncs are faster than %v even in %d nested file systems", slowFsync, most))
}

// add makes one more file system, in a file of the one before.
func (d *layered) add(ctx context.Context, size int64) error {
	file, dir := filepath.Join(d.dir, "disk"), filepath.Join(d.dir, "mounted")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close(), os.Mkdir(dir, 0o711)); err != nil {
		return err
	}
	loop, err := output(ctx, "losetup", "--find", "--show", file)
	if err != nil {
		return skipped(fmt.Sprintf("no loop device: %v", err))
	}
	d.undo = append(d.undo, []string{"losetup", "--detach", loop})
	if _, err := output(ctx, "mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", loop); err != nil {
		return err
	}
	if _, err := output(ctx, "mount", loop, dir); err != nil {
		return skipped(fmt.Sprintf("no mount: %v", err))
	}
	d.undo = append(d.undo, []string{"umount", dir})
	d.dir, d.layers = dir, d.layers+1
	return os.Chmod(dir, 0o711)
}

func (d *layered) close() (err error) {
	for _, c := range slices.Backward(d.undo) {
		_, e := output(context.Background(), c[0], c[1:]...)
		err = errors.Join(err, e)
	}
	d.undo = nil
	return err
}

// output runs a command and returns its output. Warnings are no part of it.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var errs tail
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, &errs)
	}
	return strings.TrimSpace(string(out)), nil
}

// bareFsync is a quantile of the time of a write of 4 KiB behind a file's end, and its fsync.
func bareFsync(dir string, share float64) (_ time.Duration, err error) {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	var took []time.Duration
	for range 128 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return at(took, share), nil
}
