package transcriptfile

import (
	"bytes"
	"cmp"
	"errors"
	"hash/maphash"
	"io"
	"os"
	"slices"
)

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
