package outage

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

// Outage is the time in which the disk takes no writes. Writes of the daemon may have
// failed (then what is open must be opened again) or may hang (then they may still
// succeed). Meanwhile changes are refused, reads come from the projections, and nothing
// is acknowledged. Decision 19 has the states. Safe for concurrent use; no method blocks.
type Outage struct {
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

// New returns that there is none.
func New(logger *slog.Logger) *Outage {
	o := &Outage{logger: logger, began: make(chan struct{}, 1)}
	o.sound, o.cancel = context.WithCancelCause(context.Background())
	return o
}

// pausable is a log that acknowledges nothing while it is paused. It is paused in an outage,
// but for the steps of reopen that read it.
type pausable interface {
	Pause(error)
	Resume()
}

// Began yields when an outage begins, and when another write fails in one.
func (o *Outage) Began() <-chan struct{} { return o.began }

// Pauses makes every outage pause a log, also one that began before.
func (o *Outage) Pauses(log pausable) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log = log; o.why != nil {
		log.Pause(o.why)
	}
}

// Fail notes that a write failed.
func (o *Outage) Fail(err error) { o.begin(err, true) }

// Stall notes that a write hangs.
func (o *Outage) Stall(err error) { o.begin(err, false) }

func (o *Outage) begin(err error, failed bool) {
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

// Halt notes that the log has lost records: an outage that does not end. The log itself
// refuses appends by then, and is read to find what is lost.
func (o *Outage) Halt(loss *folder.LossError) {
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

// problems are what verify says of a loss.
func problems(l *folder.Loss) (out []reader.Problem) {
	for _, r := range l.Records {
		out = append(out, reader.Problem{Tenant: r.Tenant, Problem: api.Problem{Code: api.Corrupt, Session: r.Session, Event: r.Event, Seq: api.Uint(r.Seq), Message: r.String()}})
	}
	if len(out) == 0 {
		out = append(out, reader.Problem{Problem: api.Problem{Code: api.Corrupt, Message: (&folder.LossError{Loss: l}).Error()}})
	}
	return out
}

// Halted returns what the log has lost; nil: nothing.
func (o *Outage) Halted() *folder.LossError {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// End notes that everything is open and takes writes. It reports false, and changes
// nothing, if a write failed since there were that many failures.
func (o *Outage) End(failures uint64) bool {
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

// State returns whether a write failed in this outage, and how many did since the start.
func (o *Outage) State() (failed bool, failures uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed, o.failures
}

// Reason returns what began the outage, for the log.
func (o *Outage) Reason() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Active returns why the disk takes no writes, nil if it does.
func (o *Outage) Active() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why
}

// CloseReads refuses reads until the outage ends.
func (o *Outage) CloseReads(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = why
}

// Access is what requests may do now.
func (o *Outage) Access() (a reader.Access) {
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

// During returns a context that ends with the outage that begins before ctx ends; its
// error if there is one already. The caller calls stop.
func (o *Outage) During(ctx context.Context) (_ context.Context, stop func(), err error) {
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
func (o *Outage) now() (sound context.Context, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sound, o.why
}

// writing counts a write that runs. The caller calls the result when it has ended.
func (o *Outage) writing() func() {
	if o.writes.Add(1) == 1 {
		o.settled.Store(time.Now().UnixNano())
	}
	return func() {
		o.settled.Store(time.Now().UnixNano())
		o.writes.Add(-1)
	}
}

// Hangs reports whether writes run and none has ended for d.
func (o *Outage) Hangs(d time.Duration) bool {
	return o.writes.Load() > 0 && time.Since(time.Unix(0, o.settled.Load())) > d
}

// Register makes the metric.
func (o *Outage) Register(registry *prometheus.Registry) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nexus_disk_failed", Help: "1 while the disk takes no writes: appends are refused, reads go on and may be stale.",
	}, func() float64 {
		if o.Active() != nil {
			return 1
		}
		return 0
	}))
}

// diskErrors are what a disk answers that is full, fails, or was made read-only.
var diskErrors = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.ESHUTDOWN, errDamagedFilesystem}

// IsDiskError reports whether a disk that takes no writes is why err came.
func IsDiskError(err error) bool {
	for _, errno := range diskErrors {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
