package localserver

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"nexus/ledger/jetstream/embed"
)

// giveWay is how long a child may take to end, after what asks it to: its requests in work end first.
const giveWay = 30 * time.Second

// TakeOver asks the child that serves a folder to end, and returns when the folder is free. It reports whether there was
// one: a folder that nexusd serves, or nobody, it leaves alone.
func TakeOver(ctx context.Context, data string) (bool, error) {
	s, err := Find(data)
	if err != nil || !s.Child {
		return false, nil
	}
	for deadline := time.Now().Add(giveWay); ; {
		lock, err := embed.Lock(data)
		if err == nil {
			return true, lock.Close()
		}
		if !errors.Is(err, embed.ErrLocked) {
			return false, err
		}
		now, err := Find(data)
		if err == nil && (now.PID != s.PID || !now.Began.Equal(s.Began)) {
			return true, nil // another process was faster; the caller meets it at the lock
		}
		if time.Now().After(deadline) {
			return true, fmt.Errorf("process %d serves %s, and did not end in %.0f s", s.PID, data, giveWay.Seconds())
		}
		// The lock is held and the file names the process: it is not some other one of that number. One that ends
		// removes the file first.
		if err == nil {
			_ = syscall.Kill(s.PID, syscall.SIGTERM)
		}
		select {
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
