package search

import (
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
	"strconv"
	"sync"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/keyword"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/registry"
	index "github.com/blevesearch/bleve_index_api"
	"github.com/fxamacker/cbor/v2"
)

// The fields of a document.
const (
	fieldSaid, fieldCalls, fieldOutput = "said", "calls", "output"
	fieldSeq                           = "seq" // breaks ties of the rank: newest first
)

// texts are the fields that a query looks in, with their weights.
var texts = []struct {
	field string
	boost float64
}{{fieldSaid, 1}, {fieldCalls, 0.8}, {fieldOutput, 0.5}}

// fieldsOf returns a document as the index takes it.
func fieldsOf(d *Document) map[string]any {
	seq, _ := d.place()
	return map[string]any{
		"kind": d.Kind, "tenant": d.Tenant, "agent": d.Agent, "session": d.Session, "segment": d.Segment, "depth": float64(d.Depth),
		"model": d.Model, "tool": d.Tools, "key": d.Keys, "time": float64(d.Time / 1e6), fieldSeq: float64(seq),
		fieldSaid: d.Said, fieldCalls: d.Calls, fieldOutput: d.Output,
	}
}

// DocumentID returns the id of a document: the position of its event, and its number
// within that.
func DocumentID(seq uint64, item uint64) string { return fmt.Sprintf("%d.%d", seq, item) }

// ParseDocumentID is the inverse of [DocumentID].
func ParseDocumentID(id string) (seq, item uint64, err error) {
	for i := range len(id) {
		if id[i] == '.' {
			seq, err = strconv.ParseUint(id[:i], 10, 64)
			item, err2 := strconv.ParseUint(id[i+1:], 10, 64)
			return seq, item, errors.Join(err, err2)
		}
	}
	return 0, 0, fmt.Errorf("%q is not the id of a document", id)
}

func (d *Document) place() (seq, item uint64) {
	seq, item, _ = ParseDocumentID(d.ID)
	return seq, item
}

// analyzerName is what the index calls [Words].
const analyzerName = "nexus-words"

// registered makes bleve know [Words]. Its registry is one of the process.
var registered = sync.OnceValue(func() error {
	return registry.RegisterAnalyzer(analyzerName, func(map[string]any, *registry.Cache) (analysis.Analyzer, error) { return analyzer{}, nil })
})

type analyzer struct{}

// Analyze implements bleve's Analyzer.
func (analyzer) Analyze(b []byte) analysis.TokenStream {
	words := Words(string(b))
	tokens := make([]analysis.Token, len(words))
	out := make(analysis.TokenStream, len(words))
	for i, w := range words {
		tokens[i] = analysis.Token{Term: []byte(w.Term), Start: w.Start, End: w.End, Position: w.Position}
		out[i] = &tokens[i]
	}
	return out
}

// newMapping says how documents are indexed: nothing is stored, only words and places.
func newMapping() *mapping.IndexMappingImpl {
	doc := bleve.NewDocumentStaticMapping()
	text := func(analyzer string, vectors bool) *mapping.FieldMapping {
		f := bleve.NewTextFieldMapping()
		f.Analyzer, f.Store, f.IncludeInAll, f.IncludeTermVectors, f.DocValues = analyzer, false, false, vectors, false
		return f
	}
	for _, t := range texts {
		doc.AddFieldMappingsAt(t.field, text(analyzerName, true))
	}
	for _, name := range []string{"kind", "tenant", "agent", "session", "segment", "model", "tool", "key"} {
		f := text(keyword.Name, false)
		f.SkipFreqNorm = true
		doc.AddFieldMappingsAt(name, f)
	}
	for _, name := range []string{"depth", "time", fieldSeq} {
		f := bleve.NewNumericFieldMapping()
		f.Store, f.IncludeInAll, f.DocValues = false, false, name == fieldSeq
		doc.AddFieldMappingsAt(name, f)
	}
	m := bleve.NewIndexMapping()
	m.DefaultMapping, m.DefaultAnalyzer, m.ScoringModel = doc, keyword.Name, index.BM25Scoring
	return m
}

// open opens the index of the folder if it is one of this log. Else it makes a new one.
// Errors: errDamaged.
func (x *Index) open(ctx context.Context, src Source) (idx bleve.Index, at checkpoint, err error) {
	if err := registered(); err != nil {
		return nil, at, err
	}
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
func checkFiles(ctx context.Context, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || filepath.Ext(path) != ".zap" {
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
