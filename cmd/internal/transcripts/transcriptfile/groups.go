package transcriptfile

import (
	"bytes"
	"cmp"
	"errors"
	"hash/maphash"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"nexus/turns/transcript"
)

// Groups returns the files that are to be read as groups of indexes. Two files that
// name one id are in one group: a fork and its parent, a subagent and its caller, copies
// of one session. A group is in the order of files, and groups are in that of their first
// files. An id is a UUID anywhere, or the value of a member whose name ends in "session",
// "sessionId" or alike. A file without any, of a format that is related by the ids of its steps alone, is
// read for those. Files without any id, and those that can't be read twice, are one group. An
// export or archive of a ledger has ids of other forms, and puts all files into one group; so
// does what gzip compresses.
//
// It reads the files, several at the same time, and holds the hash of each id.
func Groups(files []File, format string) (groups [][]int) {
	u := newUnion(len(files))
	owner, seed := make(map[uint64]int), maphash.MakeSeed() // of an id's hash: a file that names it
	none, whole := -1, format == "jsonl"
	var mu sync.Mutex // of all above
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range files {
		if f.Special {
			continue
		}
		g.Go(func() error {
			ids, export, err := idsOf(f.Name, format, seed)
			mu.Lock()
			defer mu.Unlock()
			whole = whole || export
			for h := range ids {
				if was, ok := owner[h]; ok {
					u.join(was, i)
				} else {
					owner[h] = i
				}
			}
			if len(ids) == 0 || err != nil {
				if none >= 0 {
					u.join(none, i)
				}
				none = i
			}
			return nil
		})
	}
	_ = g.Wait() // none fails
	byRoot := make(map[int][]int)
	for i, f := range files {
		if f.Special {
			continue
		}
		root := u.root(i)
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

// union is a union-find. The least member of a set is its root, so the sets are the same in
// whatever order they were joined.
type union []int // by member: one that is nearer to the root, or itself

func newUnion(n int) union {
	u := make(union, n)
	for i := range u {
		u[i] = i
	}
	return u
}

func (u union) root(i int) int {
	for u[i] != i {
		u[i] = u[u[i]]
		i = u[i]
	}
	return i
}

func (u union) join(a, b int) {
	if a, b = u.root(a), u.root(b); a != b {
		u[max(a, b)] = min(a, b)
	}
}

// idsOf returns the hashes of the ids in a file, also those before an error. export is that of
// scanIDs.
func idsOf(name, format string, seed maphash.Seed) (ids map[uint64]struct{}, export bool, err error) {
	ids = make(map[uint64]struct{})
	note := func(id []byte) { ids[maphash.Bytes(seed, id)] = struct{}{} }
	if export, err = scanIDs(name, note); err == nil && len(ids) == 0 && !export {
		err = stepIDs(name, format, note)
	}
	return ids, export, err
}

// stepIDs calls found with the ids of a file's steps, if it is of a format whose files are
// related by those alone.
func stepIDs(name, format string, found func([]byte)) error {
	in, err := Open(name, nil, format, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	if !in.Format.RelatedByID {
		return nil
	}
	for st, err := range in.Format.Open(in, ReadOptions(name, in.Format.Name, transcript.Options{Final: true})).Steps() {
		if err != nil {
			return err
		}
		for _, id := range st.IDs() {
			found(id[:])
		}
	}
	return nil
}

// maxIDBytes bounds an id that scanIDs finds.
const maxIDBytes = 512

// errStream: a file that can be read once only.
var errStream = errors.New("a stream")

// scanIDs calls found with the ids in a file; some twice. export says that the file may be an
// export of a ledger, or an archive of a part of one.
func scanIDs(name string, found func([]byte)) (export bool, err error) {
	if IsStream(name) {
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
		isSession := i > 0 && b[i-1]|0x20 == 's' // no expression, compression, …
		b = b[i+len(word):]
		if !isSession {
			continue
		}
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
