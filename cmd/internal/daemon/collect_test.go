package daemon

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/collect"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/mark"
	"nexus/ledger/memlog"
	"nexus/turns"
)

var collections = flag.Int("collections", 4, "collections in a random life of a ledger")

const week = 7 * 24 * time.Hour

// collectLater collects as if the grace time were over, whatever the share.
func collectLater(t *testing.T, d *Daemon, step func(string)) collect.Report {
	t.Helper()
	return must[collect.Report](t)(d.storage.Collect(t.Context(), collect.Config{After: week, Now: time.Now().Add(2 * week), Step: step}))
}

func refPart(info *api.BlobInfo) turns.Message {
	return turns.Message{Role: turns.User, Parts: []turns.Part{{Type: turns.Text, Ref: &turns.BlobRef{Digest: info.Digest, Size: info.Size}}}}
}

// words returns n bytes of text that no other seed gives.
func words(seed uint64, n int) string {
	var b strings.Builder
	rng := rand.New(rand.NewPCG(seed, 1))
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", rng.Uint64())
	}
	return b.String()[:n]
}

// A request that comes late and names a blob that was collected is told to put it again. Then
// the same request stores one turn.
func TestALateRequestPutsACollectedBlobAgain(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	data := []byte(words(1, 300_000))
	info := must[*api.BlobInfo](t)(c.PutBlob(t.Context(), api.PutBlob{Session: s.ID, Data: data}))
	if out := collectLater(t, d, nil); out.Collected != 0 || out.Unreferenced == 0 {
		t.Fatalf("a blob that was put a moment ago: %+v", out)
	}
	stop(t, d, c)
	d, c = start(t, dir) // no request relies on it, and no cache holds it
	if out := collectLater(t, d, nil); out.Collected == 0 {
		t.Fatalf("%+v", out)
	}
	r := api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{refPart(info)}}
	_, err := c.Append(t.Context(), s.ID, r)
	if e := (*api.Error)(nil); !errors.As(err, &e) || e.Code != api.NotFound || e.Details["digest"] != info.Digest.String() || !strings.Contains(e.Message, "put it again") {
		t.Fatalf("%v, want not_found with the digest", err)
	}
	if again := must[*api.BlobInfo](t)(c.PutBlob(t.Context(), api.PutBlob{Session: s.ID, Data: data})); !reflect.DeepEqual(again, info) {
		t.Errorf("%+v, was %+v", again, info)
	}
	first := must[*api.Appended](t)(c.Append(t.Context(), s.ID, r))
	if second := must[*api.Appended](t)(c.Append(t.Context(), s.ID, r)); second.Position != first.Position {
		t.Errorf("stored twice: %s, %s", first.Position, second.Position)
	}
	stop(t, d, c)
	d, c = start(t, dir)
	// The turn holds the content itself, so the blob is collected again. The request is stored.
	if out := collectLater(t, d, nil); out.Collected == 0 {
		t.Errorf("%+v", out)
	}
	if third := must[*api.Appended](t)(c.Append(t.Context(), s.ID, r)); third.Position != first.Position || !third.Duplicate {
		t.Errorf("%+v, was %+v", third, first)
	}
	got := must[*api.Turn](t)(c.Turn(t.Context(), s.ID, r.ID))
	if text := got.Messages[0].Parts[0]; text.Content != string(data) {
		t.Errorf("%d bytes", len(text.Content))
	}
	if v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context())); !v.OK {
		t.Errorf("%+v", v)
	}
}

// A verification finds a blob that an event names and that is gone, also where a cache
// still holds it. To lose one, the test collects by a log that is empty.
func TestVerifyFindsAReferencedBlobThatIsGone(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	m := turns.TextMessage(turns.User, words(1, 700_000))
	a := must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{m}}))
	stop(t, d, c)
	d, c = start(t, dir)
	if v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context())); !v.OK || v.Blobs != 1 {
		t.Fatalf("%+v", v)
	}
	stop(t, d, c)
	d, c = start(t, dir)
	ref := must[*api.Turn](t)(c.Turn(t.Context(), s.ID, a.ID)).Messages[0].Parts[0].Ref
	must[[]byte](t)(c.Content(t.Context(), s.ID, ref)) // the cache of contents has the blob
	out, err := collect.Run(t.Context(), collect.Config{Data: dir, Log: new(memlog.Log), Blobs: d.storage.Log.Blobs(), Mark: d.storage.Mark, After: week, Now: time.Now().Add(2 * week)})
	if err != nil || out.Collected == 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context())); v.OK || v.Count != 1 {
		t.Errorf("%+v, want one problem", v)
	}
}

// A collection replaces the stream while a scrub reads it: that is no damage.
func TestAScrubBesideACollectionReportsNothing(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	m := turns.TextMessage(turns.User, words(1, 700_000))
	must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{m}}))
	for i := range 5 {
		must[*api.BlobInfo](t)(c.PutBlob(t.Context(), api.PutBlob{Session: s.ID, Data: []byte(words(uint64(i+2), 500_000))}))
	}
	stop(t, d, c)
	d, _ = start(t, dir)
	old := d.storage.Mark.Mark()
	if out := collectLater(t, d, nil); out.Collected == 0 {
		t.Fatalf("%+v", out)
	}
	damaged, err := disk.Scrub(t.Context(), dir, jetstream.BlobsStream(old.BlobStream), old.Blobs.Seq, func(int64) error { return nil })
	if damaged == nil && err == nil {
		t.Fatal("the old stream is still there")
	}
	if err := d.storage.Scrub(t.Context(), old, time.Minute); err != nil || d.ready() != nil {
		t.Errorf("a scrub that began before: %v, ready: %v", err, d.ready())
	}
	if err := d.storage.Scrub(t.Context(), d.storage.Mark.Mark(), time.Minute); err != nil {
		t.Error(err)
	}
}

// The repair of a folder after a collection works on the new stream and its copy, with the
// mark and without it.
func TestRepairAfterACollection(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	must[*api.BlobInfo](t)(c.PutBlob(t.Context(), api.PutBlob{Session: s.ID, Data: []byte(words(1, 100_000))}))
	for i := range 3 {
		m := turns.TextMessage(turns.User, words(uint64(i+2), 700_000))
		must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{m}}))
	}
	stop(t, d, c)
	d, c = start(t, dir)
	if out := collectLater(t, d, nil); out.Number != 1 {
		t.Fatalf("%+v", out)
	}
	want := must[*api.Context](t)(c.Context(t.Context(), s.ID, api.GetContext{Budget: 4_000_000}))
	stop(t, d, c)
	for _, marked := range []bool{true, false} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		change(t, largest(t, copied, jetstream.BlobsStream(1)), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		if !marked {
			if err := os.Remove(copied + "/" + folder.MarkFile); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := mend.Repair(t.Context(), mend.RepairConfig{Data: copied}); err != nil || len(out.Streams[1].Restored) == 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		d, c := start(t, copied)
		got := must[*api.Context](t)(c.Context(t.Context(), s.ID, api.GetContext{Budget: 4_000_000}))
		if got.Fingerprint != want.Fingerprint {
			t.Error("another context")
		}
		stop(t, d, c)
	}
}

// ledgerLife is a random life of a ledger: what was served once is served again.
type ledgerLife struct {
	t     *testing.T
	rng   *rand.Rand
	dir   string
	d     *Daemon
	c     *client.Client
	seed  uint64
	heads map[turns.ID]string        // fingerprint of each session's context
	loose map[turns.ID]*api.BlobInfo // a blob that no event names yet, by its session
	other []api.ExportRecord         // of another ledger
}

func (l *ledgerLife) text(n int) string { l.seed++; return words(l.seed, n) }

func (l *ledgerLife) pick() turns.ID {
	ids := slices.SortedFunc(maps.Keys(l.heads), turns.ID.Compare)
	return ids[l.rng.IntN(len(ids))]
}

func (l *ledgerLife) look(s turns.ID) string {
	l.t.Helper()
	return must[*api.Context](l.t)(l.c.Context(l.t.Context(), s, api.GetContext{Budget: 4_000_000})).Fingerprint
}

func (l *ledgerLife) say(s turns.ID, m turns.Message) {
	l.t.Helper()
	answer := turns.TextMessage(turns.Assistant, "yes")
	must[*api.Appended](l.t)(l.c.Append(l.t.Context(), s, api.AppendTurn{Messages: []turns.Message{m}, Response: &answer}))
	l.heads[s] = l.look(s)
}

func (l *ledgerLife) restart() {
	l.t.Helper()
	stop(l.t, l.d, l.c)
	l.d, l.c = start(l.t, l.dir)
}

// step makes one random change.
func (l *ledgerLife) step() {
	l.t.Helper()
	ctx := l.t.Context()
	switch op := l.rng.IntN(9); op {
	case 0, 1: // a large turn
		l.say(l.pick(), turns.TextMessage(turns.User, l.text(600_000)))
	case 2: // a blob that no event names
		s := l.pick()
		l.loose[s] = must[*api.BlobInfo](l.t)(l.c.PutBlob(ctx, api.PutBlob{Session: s, Data: []byte(l.text(50_000))}))
	case 3: // one that an event names at last, or that was collected
		for s, info := range l.loose {
			answer := turns.TextMessage(turns.Assistant, "yes")
			_, err := l.c.Append(ctx, s, api.AppendTurn{Messages: []turns.Message{refPart(info)}, Response: &answer})
			if e := (*api.Error)(nil); err != nil && (!errors.As(err, &e) || e.Code != api.NotFound) {
				l.t.Fatal(err)
			}
			if err == nil {
				l.heads[s] = l.look(s)
			}
			delete(l.loose, s)
			break
		}
	case 4: // large settings
		s := l.pick()
		must[*api.Session](l.t)(l.c.Set(ctx, s, api.SetSession{SessionSettings: api.SessionSettings{System: &api.System{{Content: l.text(80_000)}}}}))
		l.heads[s] = l.look(s)
	case 5: // a fork
		s := l.pick()
		if at := must[*api.Session](l.t)(l.c.Session(ctx, s)); at.Head != nil {
			f := must[*api.Session](l.t)(l.c.Fork(ctx, s, api.CreateFork{Turn: *at.Head}))
			l.say(f.ID, turns.TextMessage(turns.User, l.text(600_000)))
		}
	case 6: // an import: a part of it, or all
		n := 1 + l.rng.IntN(len(l.other))
		_, err := l.c.As(api.Operator).Import(ctx, l.other[:n])
		if err != nil {
			l.t.Fatal(err)
		}
		if n == len(l.other) {
			id := l.other[0].Ledger.Session
			l.heads[id] = l.look(id)
		}
	case 7:
		l.restart()
	case 8:
		s := must[*api.Session](l.t)(l.c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 4_000_000}}}))
		l.heads[s.ID] = l.look(s.ID)
	}
}

// check compares all that was served with what is served now, from the streams.
func (l *ledgerLife) check() {
	l.t.Helper()
	for s, want := range l.heads {
		if got := l.look(s); got != want {
			l.t.Errorf("session %s has another context", s)
		}
	}
	if v := must[*api.Verified](l.t)(l.c.As(api.Operator).Verify(l.t.Context())); !v.OK {
		l.t.Errorf("%+v", v)
	}
}

// A ledger lives at random, with forks, imports, restarts and kills, and collects between.
// What events name stays; what no event names goes, and the disk has it no more.
func TestCollectionsInARandomLife(t *testing.T) {
	l := &ledgerLife{t: t, rng: rand.New(rand.NewPCG(7, 7)), dir: t.TempDir(), heads: map[turns.ID]string{}, loose: map[turns.ID]*api.BlobInfo{}}
	there, tc := start(t, t.TempDir())
	from := must[*api.Session](t)(tc.Create(t.Context(), api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 4_000_000}}}))
	for i := range 2 {
		answer := turns.TextMessage(turns.Assistant, "yes")
		must[*api.Appended](t)(tc.Append(t.Context(), from.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, words(uint64(1000+i), 600_000))}, Response: &answer}))
	}
	for r, err := range tc.As(api.Operator).Export(t.Context(), from.ID) {
		if err != nil {
			t.Fatal(err)
		}
		l.other = append(l.other, r)
	}
	stop(t, there, tc)
	l.d, l.c = start(t, l.dir)
	first := must[*api.Session](t)(l.c.Create(t.Context(), api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 4_000_000}}}))
	l.heads[first.ID] = l.look(first.ID)
	kills := []string{"create", "read back", "commit", "committed", "remove"}
	var freed int64
	for round := range *collections {
		for range 8 {
			l.step()
		}
		if round%2 == 1 { // else what was put lately is held
			l.restart()
		}
		image, at := t.TempDir(), kills[l.rng.IntN(len(kills))]
		killed := false
		out := collectLater(t, l.d, func(step string) {
			if round%3 == 0 && step == at && !killed {
				killed = true
				if err := os.CopyFS(image, os.DirFS(l.dir)); err != nil { // what a kill leaves: each write is synced
					t.Fatal(err)
				}
			}
		})
		freed += out.Collected
		l.check()
		if killed {
			stop(t, l.d, l.c)
			l.dir = image
			l.d, l.c = start(t, l.dir)
			l.check()
		}
	}
	l.restart()
	before := must[mark.Sizes](t)(disk.Sizes(l.dir, l.d.storage.Mark.Mark().BlobStream)).Blobs
	out := collectLater(t, l.d, nil)
	l.restart()
	l.check()
	after := must[mark.Sizes](t)(disk.Sizes(l.dir, l.d.storage.Mark.Mark().BlobStream)).Blobs
	if left := collectLater(t, l.d, nil); left.Unreferenced != 0 || after > before-out.Collected/2 {
		t.Errorf("%+v; the files had %d bytes, then %d", left, before, after)
	}
	t.Logf("%d sessions, collected %d bytes, the stream is number %d", len(l.heads), freed, l.d.storage.Mark.Mark().BlobStream)
	if freed+out.Collected == 0 {
		t.Error("nothing was collected")
	}
}

func TestCollectAfterIsATimeOfAnHourOrMoreOrOff(t *testing.T) {
	for value, want := range map[string]time.Duration{"": week, "1h": time.Hour, "720h": 720 * time.Hour, "off": 0} {
		c := config.Config{CollectAfter: value}
		if err := c.Validate(); err != nil {
			t.Errorf("%q: %v", value, err)
		}
		if got, err := c.WithDefaults().CollectGrace(); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", value, got, err, want)
		}
	}
	for _, value := range []string{"59m", "-1h", "7", "on"} {
		if err := (config.Config{CollectAfter: value}).Validate(); err == nil || !strings.Contains(err.Error(), "collect_after") {
			t.Errorf("%q: %v", value, err)
		}
	}
}
