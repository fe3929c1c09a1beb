package blocks

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Use says what the server does with the file index.db when it opens the stream.
type Use string

// What the server does with index.db.
const (
	Absent     Use = "absent"     // there is none: the server reads every block
	Unreadable Use = "unreadable" // its checksum or form is wrong: the server removes it and reads every block
	Stale      Use = "stale"      // it is of an earlier state: the server reads every block
	// Current: the server believes it, and reads no block before a client asks for
	// a record of it. It truncates a damaged block then, not at its start.
	Current Use = "current"
)

// Index is what index.db says. The server writes it every two minutes and when
// it stops, without an fsync, so that a damaged one is no damage of the stream.
type Index struct {
	Use                  Use
	First, Last, Records uint64 // 0 if it is absent or unreadable
}

const (
	indexFile    = "index.db"
	indexMagic   = 11
	indexVersion = 4
)

// readIndex reads index.db of the stream. blocks are the block files.
func readIndex(dir, stream string, blocks []blockFile) (Index, error) {
	f, err := os.Open(filepath.Join(dir, msgsDir, indexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Index{Use: Absent}, nil
	}
	if err != nil {
		return Index{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Index{}, err
	}
	sound, err := isIndexSound(f, info.Size(), stream)
	if err != nil {
		return Index{}, err
	}
	if !sound {
		return Index{Use: Unreadable}, nil
	}
	p := &indexParser{r: bufio.NewReader(io.NewSectionReader(f, 2, info.Size()-2-sumSize))}
	x, end := p.parse(blocks)
	if p.err != nil {
		return Index{Use: Unreadable}, nil
	}
	x.Use = Stale
	if end == nil {
		return x, nil
	}
	newest := blocks[len(blocks)-1]
	last, err := lastBytes(filepath.Join(dir, blockPath(newest.number)), newest.size)
	if err != nil {
		return Index{}, err
	}
	if bytes.Equal(last, end) {
		x.Use = Current
	}
	return x, nil
}

// isIndexSound reports whether magic, version and checksum are right.
func isIndexSound(r io.ReaderAt, size int64, stream string) (bool, error) {
	if size < 32 {
		return false, nil
	}
	begin := make([]byte, 2)
	if _, err := r.ReadAt(begin, 0); err != nil {
		return false, fmt.Errorf("read %s: %w", indexFile, err)
	}
	c, err := newChecksum(stream)
	if err != nil {
		return false, err
	}
	if _, err := io.Copy(c.digest, io.NewSectionReader(r, 0, size-sumSize)); err != nil {
		return false, fmt.Errorf("read %s: %w", indexFile, err)
	}
	sum := make([]byte, sumSize)
	if _, err := r.ReadAt(sum, size-sumSize); err != nil {
		return false, fmt.Errorf("read %s: %w", indexFile, err)
	}
	return begin[0] == indexMagic && begin[1] == indexVersion && bytes.Equal(sum, c.digest.Sum(c.sum[:0])), nil
}

// lastBytes returns the last sumSize bytes of a file, zero if it has fewer.
func lastBytes(name string, size int64) ([]byte, error) {
	b := make([]byte, sumSize)
	if size < sumSize {
		return b, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.ReadAt(b, size-sumSize); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// indexParser reads numbers until the first error.
type indexParser struct {
	r   *bufio.Reader
	err error
}

func (p *indexParser) unsigned() (v uint64) {
	if p.err == nil {
		v, p.err = binary.ReadUvarint(p.r)
	}
	return v
}

func (p *indexParser) signed() (v int64) {
	if p.err == nil {
		v, p.err = binary.ReadVarint(p.r)
	}
	return v
}

// parse returns what the index says. end is the checksum of the last record of
// the newest block, nil if the index lists other blocks than there are, or
// deleted records: it reads no further then.
func (p *indexParser) parse(blocks []blockFile) (x Index, end []byte) {
	x.Records = p.unsigned()
	p.unsigned() // bytes
	x.First = p.unsigned()
	p.signed() // times
	x.Last = p.unsigned()
	p.signed()
	for n := p.unsigned(); n > 0 && p.err == nil; n-- { // subjects
		size := p.unsigned()
		if p.err == nil && size > maxRecord {
			p.err = errors.New("a subject of more than 32 MiB")
		}
		if p.err == nil {
			_, p.err = p.r.Discard(int(size))
		}
		for range 3 { // records, first block, last block
			p.unsigned()
		}
	}
	n := p.unsigned()
	if n != uint64(len(blocks)) || n == 0 {
		return x, nil
	}
	for _, b := range blocks {
		number := p.unsigned()
		p.unsigned() // bytes
		p.unsigned() // first
		p.signed()
		p.unsigned() // last
		p.signed()
		deleted := p.unsigned()
		p.unsigned() // with a time to live
		p.unsigned() // scheduled
		if number != uint64(b.number) || deleted > 0 {
			return x, nil
		}
	}
	if newest := p.unsigned(); newest != uint64(blocks[n-1].number) {
		return x, nil
	}
	end = make([]byte, sumSize)
	if p.err == nil {
		_, p.err = io.ReadFull(p.r, end)
	}
	return x, end
}
