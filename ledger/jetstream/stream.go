package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream/groupsync"
	"nexus/ledger/jetstream/mark"
)

// The streams. The names and subjects never change, but for the number that a collection
// adds to those of the blobs; see [BlobsStream].
const (
	StreamName = "NEXUS_LEDGER"
	BlobsName  = "NEXUS_BLOBS"
	CopyName   = "NEXUS_BLOBS_COPY" // see [Config.CopyBlobs]

	metaFormat = "nexus-format"
	metaLedger = "nexus-ledger"
	format     = "1"
)

// Config says how the streams are kept.
type Config struct {
	Replicas int  // 1, 3 or 5; 0: 1 for a stream that is created, else as it is
	Create   bool // create what is missing; otherwise a missing stream is an error
	// Ledger is the UUID to give to a stream that is created. Without Create it
	// must be the one that the stream has; "" takes any. With Create a stream
	// that exists keeps its own: see [Log.Ledger].
	Ledger string
	// CopyBlobs keeps a second copy of the blobs, a mirror that the server fills, for a
	// repair. The log needs none: the projections have its records.
	CopyBlobs bool
	// BlobStream is the number of the stream that holds the blobs; see [BlobsStream]. Only
	// the first one, 0, is created.
	BlobStream uint64
	// Acked is called, if not nil, with each record or chunk that was acknowledged,
	// before the caller of Append or PutBlob gets its answer. It must not block.
	Acked func(log, blobs mark.Place)
	// Confirm says that the server is of others: the log may come back without records that
	// were acknowledged. Then nobody may be told of an append before the log was compared with what
	// this process knows; see [Log.Confirm].
	Confirm bool
	// Others returns, if not nil, the newest records that the other processes which use the log
	// know. It is asked when the log has another leader.
	Others func(context.Context) ([]mark.Place, error)
	// Lost is called, if not nil, once the log is known to have lost records. Appends are refused
	// by then.
	Lost func(*ShorterError)
	// GroupSync returns what syncs a stream's files, for a server that acknowledges
	// before its fsync. nil: the server does the fsync first.
	GroupSync func(stream string) (*groupsync.Stream, error)
}

// Log is the log on the stream NEXUS_LEDGER. Safe for concurrent use.
type Log struct {
	js        js.JetStream
	stream    js.Stream
	blobs     *Blobs
	id        string
	created   time.Time
	acked     func(log, blobs mark.Place)
	max       int64                 // bytes of a payload
	copies    int                   // servers that hold the log
	reached   atomic.Uint64         // the log had a record here; see [Log.Reached]
	agree     time.Duration         // how long a state that is too short is read again
	unsound   atomic.Pointer[error] // once set, appends are refused
	sync      *groupsync.Stream
	own       *own
	confirmer *confirmer            // nil: nobody but this process's server has the files
	paused    atomic.Pointer[error] // while set, appends are refused and no state is judged; see Pause
	send      func(ctx context.Context, subject string, expect uint64, payload []byte, hash string) (uint64, error)
}

// streamConfig is what the ledger's stream must be. Direct access is off: reads
// by key serve decisions and must be answered by the leader. What is zero is off: no
// limits, no TTL, no rollup, no schedules (which switch deny-purge off), no
// compression (its bugs are not worth the space, bodies are compressed). Message
// ids are not used, so the duplicate window is as short as it may be.
func streamConfig(c Config) js.StreamConfig {
	return js.StreamConfig{
		Name: StreamName, Subjects: []string{ledger.LogSubjects}, Storage: js.FileStorage, Retention: js.LimitsPolicy,
		MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1, Discard: js.DiscardNew,
		DenyDelete: true, DenyPurge: true, Replicas: c.Replicas, Duplicates: 100 * time.Millisecond,
		Metadata: map[string]string{metaFormat: format, metaLedger: c.Ledger},
	}
}

// blobsConfig is streamConfig for the blobs. A compare-and-set that expects an
// empty subject writes each chunk once, so the stream needs no limit for each
// subject, and no limit can drop a chunk.
func blobsConfig(c Config) js.StreamConfig {
	s := streamConfig(c)
	s.Name, s.Subjects = BlobsStream(c.BlobStream), []string{blobPrefix(c.BlobStream) + ">"}
	return s
}

// copyConfig is the mirror of the blobs. Nobody writes or reads it but the server and
// a repair.
func copyConfig(number uint64) js.StreamConfig {
	return js.StreamConfig{
		Name: CopyStream(number), Storage: js.FileStorage, Retention: js.LimitsPolicy, MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1,
		MaxMsgsPerSubject: -1, MaxMsgSize: -1, Discard: js.DiscardNew, DenyDelete: true, DenyPurge: true, Replicas: 1,
		Mirror: &js.StreamSource{Name: BlobsStream(number)},
	}
}

// Open opens the streams, or creates them where c allows it, and compares their
// configuration, as the server has it, field by field with what it must be.
// Errors: [ledger.ErrNotFound] for a stream that is missing,
// [ledger.ErrCorrupt] for one that is configured otherwise,
// [*ReplicasError] for one with another number of copies, [ledger.ErrUnavailable].
// A log from which records are missing opens, so that it can be read and
// repaired, but takes no appends.
func Open(ctx context.Context, j js.JetStream, c Config) (*Log, error) {
	switch c.Replicas {
	case 0, 1, 3, 5:
	default: // two replicas lose their quorum with either of them
		return nil, fmt.Errorf("%w: %d replicas: 1, 3 or 5 can hold a ledger", ledger.ErrMalformed, c.Replicas)
	}
	if c.Create && c.Ledger == "" {
		return nil, fmt.Errorf("%w: a stream that may be created needs the ledger's UUID", ledger.ErrMalformed)
	}
	stream, err := openStream(ctx, j, streamConfig(c), c)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	l := &Log{js: j, stream: stream, id: info.Config.Metadata[metaLedger], created: info.Created, max: j.Conn().MaxPayload() - headerRoom,
		copies: info.Config.Replicas, agree: agreePatience, own: newOwn()}
	l.send = l.publish
	if l.acked = c.Acked; l.acked == nil {
		l.acked = func(_, _ mark.Place) {}
	}
	if c.Confirm {
		l.confirmer = newConfirmer(l, c)
	}
	if c.GroupSync != nil {
		if l.sync, err = c.GroupSync(StreamName); err != nil {
			return nil, err
		}
	}
	c.Ledger = l.id // the two streams belong together, whoever created the first
	ofBlobs := c
	ofBlobs.Create = c.Create && c.BlobStream == 0
	blobs, err := openStream(ctx, j, blobsConfig(c), ofBlobs)
	if err != nil {
		return nil, err
	}
	if id := blobs.CachedInfo().Config.Metadata[metaLedger]; id != l.id {
		return nil, fmt.Errorf("%w: stream %s belongs to ledger %s, stream %s to %s", ledger.ErrCorrupt, BlobsStream(c.BlobStream), id, StreamName, l.id)
	}
	l.blobs = &Blobs{js: j, cfg: c, acked: l.acked, paused: &l.paused, era: l.own.now, chunk: min(chunkSize, int(l.max)), holds: holds{now: time.Now}}
	current := &blobStream{number: c.BlobStream, stream: blobs}
	if c.GroupSync != nil {
		if current.sync, err = c.GroupSync(BlobsStream(c.BlobStream)); err != nil {
			return nil, err
		}
	}
	l.blobs.current.Store(current)
	if c.CopyBlobs {
		if _, err := j.CreateStream(ctx, copyConfig(c.BlobStream)); err != nil { // it may exist, in this very form
			return nil, fmt.Errorf("%w: stream %s: %w", ledger.ErrUnavailable, CopyStream(c.BlobStream), err)
		}
	}
	_, err = l.State(ctx) // notes it if the log is unsound
	return l, err
}

// Ledger is the UUID of the ledger that the stream belongs to.
func (l *Log) Ledger() string { return l.id }

// LedgerOf returns the UUID of the ledger that a stream's configuration names, as the
// server stores it.
func LedgerOf(config []byte) (string, error) {
	var c struct {
		Metadata map[string]string `json:"metadata"`
	}
	err := json.Unmarshal(config, &c)
	return c.Metadata[metaLedger], err
}

// Refuse stops appends for good, because of err.
func (l *Log) Refuse(err error) { l.unsound.CompareAndSwap(nil, &err) }

// Pause refuses appends because of err, until [Log.Resume]. It says that what the server
// shows may not be on the disk: a write that has begun is never acknowledged, not after
// Resume either, no blob counts as stored, and no state is taken for the log's. It never blocks.
func (l *Log) Pause(err error) {
	l.paused.CompareAndSwap(nil, &err)
	l.own.clear() // after: who reads the era from now on is refused
}

// Resume ends what [Log.Pause] began. The caller has looked at the streams, perhaps once
// more without another Pause: what was appended before may be gone.
func (l *Log) Resume() {
	l.own.clear()
	l.paused.Store(nil)
}

// refused returns why appends are refused, nil if they are not.
func (l *Log) refused() error {
	for _, p := range []*error{l.unsound.Load(), l.paused.Load()} {
		if p != nil {
			return *p
		}
	}
	return nil
}

// Blobs is the blobs beside the log.
func (l *Log) Blobs() *Blobs { return l.blobs }

// ReplicasError says that a stream has another number of copies than
// [Config.Replicas]. Unwrap gives [ledger.ErrMalformed].
type ReplicasError struct {
	Stream     string
	Want, Have int
}

func (e *ReplicasError) Error() string {
	return fmt.Sprintf("stream %s has %d replicas, %d are configured", e.Stream, e.Have, e.Want)
}

// Unwrap gives ErrMalformed.
func (e *ReplicasError) Unwrap() error { return ledger.ErrMalformed }

// Probe uses each permission that l needs, so that the connection's error handler
// hears of one that is missing: a server does not answer what it does not permit.
// It stores nothing: what it publishes expects a tail that no chain ever has.
func (l *Log) Probe(ctx context.Context) {
	for _, subject := range []string{"nexus.log.00.probe.s.PROBE", "nexus.blobs.probe.PROBE.0"} {
		_, _ = publish(ctx, l.js, &nats.Msg{Subject: subject, Header: nats.Header{expectHeader: {strconv.Itoa(math.MaxInt64)}}})
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := l.js.OrderedConsumer(ctx, StreamName, js.OrderedConsumerConfig{DeliverPolicy: js.DeliverNewPolicy, InactiveThreshold: inactive})
	if err == nil && c.CachedInfo() != nil {
		_ = l.js.DeleteConsumer(ctx, StreamName, c.CachedInfo().Name)
	}
}

func openStream(ctx context.Context, j js.JetStream, want js.StreamConfig, c Config) (js.Stream, error) {
	s, err := j.Stream(ctx, want.Name)
	if errors.Is(err, js.ErrStreamNotFound) {
		if !c.Create {
			return nil, fmt.Errorf("%w: stream %s is missing; it is not created anew in place of one that should be there", ledger.ErrNotFound, want.Name)
		}
		want.Replicas = max(want.Replicas, 1)
		s, err = j.CreateStream(ctx, want)
		if errors.Is(err, js.ErrStreamNameAlreadyInUse) { // another daemon was first
			s, err = j.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: stream %s: %w", ledger.ErrUnavailable, want.Name, err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: stream %s: %w", ledger.ErrUnavailable, want.Name, err)
	}
	if id := info.Config.Metadata[metaLedger]; c.Create || c.Ledger == "" {
		want.Metadata[metaLedger] = id
	}
	if c.Replicas == 0 {
		want.Replicas = info.Config.Replicas
	}
	if want.Replicas != info.Config.Replicas {
		return nil, &ReplicasError{Stream: want.Name, Want: want.Replicas, Have: info.Config.Replicas}
	}
	if diff := drift(want, info.Config); len(diff) > 0 {
		return nil, fmt.Errorf("%w: stream %s is not configured as a ledger: %s", ledger.ErrCorrupt, want.Name, strings.Join(diff, "; "))
	}
	return s, nil
}

// agreePatience is how long a cluster may show a log that is too short. A leader that
// lost its followers steps down within 20 s (two of the server's intervals of 10 s), an
// election takes up to 9 s more.
const agreePatience = 30 * time.Second

// Reached says that the log had a record at seq, as the projections know at a start.
// What is appended, read and listed here counts by itself.
func (l *Log) Reached(seq uint64) {
	for old := l.reached.Load(); old < seq && !l.reached.CompareAndSwap(old, seq); old = l.reached.Load() {
	}
}

// State implements [ledger.Log]. The identity is the ledger's UUID and the time at
// which the stream was created: a stream that is created again under the same
// UUID has another identity. After a state that is not sound, l takes no appends.
//
// In a cluster a leader that was deposed, one that has not applied its log yet, and a
// member of a group without a leader answer too, with a shorter log. So State reads a
// log that ends before [Log.Reached] again, for up to 30 s, before it returns it.
func (l *Log) State(ctx context.Context) (ledger.State, error) {
	st, _, err := l.state(ctx)
	return st, err
}

// state returns State and the size of the log in bytes.
func (l *Log) state(ctx context.Context) (ledger.State, uint64, error) {
	least := l.reached.Load() // before the request: an append may be acknowledged before the answer is here
	st, size, err := l.readState(ctx)
	if err != nil || st.Last >= least || l.copies == 1 || !st.Created.Equal(l.created) {
		l.Reached(st.Last)
		return st, size, err
	}
	limited, cancel := context.WithTimeout(ctx, l.agree)
	defer cancel()
	for pause := newPause(100*time.Millisecond, 2*time.Second); pause.wait(limited); {
		if again, n, err := l.readState(limited); err == nil {
			if st, size = again, n; st.Last >= least {
				return st, size, nil
			}
		}
	}
	if ctx.Err() != nil {
		return ledger.State{}, 0, fmt.Errorf("state of the log: %w: it ends at %d, and had a record %d: %w", ledger.ErrUnavailable, st.Last, least, ctx.Err())
	}
	if l.confirmer != nil {
		_ = l.confirmer.lose(&ShorterError{Place: mark.Place{Seq: least}, Why: fmt.Sprintf("it ends at %d, and had a record %d", st.Last, least)})
	}
	l.Refuse(fmt.Errorf("%w: the log ends at %d, and had a record %d", ledger.ErrCorrupt, st.Last, least))
	return st, size, nil
}

// readState asks once.
func (l *Log) readState(ctx context.Context) (ledger.State, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := l.stream.Info(ctx)
	if paused := l.paused.Load(); paused != nil && err == nil {
		err = *paused
	}
	if err != nil {
		return ledger.State{}, 0, fmt.Errorf("state of the log: %w", readError(err))
	}
	st := ledger.State{
		Identity: info.Config.Metadata[metaLedger] + "/" + strconv.FormatInt(info.Created.UnixNano(), 36),
		Created:  info.Created, First: info.State.FirstSeq, Last: info.State.LastSeq, Count: info.State.Msgs,
	}
	if st.Last == 0 {
		st.First = 1
	}
	err = st.Sound()
	switch {
	case err != nil:
	case info.State.NumDeleted > 0:
		err = fmt.Errorf("%w: %d records were deleted", ledger.ErrCorrupt, info.State.NumDeleted)
	case !st.Created.Equal(l.created):
		err = fmt.Errorf("%w: the stream was created anew at %v", ledger.ErrCorrupt, st.Created)
	}
	if err != nil {
		l.unsound.CompareAndSwap(nil, &err)
	}
	return st, info.State.Bytes, nil
}
