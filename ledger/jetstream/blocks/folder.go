package blocks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nexus/ledger"
)

const (
	msgsDir    = "msgs"
	batchesDir = "batches"
)

// purgeDirs exist while the server purges a stream. At its next start it would
// remove the records, or put others in their place.
var purgeDirs = []string{"__msgs__", "__new_msgs__"}

// blockPath is the file of a block under the folder of the stream.
func blockPath(number uint32) string {
	return msgsDir + "/" + strconv.FormatUint(uint64(number), 10) + ".blk"
}

// blockFile is a block as the listing of the folder shows it.
type blockFile struct {
	number uint32
	size   int64
}

// folder is the folder of a stream.
type folder struct {
	dir, stream string
	blocks      []blockFile // by number
	damage      []*Damage   // of the listing
	buf         []byte      // of the block that is being read
	alone       bool        // tests read one block after the other
}

// openFolder lists the blocks in dir/msgs. Numbers may be missing, and blocks empty: the
// server removes a block that it opens empty, and goes on with the next number. The
// sequences tell whether records are missing. Errors: [ledger.ErrUnsupported] for
// encrypted blocks, else those of the file system. A missing msgs is damage.
func openFolder(dir string) (*folder, error) {
	f := &folder{dir: dir, stream: filepath.Base(dir)}
	for _, name := range purgeDirs {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			f.damage = append(f.damage, &Damage{Kind: File, File: name, Detail: "a purge of the stream was begun"})
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, msgsDir))
	if errors.Is(err, fs.ErrNotExist) {
		f.damage = append(f.damage, &Damage{Kind: File, File: msgsDir, Detail: "the folder is missing"})
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".key") {
			return nil, fmt.Errorf("%w: block %s is encrypted", ledger.ErrUnsupported, e.Name())
		}
		base, ok := strings.CutSuffix(e.Name(), ".blk")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(base, 10, 32)
		if err != nil || blockPath(uint32(n)) != msgsDir+"/"+e.Name() || !e.Type().IsRegular() {
			f.damage = append(f.damage, &Damage{Kind: File, File: msgsDir + "/" + e.Name(), Detail: "it is not a block file that the server made"})
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		f.blocks = append(f.blocks, blockFile{number: uint32(n), size: info.Size()})
	}
	slices.SortFunc(f.blocks, func(a, b blockFile) int { return cmp.Compare(a.number, b.number) })
	return f, nil
}

// open opens block i. The caller closes the file.
func (f *folder) open(i int) (*blockReader, *os.File, error) {
	b := &blockReader{number: f.blocks[i].number, newest: i == len(f.blocks)-1, next: func() (uint64, error) { return f.first(i + 1) }}
	var err error
	if b.sum, err = newBlockChecksum(f.stream, b.number); err != nil {
		return nil, nil, err
	}
	file, err := os.Open(filepath.Join(f.dir, filepath.FromSlash(b.path())))
	if err != nil {
		return nil, nil, err
	}
	b.file, b.size = file, f.blocks[i].size
	return b, file, nil
}

// first returns the sequence that block i begins with; 0 if its first record cannot be read.
func (f *folder) first(i int) (uint64, error) {
	b, file, err := f.open(i)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	_, h, kind, err := b.record(0)
	if err != nil || kind != "" || h.seq >= tombstoneFlag {
		return 0, err
	}
	return h.seq, nil
}

// start returns the number of the block that holds sequence from, or an earlier
// one, and the sequence that it must begin with; 0: not known.
func (f *folder) start(from uint64) (int, uint64, error) {
	for i := len(f.blocks) - 1; i > 0 && from > 1; i-- {
		if seq, err := f.first(i); err != nil || seq > 0 && seq <= from {
			return i, seq, err
		}
	}
	return 0, 1, nil
}

// scan yields what the blocks hold, from the block of sequence from on. expect
// is the sequence that follows in the end; 0: not known.
func (f *folder) scan(ctx context.Context, from uint64, expect *uint64) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		i, seq, err := f.start(from)
		if err != nil {
			yield(item{}, err)
			return
		}
		*expect = seq
		f.scanBlocks(ctx, i, expect)(yield)
	}
}

// scanBlocks yields what the blocks from block i on hold. expect is the sequence that block i
// must begin with; 0: not known.
func (f *folder) scanBlocks(ctx context.Context, i int, expect *uint64) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for ; i < len(f.blocks); i++ {
			if !f.scanBlock(ctx, i, expect, yield) {
				return
			}
		}
	}
}

// scanBlock reports whether to go on.
func (f *folder) scanBlock(ctx context.Context, i int, expect *uint64, yield func(item, error) bool) bool {
	b, file, err := f.open(i)
	if err != nil {
		yield(item{}, err)
		return false
	}
	defer file.Close()
	b.buf = f.buf[:0]
	defer func() { f.buf = b.buf }()
	for it, err := range b.scan(ctx, expect) {
		if !yield(it, err) || err != nil {
			return false
		}
	}
	return true
}

// Numbers returns the numbers of the block files of the stream in dir, in order.
func Numbers(dir string) (numbers []uint32, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, msgsDir))
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".blk")
		if n, err := strconv.ParseUint(name, 10, 32); ok && err == nil {
			numbers = append(numbers, uint32(n))
		}
	}
	slices.Sort(numbers)
	return numbers, err
}
