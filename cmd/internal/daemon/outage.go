package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
)

// outage is the time in which the disk takes no writes. Writes of the daemon may have
// failed (then what is open must be opened again) or may hang (then they may still
// succeed). Meanwhile changes are refused, reads come from the projections, and nothing
// is acknowledged. Decision 19 has the states. Safe for concurrent use; no method blocks.
type outage struct {
	logger *slog.Logger
	log    pausable // nil until it is open
	began  chan struct{}

	mu       sync.Mutex
	why      error             // why the disk takes no writes, without names of files; nil: it does
	err      error             // what began it
	failed   bool              // a write failed
	failures uint64            // that were reported since the daemon began
	closed   error             // why reads are refused, too; nil: they are not
	lost     *folder.LossError // the log has lost records; nil: it has not. Then no outage ends
	problems []reader.Problem  // what verify says of it
	since    time.Time         // when it began
	sound    context.Context
	cancel   context.CancelCauseFunc // of sound

	writes  atomic.Int64 // that run
	settled atomic.Int64 // when the last one ended, or the first one began; Unix nanoseconds
}

func newOutage(logger *slog.Logger) *outage {
	o := &outage{logger: logger, began: make(chan struct{}, 1)}
	o.sound, o.cancel = context.WithCancelCause(context.Background())
	return o
}

// pausable is a log that acknowledges nothing while it is paused. It is paused in an outage,
// but for the steps of reopen that read it.
type pausable interface {
	Pause(error)
	Resume()
}

// pauses makes every outage pause a log, also one that began before.
func (o *outage) pauses(log pausable) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log = log; o.why != nil {
		log.Pause(o.why)
	}
}

// fail notes that a write failed.
func (o *outage) fail(err error) { o.begin(err, true) }

// stall notes that a write hangs.
func (o *outage) stall(err error) { o.begin(err, false) }

func (o *outage) begin(err error, failed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if failed {
		o.failed = true
		o.failures++
	}
	if o.why == nil {
		o.why, o.since = fmt.Errorf("%w: the disk takes no writes: %s", ledger.ErrUnavailable, cause(err)), time.Now()
		o.err = err
	}
	if o.log != nil {
		o.log.Pause(o.why)
	}
	o.cancel(o.why)
	select {
	case o.began <- struct{}{}:
	default:
	}
}

// halt notes that the log has lost records: an outage that does not end. The log itself
// refuses appends by then, and is read to find what is lost.
func (o *outage) halt(loss *folder.LossError) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == nil {
		o.since = time.Now()
	}
	o.lost, o.why, o.err, o.problems = loss, loss, loss, problems(loss.Loss)
	o.cancel(o.why)
	select {
	case o.began <- struct{}{}:
	default:
	}
}

// halted returns what the log has lost; nil: nothing.
func (o *outage) halted() *folder.LossError {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// end notes that everything is open and takes writes. It reports false, and changes
// nothing, if a write failed since there were that many failures.
func (o *outage) end(failures uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failures != failures || o.lost != nil {
		return false
	}
	if o.log != nil {
		o.log.Resume()
	}
	o.logger.Error("the disk takes writes again: appends are accepted", "after", time.Since(o.since).Round(time.Millisecond))
	o.why, o.closed, o.failed = nil, nil, false
	o.sound, o.cancel = context.WithCancelCause(context.Background())
	return true
}

// state returns whether a write failed in this outage, and how many did since the start.
func (o *outage) state() (failed bool, failures uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed, o.failures
}

// reason returns what began the outage, for the log.
func (o *outage) reason() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// active returns why the disk takes no writes, nil if it does.
func (o *outage) active() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why
}

// closeReads refuses reads until the outage ends.
func (o *outage) closeReads(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = why
}

// access is what requests may do now.
func (o *outage) access() (a reader.Access) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == nil {
		return a
	}
	if o.lost != nil {
		a.Writes = api.Errorf(api.Corrupt, map[string]any{"reason": "lost"}, "%v: nothing is stored until the operator has decided; reads go on", o.lost)
		a.Lost = o.problems
		return a
	}
	details := map[string]any{"reason": "disk"}
	a.Writes = api.Errorf(api.Unavailable, details, "the daemon's disk takes no writes (%s): reads go on, and changes are accepted when it takes them again", cause(o.err))
	if o.closed != nil {
		a.Reads = api.Errorf(api.Unavailable, details, "%v", o.closed)
	}
	return a
}

// cause returns the part of a disk's error that names no file.
func cause(err error) string {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno.Error()
	}
	text := err.Error() // the server reports in text only
	return strings.TrimSpace(text[strings.LastIndex(text, ": ")+1:])
}

// during returns a context that ends with the outage that begins before ctx ends; its
// error if there is one already. The caller calls stop.
func (o *outage) during(ctx context.Context) (_ context.Context, stop func(), err error) {
	sound, why := o.now()
	if why != nil {
		return ctx, func() {}, why
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unwatch := context.AfterFunc(sound, func() { cancel(context.Cause(sound)) })
	return ctx, func() { unwatch(); cancel(nil) }, nil
}

// now returns a context that ends when the next outage begins, and why the disk takes no
// writes, nil if it does.
func (o *outage) now() (sound context.Context, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sound, o.why
}

// writing counts a write that runs. The caller calls the result when it has ended.
func (o *outage) writing() func() {
	if o.writes.Add(1) == 1 {
		o.settled.Store(time.Now().UnixNano())
	}
	return func() {
		o.settled.Store(time.Now().UnixNano())
		o.writes.Add(-1)
	}
}

// hangs reports whether writes run and none has ended for d.
func (o *outage) hangs(d time.Duration) bool {
	return o.writes.Load() > 0 && time.Since(time.Unix(0, o.settled.Load())) > d
}

// register makes the metric.
func (o *outage) register(registry *prometheus.Registry) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nexus_disk_failed", Help: "1 while the disk takes no writes: appends are refused, reads go on and may be stale.",
	}, func() float64 {
		if o.active() != nil {
			return 1
		}
		return 0
	}))
}

// diskErrors are what a disk answers that is full, fails, or was made read-only.
var diskErrors = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.ESHUTDOWN, errDamagedFilesystem}

// isDiskError reports whether a disk that takes no writes is why err came.
func isDiskError(err error) bool {
	for _, errno := range diskErrors {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
