package transcripts

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"nexus/cmd/internal/repository"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"
)

// transcriptSource is a file and how it is read.
type transcriptSource struct {
	name   string
	final  bool
	copied bool // read the copied history of a fork, since the ledger lacks its parent
	grown  bool // import an export of this ledger as any transcript, since it has more in it
}

// Importer imports files. The zero Format is that of auto. Not safe for concurrent use.
type Importer struct {
	Client *client.Client
	Stdin  io.Reader     // read for the name -
	Format string        // a name of [transcriptfile.FormatNames]
	Final  bool          // files will not grow
	Settle time.Duration // after so long without a write, a file will not grow either; 0: any may
	Window uint64        // context window of the sessions that it opens, in tokens; 0: the default
	Read   func(int)     // called with the number of bytes that were read; nil: not called
	// Refresh makes successors of sessions that read differently now: see refresh.go.
	Refresh bool
	// Unit is the id of the import, which stands in the meta of the sessions that it opens; zero: none.
	Unit turns.ID
	// Projects finds the repositories of folders; nil: it asks git for each session.
	Projects *repository.Cache

	acked  string             // the position of the newest turn that it stored; "": none
	stop   context.CancelFunc // of Files
	slots  chan struct{}      // of Files; see [lanes]
	splits splitTurns
	placed placement
	// Of the file that is read.
	clock    clock
	lines    map[turns.ID]*line // by the source's session
	byID     map[turns.ID]*line // by the session of the ledger
	renamed  map[turns.ID]turns.ID
	renewing map[turns.ID]*renewal // by the source's session
	lacking  []turns.ID            // sessions that hold what the file lacks, and get no successor
	older    map[turns.ID]turns.ID // by session: that of an older copy, which takes what the session lacks
	into     map[turns.ID]turns.ID // by session that a file copied from: that which takes the copy; see noteShortCopy
	joined   map[turns.ID]*joined  // by session of the ledger: those that may begin with turns of others
}

// File imports one file. It reads a fork of a session that the ledger lacks again, with
// the history that the fork copied, and an export of this ledger that another program
// continued as any transcript.
func (im *Importer) File(ctx context.Context, name string) (*Report, error) {
	return im.file(ctx, name, false)
}

// file is File. With waits it returns [ErrNoParent] for a fork of a session that the ledger
// lacks: another file may bring that.
func (im *Importer) file(ctx context.Context, name string, waits bool) (*Report, error) {
	im.into = nil
	how := transcriptSource{name: name, final: im.Final || im.IsSettled(name)}
	r, err := im.once(ctx, how)
	for superseded := false; !transcriptfile.IsStream(name); {
		switch {
		case errors.Is(err, ErrNoParent) && !how.copied && !waits:
			how.copied = true
		case errors.Is(err, ErrGrown) && !how.grown:
			how.grown = true
		case errors.Is(err, ErrSuperseded) && !superseded:
			superseded = true
		default:
			return r, err
		}
		before := r
		if r, err = im.once(ctx, how); r != nil && before != nil {
			r.Stored, r.Existing = r.Stored+before.Stored, r.Existing-min(r.Existing, before.Stored)
		}
	}
	return r, err
}

// SettleTime is how long a file that will not grow has been left alone. An agent that
// waits for its model or for a tool writes sooner.
const SettleTime = time.Hour

// IsSettled reports whether nobody has written to a file for a while.
func (im *Importer) IsSettled(name string) bool {
	st, err := os.Stat(name)
	return im.Settle > 0 && err == nil && st.Mode().IsRegular() && time.Since(st.ModTime()) > im.Settle
}

func (im *Importer) once(ctx context.Context, how transcriptSource) (*Report, error) {
	in, err := transcriptfile.OpenContext(ctx, how.name, im.Stdin, im.Format, im.Read)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r := &Report{File: how.name, Format: in.Format.Name, Sessions: []turns.ID{}, Losses: []transcript.Loss{}}
	if in.Format.Open == nil {
		return r, ImportExport(ctx, im.Client, in.Reader, r)
	}
	im.clock, im.lines, im.byID, im.renamed, im.renewing, im.older, im.joined = nil, nil, nil, nil, nil, nil, nil
	var current []*api.Session
	if refresh := im.Refresh && !transcriptfile.IsStream(how.name); refresh {
		if current, err = im.findChanged(ctx, how, r.Format); err != nil {
			return r, err
		}
	}
	if err := im.steps(ctx, in.Format.Open(in, transcriptfile.ReadOptions(how.name, in.Format.Name, transcript.Options{Final: how.final, Copied: how.copied})), how.grown || transcriptfile.IsStream(how.name), how.copied, r); err != nil {
		return r, err
	}
	return r, im.renew(ctx, r, current)
}

// ErrNoParent: the session that a transcript was forked from is not in the ledger.
var ErrNoParent = errors.New("the session that it was forked from is not in the ledger")

// ErrGrown: an export of ours holds what is not in the ledger.
var ErrGrown = errors.New("an export of this ledger, with more in it")

// steps does the steps of a transcript in order. Those before an error stay; doing them
// again stores nothing. all says to store an export of this ledger too, which otherwise is
// not stored a second time; copied, that the transcript has what it copied of other sessions.
func (im *Importer) steps(ctx context.Context, r *transcript.Reader, all, copied bool, rep *Report) error {
	in := Intake{Importer: im, Report: rep, All: all}
	graced, done := withGrace(ctx)
	defer done()
	if f, _ := formats.Find(rep.Format); f.RelatedByID && !all && !copied && !im.Refresh {
		if err := im.laned(ctx, graced, r, rep); err != nil {
			return err
		}
		return im.ended(ctx, r, rep)
	}
	for st, err := range r.Steps() {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = in.Step(graced, st)
			rep.Unacknowledged = rep.Unacknowledged || graced.Err() != nil
		}
		if err != nil {
			return err
		}
	}
	if in.Own() {
		in.endOwn()
		return nil
	}
	if in.fork != nil && !in.grown {
		rep.lose(ownExport(in.fork.from.Session))
		return nil
	}
	if err := im.endJoined(graced, copied, rep); err != nil {
		return err
	}
	return im.ended(ctx, r, rep)
}

// laned does the steps of a transcript in lanes.
func (im *Importer) laned(ctx, calls context.Context, r *transcript.Reader, rep *Report) error {
	ls := newLanes(ctx, calls, im)
	for st, err := range r.Steps() {
		if err != nil {
			return cmp.Or(ls.end(rep), err)
		}
		if !ls.add(st, rep) {
			break
		}
	}
	return ls.end(rep)
}

// ended adds to a report what is known once a transcript is read to its end.
func (im *Importer) ended(ctx context.Context, r *transcript.Reader, rep *Report) error {
	for _, l := range r.Losses() {
		rep.lose(l)
	}
	if err := im.noteUncounted(ctx, rep); err != nil {
		return err
	}
	return im.Titles(ctx, r.Titles(), rep)
}

// stopGrace is how long an import that is stopped waits for the replies to its requests, so
// that it can say what is stored.
const stopGrace = 2 * time.Second

// withGrace returns a context that ends [stopGrace] after ctx does.
func withGrace(ctx context.Context) (graced context.Context, done func()) {
	graced, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(stopGrace):
			cancel()
		case <-graced.Done():
		}
	})
	return graced, func() { stop(); cancel() }
}
