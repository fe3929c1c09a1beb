package localserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"nexus/ledger/jetstream/embed"
)

// giveWay is how long the process that has a folder may take to end, after what asks it to: its requests in work end first.
const giveWay = 30 * time.Second

// TakeOver asks the child that serves a folder to end, and returns true when the folder is free, or another child has it.
// A process that has the folder and does not serve it yet, or no more, is waited for. False: a nexusd serves it, and is left
// alone. Error: the process did not end in [giveWay].
func TakeOver(ctx context.Context, data string) (bool, error) {
	var asked Serving // the child that was asked to end
	for deadline := time.Now().Add(giveWay); ; {
		lock, err := embed.Lock(data)
		if err == nil {
			return true, lock.Close()
		}
		if !errors.Is(err, embed.ErrLocked) {
			return false, err
		}
		// The file may be of a process that was killed, and its number another's: the lock names the one that has it.
		holder := embed.Holder(data)
		s, err := Find(data)
		switch serves := err == nil && s.PID == holder; {
		case serves && !s.Child:
			return false, nil
		case serves && asked.PID != 0 && (s.PID != asked.PID || !s.Began.Equal(asked.Began)):
			return true, nil // another process was faster; the caller meets it at the lock
		case time.Now().After(deadline):
			return true, fmt.Errorf("process %d has %s, and did not end in %.0f s", holder, data, giveWay.Seconds())
		case serves:
			asked = s
			_ = syscall.Kill(s.PID, syscall.SIGTERM) // again and again: one that starts may not listen yet
		}
		select {
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Claim says that the caller waits for a folder which another process has: until the claim is closed, or the process ends,
// no child begins to serve it ([Claimed]). Without it the commands whose child ends would start the next one first. Several
// may claim a folder; the lock decides between them.
func Claim(data string) (io.Closer, error) {
	f, err := os.Open(data)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil { // Claimed holds it for an instant at most
		return nil, errors.Join(fmt.Errorf("lock %s: %w", data, err), f.Close())
	}
	return f, nil
}

// Claimed reports whether a process waits for the folder.
func Claimed(data string) bool {
	f, err := os.Open(data)
	if err != nil {
		return false // it is not there yet
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
