package search

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nexus/ledger"
	"nexus/turns"
)

// fakeSource is a log of documents in memory. Record i has docs[i-1].
type fakeSource struct {
	mu     sync.Mutex
	docs   [][]Document
	erased map[string]bool
	log    string
	more   chan struct{}
	before func(seq uint64) error // called before each read
}

func newSource(docs ...[]Document) *fakeSource {
	return &fakeSource{docs: docs, erased: map[string]bool{}, log: "log-1", more: make(chan struct{})}
}

func (s *fakeSource) Applied() (string, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log, uint64(len(s.docs))
}

func (s *fakeSource) WaitFor(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		n, more := uint64(len(s.docs)), s.more
		s.mu.Unlock()
		if n >= seq {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ledger.ErrUnavailable
		}
	}
}

func (s *fakeSource) Hash(seq uint64) (turns.Hash, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return turns.HashEvent(fmt.Append(nil, seq, s.docs[seq-1])), nil
}

func (s *fakeSource) Documents(_ context.Context, seq uint64) ([]Document, error) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(seq); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.docs[seq-1]), func(d Document) bool {
		return slices.ContainsFunc(d.Keys, func(k string) bool { return s.erased[k] })
	}), nil
}

func (s *fakeSource) Erased(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.erased[key]
}

func (s *fakeSource) add(docs ...Document) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range docs {
		docs[i].ID = DocumentID(uint64(len(s.docs)+1), uint64(i))
	}
	s.docs = append(s.docs, docs)
	close(s.more)
	s.more = make(chan struct{})
	return uint64(len(s.docs))
}

// turnOf returns a turn of tenant default and agent alice.
func turnOf(session, text string) Document {
	return Document{Kind: "turn", Tenant: "default", Agent: "alice", Session: session, Segment: session + "/1", Depth: 1, Keys: []string{session}, Said: []string{text}}
}

// start runs an index over a folder; stop ends it.
func start(t testing.TB, dir string, src Source, batch int) (x *Index, stop func()) {
	t.Helper()
	x = New(Config{Dir: dir, BatchRecords: batch, Retry: time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { x.Run(ctx, src); close(done) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return x, stop
}

// open runs an index until it has all of src.
func open(t testing.TB, dir string, src *fakeSource, batch int) (x *Index, stop func()) {
	t.Helper()
	x, stop = start(t, dir, src, batch)
	caughtUp(t, x, src)
	return x, stop
}

func caughtUp(t testing.TB, x *Index, src *fakeSource) {
	t.Helper()
	_, last := src.Applied()
	if err := x.WaitFor(t.Context(), last); err != nil {
		t.Fatal(err)
	}
}

func search(t testing.TB, x *Index, text string, f Filter) (ids []string) {
	t.Helper()
	q, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if f.Tenant == "" {
		f.Tenant = "default"
	}
	r, err := x.Search(t.Context(), q, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.Hits {
		seq, item, err := ParseDocumentID(h.ID)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, fmt.Sprintf("%d.%d", seq, item))
	}
	return ids
}

// corpus returns a source of n records with random words, and some without documents.
func corpus(n int) *fakeSource {
	rng := rand.New(rand.NewPCG(3, 9))
	src := newSource()
	for i := range n {
		if i%7 == 3 {
			src.add()
			continue
		}
		var words []string
		for range 3 + rng.IntN(20) {
			words = append(words, fmt.Sprintf("w%d", rng.IntN(40)))
		}
		src.add(turnOf(fmt.Sprintf("s%d", i%5), strings.Join(words, " ")), turnOf("m", words[0]))
	}
	return src
}

// answers returns what an index says to many queries.
func answers(t *testing.T, x *Index) (out []string) {
	for i := range 40 {
		for _, q := range []string{fmt.Sprintf("w%d", i), fmt.Sprintf("w%d w%d", i, (i*7)%40), fmt.Sprintf(`"w%d w%d"`, i, (i*3)%40)} {
			ids := search(t, x, q, Filter{})
			slices.Sort(ids) // scores depend on how documents lie in segments
			out = append(out, q+": "+strings.Join(ids, " "))
		}
	}
	return out
}

// logged is a logger that keeps what it is given.
func logged() (*slog.Logger, *bytes.Buffer) {
	b := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(b, nil)), b
}
