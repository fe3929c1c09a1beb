package backup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/mark"
)

// Blocks writes the block files of a stream anew. No server may have them open. Not safe
// for concurrent use.
type Blocks struct {
	dir, stream string // dir is the stream's
	number      uint32
	size        int64
	f           *os.File
	w           *bufio.Writer
	encoder     *blocks.Encoder
	buf         []byte
}

// NewBlocks removes the block files of the stream in dir, and what the server derived from them.
func NewBlocks(dir string) (*Blocks, error) {
	b := &Blocks{dir: dir, stream: filepath.Base(dir)}
	return b, b.Reset()
}

// Reset removes what was written.
func (b *Blocks) Reset() error {
	var err error
	if b.f != nil {
		err = b.f.Close()
	}
	msgs := filepath.Join(b.dir, "msgs")
	b.number, b.size, b.f = 0, 0, nil
	return errors.Join(err, os.RemoveAll(msgs), os.Mkdir(msgs, 0o700))
}

// Append writes a record, in the order of the positions.
func (b *Blocks) Append(r blocks.Record) (err error) {
	if b.f == nil || b.size > 0 && b.size+r.Size() > blocks.MaxBlock {
		if err := b.next(); err != nil {
			return err
		}
	}
	if b.buf, err = b.encoder.Append(b.buf[:0], r); err != nil {
		return err
	}
	b.size += int64(len(b.buf))
	_, err = b.w.Write(b.buf)
	return err
}

// next begins another block.
func (b *Blocks) next() (err error) {
	if err := b.finish(); err != nil {
		return err
	}
	b.number++
	b.size = 0
	if b.encoder, err = blocks.NewEncoder(b.stream, b.number); err != nil {
		return err
	}
	name := filepath.Join(b.dir, filepath.FromSlash(blocks.Path(b.number)))
	if b.f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640); err != nil {
		return err
	}
	b.w = bufio.NewWriterSize(b.f, 1<<20)
	return nil
}

func (b *Blocks) finish() error {
	if b.f == nil {
		return nil
	}
	f := b.f
	b.f = nil
	return errors.Join(b.w.Flush(), f.Sync(), f.Close())
}

// Close makes the blocks durable.
func (b *Blocks) Close() error {
	if err := b.finish(); err != nil {
		return fmt.Errorf("stream %s: %w", b.stream, err)
	}
	return mark.SyncDir(filepath.Join(b.dir, "msgs"))
}
