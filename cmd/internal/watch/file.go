package watch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/steps"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// headSize is how much of a file tells its format, in bytes.
const headSize = 64 << 10

// tailSize is how much before the offset is compared when a file that is read has grown.
const tailSize = 4 << 10

// live is the reading of a file that is in work: lines go in, steps come out.
type live struct {
	format   transcript.Format
	follower *transcript.Follower
	intake   steps.Intake
	offset   int64     // lines up to here were fed
	sum      hash.Hash // of them
	tail     []byte    // their last bytes, tailSize at most
	scanned  int64     // no line break is in [offset, scanned)
	resumed  bool      // the first steps were done by an earlier reading
	titles   map[turns.ID]string
	used     time.Time
	calls    calls
}

// file is a file that is followed. Its lock is held while it is read.
type file struct {
	path   string
	source Source
	live   *live
	waited bool // for the session that it was forked from
	keep   Keep // what was seen after the turn of call keepOf; nil: nothing
	keepOf string
}

// errLater: the session that the file was forked from may come with another file.
var errLater = errors.New("it waits for the session that it was forked from")

// errChanged: the file changed while it was read as a whole.
var errChanged = errors.New("it changed meanwhile")

// read brings what is new in a file into the ledger. Its error is nil, that of ctx,
// errLater or errChanged; what is wrong with the file is in its state.
func (w *Watcher) read(ctx context.Context, f *file) error {
	st := w.stateOf(f)
	in, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		w.vanished(f)
		return nil
	}
	if err != nil {
		return w.fail(ctx, f, st, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return w.fail(ctx, f, st, err)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	if w.isErased(f.path, info) {
		f.live = nil
		return nil
	}
	if w.isAtRest(f) {
		w.compareRest(f, &st, in)
	}
	ended := time.Since(info.ModTime()) > w.cfg.Settle
	if st.sameFile(info) && st.Failed == "" && (st.Final || !ended) && !w.look {
		if !st.Gone.IsZero() { // it is back
			st.Gone = time.Time{}
			w.commit(f, st)
		}
		return nil
	}
	w.step("opened")
	if st.Size == 0 && st.Offset == 0 {
		st = w.adopt(f, st, in, info)
	}
	st.Gone = time.Time{}
	if f.live != nil { // its format is known
		return w.follow(ctx, f, st, in, info, f.live.format, ended)
	}
	head := make([]byte, headSize)
	n, err := in.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return w.fail(ctx, f, st, err)
	}
	head = head[:n]
	format, err := transcriptfile.Detect(head)
	zipped := strings.HasSuffix(f.path, ".zst")
	if err != nil && !zipped {
		st.note(info)
		if !bytes.Contains(head, []byte("\n")) { // the beginning is not written yet
			w.commit(f, st)
			return nil
		}
		return w.fail(ctx, f, st, err)
	}
	if zipped || !format.Grows(head) || st.Offset == 0 && ended {
		return w.whole(ctx, f, st, in, info, ended || zipped)
	}
	st.Format = format.Name
	return w.follow(ctx, f, st, in, info, format, ended)
}

// whole imports a file as ledgerctl import does: one that has ended, or that its agent
// writes anew each time.
func (w *Watcher) whole(ctx context.Context, f *file, st FileState, in *os.File, info fs.FileInfo, ended bool) error {
	offset, err := lineEnd(in, 0, info.Size(), 0)
	if err != nil {
		return errChanged
	}
	if strings.HasSuffix(f.path, ".zst") || strings.HasSuffix(f.path, ".json") {
		offset = info.Size()
	}
	sum, err := prefixSum(in, offset)
	if err != nil {
		return errChanged
	}
	if st.Offset == offset && st.Prefix == sum && (st.Final || !ended) && st.Failed == "" {
		st.note(info)
		w.commit(f, st)
		return nil
	}
	im := transcripts.Importer{Client: w.client, Format: "auto", Final: ended, Projects: &w.projects}
	r, err := im.File(ctx, f.path)
	if err != nil {
		st.note(info)
		return w.fail(ctx, f, st, err)
	}
	if now, err := os.Stat(f.path); err != nil || now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime()) {
		return errChanged
	}
	w.step("imported")
	if done, err := w.checkErased(ctx, f, st, r, info); done || err != nil {
		return err
	}
	st.note(info)
	if st.Rewritten && r.KeptFirst > 0 {
		return w.fail(ctx, f, st, rewrittenError(r.KeptFirst))
	}
	st.Rewritten = false
	st.Format, st.Offset, st.Prefix, st.Final = r.Format, offset, sum, ended
	w.delivered(f, st, r)
	return nil
}

// follow feeds the lines that a file has got since the last reading.
func (w *Watcher) follow(ctx context.Context, f *file, st FileState, in *os.File, info fs.FileInfo, format transcript.Format, ended bool) error {
	all := false // do all steps, also those that an earlier reading did
	if what := w.changed(f, &st, in, info); what != "" {
		w.event(what, f.path, "what the ledger has of it stays; it is read again from its beginning")
		f.live, st.Offset, st.Prefix, st.Final, st.Copied = nil, 0, "", false, false
		st.Rewritten, all = true, true
	}
	if f.live == nil && st.Offset > 0 && !w.has(ctx, st.session()) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		st.Offset, st.Prefix, st.Final, st.Stored, all = 0, "", false, 0, true
	}
	if st.Offset == info.Size() && (st.Final || !ended) && st.Failed == "" && !w.look {
		st.note(info)
		w.commit(f, st)
		return nil
	}
	for everything, superseded := false, false; ; {
		err := w.lines(ctx, f, &st, in, info, format, all, ended, everything)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			f.live = nil
			return ctx.Err()
		case errors.Is(err, errChanged):
			f.live = nil
			return errChanged
		case errors.Is(err, steps.ErrNoParent) && !st.Copied:
			f.live = nil
			if !f.waited && w.busyElsewhere(f) {
				f.waited = true
				return errLater
			}
			st.Copied, all = true, true
		case errors.Is(err, steps.ErrSuperseded) && !superseded: // an import --refresh ran
			f.live, superseded, all = nil, true, true
		case errors.Is(err, steps.ErrGrown) && !everything:
			f.live, everything, all = nil, true, true
		case f.live != nil && f.live.resumed: // an earlier reading stored other turns than the steps name
			f.live, all = nil, true
		default:
			f.live = nil
			st.note(info)
			return w.fail(ctx, f, st, err)
		}
	}
}

// changed returns what happened to the part of a file that was read; "" for nothing.
func (w *Watcher) changed(f *file, st *FileState, in *os.File, info fs.FileInfo) string {
	inode, _ := identity(info)
	if l := f.live; l != nil {
		if inode == st.Inode && info.Size() > l.offset && l.sameTail(in) {
			return ""
		}
		f.live = nil
	}
	if st.Offset == 0 || st.sameFile(info) {
		return ""
	}
	if info.Size() < st.Offset {
		return "truncated"
	}
	sum, err := prefixSum(in, st.Offset)
	switch {
	case err == nil && sum == st.Prefix:
		return ""
	case inode != st.Inode:
		return "replaced"
	}
	return "rewritten"
}

// lines does the steps of the lines after st.Offset, and commits what was done.
func (w *Watcher) lines(ctx context.Context, f *file, st *FileState, in *os.File, info fs.FileInfo, format transcript.Format, all, ended, everything bool) error {
	if f.live == nil {
		l, err := w.begin(ctx, f, st, in, format, all, everything)
		if err != nil {
			return err
		}
		f.live = l
	}
	l := f.live
	l.used = time.Now()
	if info.Size() < l.scanned { // half a line was taken back
		l.scanned = l.offset
	}
	end, err := lineEnd(in, max(l.offset, l.scanned), info.Size(), l.offset)
	if err != nil {
		return err
	}
	l.scanned = info.Size()
	if end > l.offset {
		l.follower.Feed(io.TeeReader(io.NewSectionReader(in, l.offset, end-l.offset), w.taps(l)))
		if err := l.drain(func(s transcript.Step) error {
			w.step("read")
			if err := l.intake.Step(ctx, s); err != nil {
				return err
			}
			w.step("stored")
			f.noteStored(ctx, l, s)
			return nil
		}); err != nil {
			return err
		}
		l.offset = end
		if err := l.keepTail(in); err != nil {
			return err
		}
	}
	for _, s := range l.follower.Complete() {
		if err := l.intake.Step(ctx, s); err != nil {
			return err
		}
		w.step("stored")
		f.noteStored(ctx, l, s)
	}
	final := false
	if ended && !l.intake.Own() {
		if err := w.end(ctx, l, in, format, transcriptfile.ReadOptions(f.path, format.Name, transcript.Options{Copied: st.Copied})); err != nil {
			return err
		}
		final = true
	}
	if t := l.follower.Titles(); !maps.Equal(t, l.titles) && !l.intake.Own() {
		if err := l.intake.Titles(ctx, t, l.intake.Report); err != nil {
			return err
		}
		l.titles = maps.Clone(t)
	}
	w.step("titled")
	if done, err := w.checkErased(ctx, f, *st, l.intake.Report, info); done || err != nil {
		return err
	}
	st.note(info)
	if n := l.intake.Report.KeptFirst; st.Rewritten && n > 0 {
		f.live, st.Offset, st.Prefix, st.Final = nil, 0, "", false
		return w.fail(ctx, f, *st, rewrittenError(n))
	}
	st.Rewritten = false
	st.Offset, st.Prefix, st.Final = l.offset, hex.EncodeToString(l.sum.Sum(nil)), final || ended
	r := *l.intake.Report
	l.intake.Report.Clear()
	w.delivered(f, *st, &r)
	w.closed(ctx, f, info)
	if ended {
		f.live = nil // what is added later is read again from the beginning
	}
	return nil
}

// rewrittenError is why a file that was written anew is not in the ledger: records of it have
// the ids of others there.
func rewrittenError(n int) error {
	return fmt.Errorf("the file was written anew, and %d of its records have other content than the ledger stored first, and keeps; \"ledgerctl import --refresh FILE\" stores the new content in a session of its own", n)
}

// begin returns a reading of a file. Without all, the steps of the first st.Offset bytes
// are read and not done: the ledger has them.
func (w *Watcher) begin(ctx context.Context, f *file, st *FileState, in *os.File, format transcript.Format, all, everything bool) (*live, error) {
	l := &live{format: format, sum: sha256.New(), follower: format.Follow(transcriptfile.ReadOptions(f.path, format.Name, transcript.Options{Copied: st.Copied}))}
	l.intake = steps.Intake{Writer: &steps.Writer{Client: w.client, Projects: &w.projects}, Report: &tally.Report{Format: format.Name}, All: everything}
	if all || st.Offset == 0 {
		return l, nil
	}
	l.resumed = true
	resume := func(s transcript.Step) error {
		err := l.intake.Resume(ctx, s)
		f.noteStored(ctx, l, s)
		return err
	}
	l.follower.Feed(io.TeeReader(io.NewSectionReader(in, 0, st.Offset), w.taps(l)))
	if err := l.drain(resume); err != nil {
		return nil, err
	}
	for _, s := range l.follower.Complete() {
		if err := resume(s); err != nil {
			return nil, err
		}
	}
	l.offset, l.titles = st.Offset, maps.Clone(l.follower.Titles())
	return l, l.keepTail(in)
}

// taps returns what takes the lines beside the reader of the format.
func (w *Watcher) taps(l *live) io.Writer {
	if w.cfg.Closed == nil {
		return l.sum
	}
	return io.MultiWriter(l.sum, &l.calls)
}

// drain calls do with the steps of the lines that were fed.
func (l *live) drain(do func(transcript.Step) error) error {
	for {
		s, err := l.follower.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = do(s)
		}
		if err != nil {
			return err
		}
	}
}

// end does the steps that a file has because it has ended: turns without a response, a
// last line without its line break. They are those of a reading with Final which one
// without it does not give.
func (w *Watcher) end(ctx context.Context, l *live, in *os.File, format transcript.Format, opt transcript.Options) error {
	done := make(map[[sha256.Size]byte]bool)
	sum := func(s transcript.Step) (sum [sha256.Size]byte, err error) {
		b, err := turns.EncodeJSON(s)
		return sha256.Sum256(b), err
	}
	for s, err := range format.Open(io.NewSectionReader(in, 0, l.offset), opt).Steps() {
		if err != nil {
			return err
		}
		k, err := sum(s)
		if err != nil {
			return err
		}
		done[k] = true
	}
	opt.Final = true
	for s, err := range format.Open(io.NewSectionReader(in, 0, l.scanned), opt).Steps() {
		if err != nil {
			return err
		}
		k, err := sum(s)
		if err != nil {
			return err
		}
		if done[k] {
			continue
		}
		if err := l.intake.Step(ctx, s); err != nil {
			return err
		}
		w.step("stored")
	}
	return nil
}

// isAtRest reports whether nobody wrote to a file in work for a while.
func (w *Watcher) isAtRest(f *file) bool { return f.live != nil && time.Since(f.live.used) > restAfter }

// compareRest drops the reading of a file, after a look at all that was read of it.
func (w *Watcher) compareRest(f *file, st *FileState, in *os.File) {
	l := f.live
	f.live = nil
	sum, err := prefixSum(in, l.offset)
	end, err2 := lineEnd(in, l.offset, l.scanned, l.offset)
	if err != nil || err2 != nil || sum != hex.EncodeToString(l.sum.Sum(nil)) || end > l.offset {
		st.Size = -1 // its lines are compared with the state again
	}
}

// keepTail notes the last bytes before the offset.
func (l *live) keepTail(in *os.File) error {
	l.tail = make([]byte, min(tailSize, l.offset))
	if n, err := in.ReadAt(l.tail, l.offset-int64(len(l.tail))); n < len(l.tail) {
		return errors.Join(errChanged, err)
	}
	return nil
}

func (l *live) sameTail(in *os.File) bool {
	b := make([]byte, len(l.tail))
	n, _ := in.ReadAt(b, l.offset-int64(len(b)))
	return n == len(b) && bytes.Equal(b, l.tail)
}

// lineEnd returns the place after the last line break in [from, size), none if there is
// no line break.
func lineEnd(in io.ReaderAt, from, size, none int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for at := size; at > from; {
		n := min(int64(len(buf)), at-from)
		at -= n
		if got, err := in.ReadAt(buf[:n], at); int64(got) < n {
			return none, errors.Join(errChanged, err) // it became shorter
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return at + int64(i) + 1, nil
		}
	}
	return none, nil
}

// prefixSum returns the SHA-256 of the first n bytes of a file.
func prefixSum(in io.ReaderAt, n int64) (string, error) {
	h := sha256.New()
	got, err := io.Copy(h, io.NewSectionReader(in, 0, n))
	if err == nil && got < n {
		err = io.ErrUnexpectedEOF
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// has reports whether the ledger has a session that it had when a file was read.
func (w *Watcher) has(ctx context.Context, session turns.ID) bool {
	if session.IsZero() {
		return true // nothing of the file was stored yet
	}
	_, err := w.client.Session(ctx, session)
	var refused *api.Error
	return err == nil || !errors.As(err, &refused) || refused.Code != api.NotFound
}

// delivered commits that a file is in the ledger up to its offset.
func (w *Watcher) delivered(f *file, st FileState, r *tally.Report) {
	if len(r.Sessions) > 0 {
		st.Sessions = distinct(r.Sessions)
	}
	if r.Stored > 0 || st.Delivered.IsZero() {
		st.Delivered = time.Now()
	}
	st.Stored += r.Stored
	st.Failed, st.FailedAt, st.Tries = "", time.Time{}, 0
	f.waited = false
	w.commit(f, st)
	if r.Stored > 0 {
		w.cfg.Log("%s: %d events stored", f.path, r.Stored)
	}
}

// distinct returns ids without those that come again, in the order of their last places.
func distinct(ids []turns.ID) (out []turns.ID) {
	had := make(map[turns.ID]bool, len(ids))
	for _, id := range slices.Backward(ids) {
		if !had[id] {
			had[id] = true
			out = append(out, id)
		}
	}
	slices.Reverse(out)
	return out
}

// fail commits why the rest of a file is not in the ledger. What was stored of it stays.
func (w *Watcher) fail(ctx context.Context, f *file, st FileState, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var typed *api.Error
	text := err.Error()
	if errors.As(err, &typed) {
		text = string(typed.Code) + ": " + typed.Message
	}
	if typed != nil && typed.Code == api.Conflict { // what to do about it stands before the cause
		text = err.Error()
	}
	if st.Failed != text {
		w.cfg.Log("%s: not imported: %s", f.path, text)
	}
	st.Failed, st.FailedAt = text, time.Now()
	st.Tries++
	w.commit(f, st)
	return nil
}

// retryAt returns when a file that failed is tried again though nobody wrote to it.
func (st *FileState) retryAt() time.Time {
	return st.FailedAt.Add(min(time.Hour, time.Minute<<min(st.Tries, 6)))
}

// vanished records that a file is gone. Nothing in the ledger changes.
func (w *Watcher) vanished(f *file) {
	f.live = nil
	w.mu.Lock()
	known := w.state.Files[f.path] != nil // not if its new name has the entry
	w.mu.Unlock()
	st := w.stateOf(f)
	if !known || !st.Gone.IsZero() {
		return
	}
	st.Gone = time.Now()
	w.commit(f, st)
	w.event("vanished", f.path, "what the ledger has of it stays")
}

// adopt returns the state of a file that was renamed: the entry of its old name, which is
// gone, has the same inode and the same beginning.
func (w *Watcher) adopt(f *file, st FileState, in *os.File, info fs.FileInfo) FileState {
	inode, _ := identity(info)
	if inode == 0 {
		return st
	}
	for _, old := range w.sameInode(inode, f.path) {
		was := w.stateOf(old)
		if _, err := os.Stat(old.path); err == nil || was.Offset == 0 || was.Offset > info.Size() {
			continue
		}
		if sum, err := prefixSum(in, was.Offset); err != nil || sum != was.Prefix {
			continue
		}
		w.event("renamed", old.path, "to "+f.path)
		w.removeName(old)
		was.Agent = st.Agent
		return was
	}
	return st
}

// sameInode returns the other files whose last inode was this one.
func (w *Watcher) sameInode(inode uint64, path string) (out []*file) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, st := range w.state.Files {
		if st.Inode == inode && name != path {
			out = append(out, &file{path: name, source: Source{Agent: st.Agent}})
		}
	}
	slices.SortFunc(out, func(a, b *file) int { return strings.Compare(a.path, b.path) })
	return out
}
