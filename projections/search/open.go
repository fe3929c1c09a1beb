package search

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/keyword"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"
	"github.com/fxamacker/cbor/v2"
)

// newMapping says how the index ranks. Documents come as the library takes them, so that it
// has no rule of its own for any field.
func newMapping() *mapping.IndexMappingImpl {
	m := bleve.NewIndexMapping()
	m.DefaultMapping, m.DefaultAnalyzer, m.ScoringModel = bleve.NewDocumentDisabledMapping(), keyword.Name, index.BM25Scoring
	return m
}

// open opens the index of the folder if it is one of this log. Else it makes a new one.
// Errors: errDamaged.
func (x *Index) open(ctx context.Context, src Source) (idx bleve.Index, at checkpoint, err error) {
	if err := os.MkdirAll(x.cfg.Dir, 0o700); err != nil {
		return nil, at, err
	}
	if err := os.Chmod(x.cfg.Dir, 0o700); err != nil {
		return nil, at, err
	}
	_, err = os.Stat(x.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return x.create(src)
	case err != nil:
		return nil, at, err
	}
	if err := checkFiles(ctx, x.path()); err != nil {
		return nil, at, err
	}
	err = protect(func() error {
		idx, err = bleve.OpenUsing(x.path(), map[string]any{})
		return err
	})
	if err != nil {
		return nil, at, fmt.Errorf("%w: %w", errDamaged, err)
	}
	at, why, err := x.check(src, idx)
	if err == nil && why == "" {
		return idx, at, nil
	}
	err = errors.Join(err, protect(idx.Close))
	if err != nil {
		return nil, at, err
	}
	x.cfg.Logger.Info("the search index is made again", "why", why)
	if err := os.RemoveAll(x.path()); err != nil {
		return nil, at, err
	}
	return x.create(src)
}

// check reads the checkpoint of an index, and compares it with the log. why says why the
// index can't be used.
func (x *Index) check(src Source, idx bleve.Index) (at checkpoint, why string, err error) {
	var b []byte
	err = protect(func() error {
		b, err = idx.GetInternal(checkpointKey)
		return err
	})
	if err != nil {
		return at, "", fmt.Errorf("%w: %w", errDamaged, err)
	}
	identity, last := src.Applied()
	switch {
	case len(b) == 0 || cbor.Unmarshal(b, &at) != nil:
		return at, "it has no checkpoint", nil
	case at.Schema != Schema:
		return at, fmt.Sprintf("its schema is %d, not %d", at.Schema, Schema), nil
	case identity != "" && at.Identity != identity:
		return at, "it is of another log", nil
	case at.Seq > last:
		return at, "it is ahead of the projections", nil
	case at.Seq == 0:
		return at, "", nil
	}
	hash, err := src.Hash(at.Seq)
	if err != nil {
		return at, "", err
	}
	if hash != at.Hash {
		return at, fmt.Sprintf("record %d is another one", at.Seq), nil
	}
	return at, "", nil
}

// create makes an empty index.
//
// A crash in between leaves a folder that does not open, or that has no checkpoint: both
// are made again.
func (x *Index) create(src Source) (idx bleve.Index, at checkpoint, err error) {
	at = checkpoint{Schema: Schema}
	at.Identity, _ = src.Applied()
	value, err := cbor.Marshal(at)
	if err != nil {
		return nil, at, err
	}
	err = protect(func() error {
		if idx, err = bleve.NewUsing(x.path(), newMapping(), scorch.Name, "scorch", nil); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(x.path(), "index_meta.json"), 0o600); err != nil { // the library lets all read it
			return err
		}
		return idx.SetInternal(checkpointKey, value)
	})
	if err != nil && idx != nil {
		err = errors.Join(err, protect(idx.Close))
	}
	return idx, at, err
}

// checkFiles compares the segments with the checksums at their ends, which the library
// writes and does not read.
//
// A crash leaves a segment that was being written, by a batch or a merge. The library's list
// of files does not name it, and the library removes it when it opens. So a segment whose
// name is nowhere in the list is not looked at.
func checkFiles(ctx context.Context, dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, "store", "root.bolt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || filepath.Ext(path) != ".zap" || len(list) > 0 && !bytes.Contains(list, []byte(filepath.Base(path))) {
			return err
		}
		if err := checkFile(path); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		return nil
	})
}

func checkFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() < 4 {
		return fmt.Errorf("%w: %d bytes", errDamaged, st.Size())
	}
	sum := crc32.NewIEEE()
	if _, err := io.CopyN(sum, f, st.Size()-4); err != nil {
		return err
	}
	var want [4]byte
	if _, err := io.ReadFull(f, want[:]); err != nil {
		return err
	}
	if sum.Sum32() != binary.BigEndian.Uint32(want[:]) {
		return fmt.Errorf("%w: its checksum is another one", errDamaged)
	}
	return nil
}

// protect runs f. A panic or a fault of a mapped file in it is errDamaged: the library
// trusts its files.
func protect(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	return f()
}
