package transcripts

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"nexus/cmd/internal/repository"
	"nexus/cmd/internal/transcripts/changes"
	"nexus/cmd/internal/transcripts/rawexport"
	"nexus/cmd/internal/transcripts/steps"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/transcriptfile"
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
	// Refresh makes successors of sessions that read differently now: see steps/refresh.go.
	Refresh bool
	// Unit is the id of the import, which stands in the meta of the sessions that it opens; zero: none.
	Unit turns.ID
	// Projects finds the repositories of folders; nil: it asks git for each session.
	Projects *repository.Cache

	stop   context.CancelFunc // of Files
	slots  chan struct{}      // of Files; see [lanes]
	writer *steps.Writer      // of the files that are imported one after the other; nil: of none yet
}

// begin returns what stores the steps of a file.
func (im *Importer) begin() *steps.Writer {
	if im.writer == nil {
		im.writer = new(steps.Writer)
	}
	w := im.writer
	w.Client, w.Window, w.Unit, w.Projects, w.Refresh = im.Client, im.Window, im.Unit, im.Projects, im.Refresh
	w.BeginFile()
	return w
}

// File imports one file. It reads a fork of a session that the ledger lacks again, with
// the history that the fork copied, and an export of this ledger that another program
// continued as any transcript.
func (im *Importer) File(ctx context.Context, name string) (*tally.Report, error) {
	return im.file(ctx, name, false)
}

// file is File. With waits it returns [steps.ErrNoParent] for a fork of a session that the ledger
// lacks: another file may bring that.
func (im *Importer) file(ctx context.Context, name string, waits bool) (*tally.Report, error) {
	w := im.begin()
	how := transcriptSource{name: name, final: im.Final || im.IsSettled(name)}
	r, err := im.once(ctx, w, how)
	for superseded := false; !transcriptfile.IsStream(name); {
		switch {
		case errors.Is(err, steps.ErrNoParent) && !how.copied && !waits:
			how.copied = true
		case errors.Is(err, steps.ErrGrown) && !how.grown:
			how.grown = true
		case errors.Is(err, steps.ErrSuperseded) && !superseded:
			superseded = true
		default:
			return r, err
		}
		before := r
		if r, err = im.once(ctx, w, how); r != nil && before != nil {
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

func (im *Importer) once(ctx context.Context, w *steps.Writer, how transcriptSource) (*tally.Report, error) {
	in, err := transcriptfile.OpenContext(ctx, how.name, im.Stdin, im.Format, im.Read)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r := &tally.Report{File: how.name, Format: in.Format.Name, Sessions: []turns.ID{}, Losses: []transcript.Loss{}}
	if in.Format.Open == nil {
		return r, rawexport.Import(ctx, im.Client, in.Reader, r)
	}
	var plan *steps.Plan
	if im.Refresh && !transcriptfile.IsStream(how.name) {
		if plan, err = im.changes(ctx, how); err != nil {
			return r, err
		}
	}
	w.BeginReading(plan)
	if err := im.steps(ctx, w, how.open(in), how, r); err != nil {
		return r, err
	}
	if plan != nil {
		err = w.Renew(ctx, plan, r)
	}
	return r, err
}

// open begins to read a file.
func (how *transcriptSource) open(in *transcriptfile.Transcript) *transcript.Reader {
	return in.Format.Open(in, transcriptfile.ReadOptions(how.name, in.Format.Name, transcript.Options{Final: how.final, Copied: how.copied}))
}

// changes reads a file before its steps are done, and finds which of its sessions get a successor.
func (im *Importer) changes(ctx context.Context, how transcriptSource) (*steps.Plan, error) {
	in, err := transcriptfile.Open(how.name, im.Stdin, im.Format, nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return changes.Find(ctx, im.Client, how.open(in).Steps(), in.Format.Name, how.grown)
}

// steps does the steps of a transcript in order. Those before an error stay; doing them
// again stores nothing. An export of this ledger is not stored a second time, unless the
// transcript has more in it or comes from a pipe.
func (im *Importer) steps(ctx context.Context, w *steps.Writer, r *transcript.Reader, how transcriptSource, rep *tally.Report) error {
	in := steps.Intake{Writer: w, Report: rep, All: how.grown || transcriptfile.IsStream(how.name)}
	graced, done := withGrace(ctx)
	defer done()
	if f, _ := formats.Find(rep.Format); f.RelatedByID && !in.All && !how.copied && !im.Refresh {
		if err := im.laned(ctx, graced, w, r, rep); err != nil {
			return err
		}
		return ended(ctx, w, r, rep)
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
	if isOurs, err := in.End(graced, how.copied); isOurs || err != nil {
		return err
	}
	return ended(ctx, w, r, rep)
}

// laned does the steps of a transcript in lanes.
func (im *Importer) laned(ctx, calls context.Context, w *steps.Writer, r *transcript.Reader, rep *tally.Report) error {
	ls := newLanes(ctx, calls, w, im.slots)
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
func ended(ctx context.Context, w *steps.Writer, r *transcript.Reader, rep *tally.Report) error {
	for _, l := range r.Losses() {
		rep.Lose(l)
	}
	if err := w.NoteUncounted(ctx, rep); err != nil {
		return err
	}
	return w.Titles(ctx, r.Titles(), rep)
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
