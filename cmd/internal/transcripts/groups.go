package transcripts

import (
	"context"
	"errors"
	"iter"
	"sync"

	"nexus/cmd/internal/transcripts/steps"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/transcriptfile"
)

// importWorkers is how many groups of files are imported at the same time. The daemon
// stores the turns of one session one after the other; those of several share its fsyncs.
// A worker waits most of the time, and holds a file, some lines of it and a turn.
const importWorkers = 24

// Outcome is what became of one file.
type Outcome struct {
	Report *tally.Report
	Err    error
}

// Files imports files and yields what became of each, in their order. Files that
// may have to do with each other are imported one after the other, as one list; others
// at the same time. So the ledger and the reports are those of one import after the
// other. A caller that stops stops the imports that have begun.
func (im *Importer) Files(ctx context.Context, files []transcriptfile.File) iter.Seq2[int, Outcome] {
	return func(yield func(int, Outcome) bool) {
		ctx, stop := context.WithCancel(ctx)
		im.stop, im.slots = stop, make(chan struct{}, importLanes)
		results := make([]chan Outcome, len(files))
		for i := range results {
			results[i] = make(chan Outcome, 1)
		}
		groups := make(chan []int)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		for range importWorkers {
			wg.Go(func() {
				for group := range groups {
					own := *im
					own.writer = nil
					own.group(ctx, files, group, results)
				}
			})
		}
		wg.Go(func() {
			defer close(groups)
			for _, g := range transcriptfile.Groups(files, im.Format) {
				groups <- g
			}
		})
		for i := range files {
			if files[i].Special {
				if !yield(i, Outcome{}) {
					return
				}
				continue
			}
			if !yield(i, <-results[i]) {
				return
			}
		}
	}
}

// Stop ends the imports of [Importer.Files] that have begun: it yields what became of each
// file up to there. The caller of Files calls it.
func (im *Importer) Stop() { im.stop() }

// group imports files one after the other. A file waits for the session that it was forked
// from, as long as another file may bring that.
func (im *Importer) group(ctx context.Context, files []transcriptfile.File, group []int, results []chan Outcome) {
	before := make(map[int]*tally.Report) // of files that wait
	whole := func(i int, o Outcome) Outcome {
		was := before[i]
		switch {
		case was == nil:
		case o.Report == nil:
			o.Report = was
		default:
			o.Report.Stored, o.Report.Existing = o.Report.Stored+was.Stored, o.Report.Existing-min(o.Report.Existing, was.Stored)
		}
		return o
	}
	all, outcomes := group, make(map[int]Outcome)
	send := func(i int, o Outcome) {
		if outcomes[i] = o; !im.Refresh || len(all) == 1 {
			results[i] <- o
		}
	}
	defer func() {
		if im.Refresh && len(all) > 1 {
			im.refreshAgain(ctx, files, all, outcomes)
			for _, i := range all {
				results[i] <- outcomes[i]
			}
		}
	}()
	for waits := len(group) > 1; len(group) > 0; {
		var later []int
		for _, i := range group {
			var o Outcome
			if o.Err = ctx.Err(); o.Err == nil {
				o.Report, o.Err = im.file(ctx, files[i].Name, waits)
			}
			o = whole(i, o)
			if waits && errors.Is(o.Err, steps.ErrNoParent) {
				later, before[i] = append(later, i), o.Report
				continue
			}
			send(i, o)
		}
		if len(later) == len(group) { // nothing brings their parents
			for _, i := range later[:1] { // what it copied may be what the others wait for
				o := Outcome{Err: ctx.Err()}
				if o.Err == nil {
					o.Report, o.Err = im.File(ctx, files[i].Name)
				}
				send(i, whole(i, o))
			}
			later = later[1:]
		}
		group = later
	}
}

// refreshAgain refreshes files again, as long as sessions get successors: a fork may have been
// read before the session that it was forked from, which has a successor since.
func (im *Importer) refreshAgain(ctx context.Context, files []transcriptfile.File, group []int, outcomes map[int]Outcome) {
	renewed := func() (n int) {
		for _, o := range outcomes {
			if o.Report != nil {
				n += o.Report.Renewed
			}
		}
		return n
	}
	im.Read = nil // the bytes were counted
	// A chain of forks needs a pass for each of them, at most.
	for before, passes := 0, 0; before < renewed() && passes < len(group) && ctx.Err() == nil; passes++ {
		before = renewed()
		for _, i := range group {
			o := outcomes[i]
			if o.Err != nil || o.Report == nil || transcriptfile.IsStream(files[i].Name) {
				continue
			}
			again, err := im.File(ctx, files[i].Name)
			if again != nil {
				o.Report.Stored, o.Report.Renewed = o.Report.Stored+again.Stored, o.Report.Renewed+again.Renewed
				o.Report.Sessions = again.Sessions
			}
			outcomes[i] = Outcome{o.Report, err}
		}
	}
}
