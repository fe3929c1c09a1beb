package transcripts

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
)

// importWorkers is how many groups of files are imported at the same time. The daemon
// stores the turns of one session one after the other; those of several share its fsyncs.
// A worker waits most of the time, and holds a file, some lines of it and a turn.
const importWorkers = 24

// Outcome is what became of one file.
type Outcome struct {
	Report *Report
	Err    error
}

// Files imports files and yields what became of each, in their order. Files that
// may have to do with each other are imported one after the other, as one list; others
// at the same time. So the ledger and the reports are those of one import after the
// other. A caller that stops stops the imports that have begun.
func (im *Importer) Files(ctx context.Context, files []File) iter.Seq2[int, Outcome] {
	return func(yield func(int, Outcome) bool) {
		ctx, stop := context.WithCancel(ctx)
		im.stop = stop
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
					own.splits, own.placed = nil, placement{}
					own.group(ctx, files, group, results)
				}
			})
		}
		wg.Go(func() {
			defer close(groups)
			for _, g := range Groups(files, im.Format) {
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
func (im *Importer) group(ctx context.Context, files []File, group []int, results []chan Outcome) {
	before := make(map[int]*Report) // of files that wait
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
			if waits && errors.Is(o.Err, ErrNoParent) {
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
func (im *Importer) refreshAgain(ctx context.Context, files []File, group []int, outcomes map[int]Outcome) {
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
			if o.Err != nil || o.Report == nil || isStream(files[i].Name) {
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

// Groups returns the files that are to be read as groups of indexes. Two files that
// name one id are in one group: a fork and its parent, a subagent and its caller, copies
// of one session. A group is in the order of files, and groups are in that of their first
// files. An id is a UUID anywhere, or the value of a member whose name ends in "session",
// "sessionId" or alike. Files without any, and those that can't be read twice, are one group. An
// export or archive of a ledger has ids of other forms, and puts all files into one group; so
// does what gzip compresses.
func Groups(files []File, format string) (groups [][]int) {
	parent := make([]int, len(files)) // of a union-find, by file; the least index is the root
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	union := func(a, b int) {
		if a, b = find(a), find(b); a != b {
			parent[max(a, b)] = min(a, b)
		}
	}
	owner, seed := make(map[uint64]int), maphash.MakeSeed()
	none, whole := -1, format == "jsonl"
	for i, f := range files {
		if f.Special {
			continue
		}
		found := false
		export, err := scanIDs(f.Name, func(id []byte) {
			found = true
			h := maphash.Bytes(seed, id)
			if was, ok := owner[h]; ok {
				union(was, i)
			} else {
				owner[h] = i
			}
		})
		whole = whole || export
		if !found || err != nil {
			if none >= 0 {
				union(none, i)
			}
			none = i
		}
	}
	byRoot := make(map[int][]int)
	for i, f := range files {
		if f.Special {
			continue
		}
		root := find(i)
		if whole {
			root = 0
		}
		byRoot[root] = append(byRoot[root], i)
	}
	for _, g := range byRoot {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return groups
}

// maxIDBytes bounds an id that scanIDs finds.
const maxIDBytes = 512

// errStream: a file that can be read once only.
var errStream = errors.New("a stream")

// scanIDs calls found with the ids in a file; some twice. export says that the file may be an
// export of a ledger, or an archive of a part of one.
func scanIDs(name string, found func([]byte)) (export bool, err error) {
	if isStream(name) {
		return false, errStream
	}
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	buf, kept := make([]byte, 256<<10), 0
	for first := true; ; first = false {
		n, err := io.ReadFull(f, buf[kept:])
		b := buf[:kept+n]
		if first {
			// What gzip compresses is an archive, or a transcript whose ids stay unknown.
			export = slices.ContainsFunc([]string{ExportPrefix, ArchivePrefix, gzipPrefix}, func(p string) bool { return bytes.HasPrefix(b, []byte(p)) })
		}
		uuidsIn(b, found)
		sessionsIn(b, found)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return export, err
		}
		kept = copy(buf, b[len(b)-maxIDBytes:]) // an id may lie across two blocks
	}
}

// uuidsIn calls found with each UUID in b.
func uuidsIn(b []byte, found func([]byte)) {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '-')
		if i < 0 {
			return
		}
		i += at
		at = i + 1
		if i < 8 || i+28 > len(b) || b[i+5] != '-' || b[i+10] != '-' || b[i+15] != '-' {
			continue
		}
		if id := b[i-8 : i+28]; isUUID(id) {
			found(id)
			at = i + 28
		}
	}
}

func isUUID(b []byte) bool {
	for i, c := range b {
		hex := '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') || !dash && !hex {
			return false
		}
	}
	return true
}

// sessionsIn calls found with the values of members of JSON objects whose names end in
// "session", with a word of letters after it, as in parentSession or session_id.
func sessionsIn(b []byte, found func([]byte)) {
	word := []byte("ession")
	for {
		i := bytes.Index(b, word)
		if i < 0 {
			return
		}
		b = b[i+len(word):]
		rest := bytes.TrimLeft(b[:min(len(b), maxIDBytes)], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
		rest, ok := bytes.CutPrefix(rest, []byte(`"`))
		if !ok {
			continue
		}
		rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, " \t"), []byte(":"))
		if !ok {
			continue
		}
		if rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, " \t"), []byte(`"`)); !ok {
			continue
		}
		if end := bytes.IndexByte(rest, '"'); end > 0 {
			found(rest[:end])
		}
	}
}
