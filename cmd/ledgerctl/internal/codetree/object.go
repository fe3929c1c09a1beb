package codetree

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the hash of git's objects
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
)

// object is an object of git.
type object struct {
	kind string // blob, tree, commit
	body []byte
}

func (r *Repository) newHash() hash.Hash {
	if r.sha256 {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // as above
}

// id returns the hash of an object: its name.
func (r *Repository) id(o object) string {
	h := r.newHash()
	fmt.Fprintf(h, "%s %d\x00", o.kind, len(o.body))
	h.Write(o.body)
	return hex.EncodeToString(h.Sum(nil))
}

// Modes of the entries of a tree.
const (
	modeFile   = "100644"
	modeExec   = "100755"
	modeLink   = "120000"
	modeCommit = "160000" // a submodule
	modeTree   = "40000"
)

// entry is a file of a tree.
type entry struct{ path, mode, id string }

// trees returns the tree objects of files, whose paths differ and use slashes, the root
// last. A file that stands where another has a folder is left out.
func (r *Repository) trees(files []entry) (all []object, root string) {
	type node struct {
		name, mode, id string
	}
	var build func(files []entry) string
	build = func(files []entry) string {
		var nodes []node
		for i := 0; i < len(files); {
			name, _, deep := strings.Cut(files[i].path, "/")
			if !deep {
				nodes = append(nodes, node{name, files[i].mode, files[i].id})
				i++
				continue
			}
			var below []entry
			for ; i < len(files) && strings.HasPrefix(files[i].path, name+"/"); i++ {
				below = append(below, entry{files[i].path[len(name)+1:], files[i].mode, files[i].id})
			}
			nodes = append(nodes, node{name, modeTree, build(below)})
		}
		key := func(n node) string { // git sorts a folder as if its name ended with a slash
			if n.mode == modeTree {
				return n.name + "/"
			}
			return n.name
		}
		slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(key(a), key(b)) })
		var body bytes.Buffer
		for i, n := range nodes {
			if i > 0 && nodes[i-1].name == n.name {
				continue
			}
			raw, _ := hex.DecodeString(n.id) // of our hash, or of git's
			fmt.Fprintf(&body, "%s %s\x00%s", n.mode, n.name, raw)
		}
		o := object{"tree", body.Bytes()}
		all = append(all, o)
		return r.id(o)
	}
	// Paths in the order of their folders stand together: compare with the slash below all.
	slices.SortFunc(files, func(a, b entry) int {
		return cmp.Compare(strings.ReplaceAll(a.path, "/", "\x00"), strings.ReplaceAll(b.path, "/", "\x00"))
	})
	root = build(files)
	return all, root
}

// pack returns objects as git takes them from another repository.
func (r *Repository) pack(objects []object) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("PACK")
	b.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 2), uint32(len(objects))))
	kinds := map[string]byte{"commit": 1, "tree": 2, "blob": 3}
	for _, o := range objects {
		n := len(o.body)
		c := kinds[o.kind]<<4 | byte(n&15)
		for n >>= 4; n > 0; n >>= 7 {
			b.WriteByte(c | 0x80)
			c = byte(n & 0x7f)
		}
		b.WriteByte(c)
		z := zlib.NewWriter(&b)
		if _, err := z.Write(o.body); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
	}
	h := r.newHash()
	h.Write(b.Bytes())
	return h.Sum(b.Bytes()), nil
}
