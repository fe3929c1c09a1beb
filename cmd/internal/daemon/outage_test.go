package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

// holdOutage lets no outage of a data folder end: the probe's file can't be made. The
// result ends that.
func holdOutage(t *testing.T, dir string) func() {
	t.Helper()
	name := filepath.Join(dir, folder.ProbeFile)
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// appended appends a turn and returns its id.
func appended(t *testing.T, c *client.Client, session turns.ID, text string) turns.ID {
	t.Helper()
	m := turns.TextMessage(turns.Assistant, "answer to "+text)
	a, err := c.Append(t.Context(), session, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}, Response: &m})
	if err != nil {
		t.Fatal(err)
	}
	return a.ID
}

// raw sends one request and returns the reply, which is not tried again.
func raw(t *testing.T, c *client.Client, verb, body string) string {
	t.Helper()
	m, err := c.Conn().Request("nexus.v1.default.main."+verb, []byte(body), untilTheTestEnds(t))
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	return string(m.Data)
}

// While the disk takes no writes, changes are refused in type, reads go on and say that
// they may be stale, and the daemon is not ready. When it takes writes again, everything
// goes on, on the same connections.
func TestAnOutageRefusesChangesAndServesReads(t *testing.T) {
	for name, begin := range map[string]func(*Daemon){
		"failed":  func(d *Daemon) { d.storage.DiskFailed(fmt.Errorf("%w: write x: %w", embed.ErrDisk, syscall.ENOSPC)) },
		"stalled": func(d *Daemon) { d.storage.Outage.Stall(errors.New("a write hangs")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d, c := start(t, dir)
			s, err := c.Create(t.Context(), api.CreateSession{})
			if err != nil {
				t.Fatal(err)
			}
			first := appended(t, c, s.ID, "before")
			before, err := c.Context(t.Context(), s.ID, api.GetContext{})
			if err != nil {
				t.Fatal(err)
			}
			unblock := holdOutage(t, dir)
			begin(d)
			for verb, body := range map[string]string{
				"turn.append." + s.ID.String():    `{"messages":[{"role":"user","parts":[{"type":"text","content":"x"}]}]}`,
				"session.create":                  `{}`,
				"compaction.run." + s.ID.String(): `{}`,
				"session.set." + s.ID.String():    `{"model":"m"}`,
				"blob.put":                        `{"session":"` + s.ID.String() + `","data":"eA=="}`,
			} {
				if got := raw(t, c, verb, body); !strings.Contains(got, `"code":"unavailable"`) || !strings.Contains(got, `"reason":"disk"`) {
					t.Errorf("%s: %s, want unavailable because of the disk", verb, got)
				}
			}
			for verb, body := range map[string]string{
				"session.get." + s.ID.String():    `{}`,
				"context.get." + s.ID.String():    `{}`,
				"turn.list." + s.ID.String():      `{}`,
				"turn.get." + s.ID.String():       `{"id":"` + first.String() + `"}`,
				"session.list":                    `{}`,
				"policy.list":                     `{}`,
				"lineage.tree." + s.ID.String():   `{}`,
				"session.export." + s.ID.String(): `{}`,
			} {
				if got := raw(t, c, verb, body); !strings.Contains(got, `"stale":true`) {
					t.Errorf("%s: %s, want a reply that may be stale", verb, got)
				}
			}
			if got, err := c.Context(t.Context(), s.ID, api.GetContext{}); err != nil || got.Fingerprint != before.Fingerprint {
				t.Errorf("context in the outage: %+v, %v; want fingerprint %v", got, err, before.Fingerprint)
			}
			if err := d.ready(); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("ready in the outage: %v, want why not", err)
			}
			if _, err := d.storage.Outage.Log(d.storage.Log, d.storage.Projections, nil).Append(t.Context(), "nexus.log.00.default.s.x", 0, nil); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("append of the engine's own: %v, want unavailable", err)
			}
			unblock()
			ctx, cancel := context.WithTimeout(t.Context(), untilTheTestEnds(t))
			defer cancel()
			id := api.NewID() // the client tries until the outage ends
			if _, err := c.Append(ctx, s.ID, api.AppendTurn{ID: id, Messages: []turns.Message{turns.TextMessage(turns.User, "during")}}); err != nil {
				t.Fatal(err)
			}
			if got := raw(t, c, "session.get."+s.ID.String(), `{}`); strings.Contains(got, "stale") {
				t.Errorf("after the outage: %s", got)
			}
			if err := d.ready(); err != nil {
				t.Errorf("ready after the outage: %v", err)
			}
			if n := c.Conn().Stats().Reconnects; n != 0 {
				t.Errorf("the client was disconnected %d times", n)
			}
			stop(t, d, c)
			_, c = start(t, dir)
			if got, err := c.Session(t.Context(), s.ID); err != nil || got.Depth != 2 || got.Head == nil || *got.Head != id {
				t.Errorf("after a restart: %+v, %v", got, err)
			}
			if v, err := c.As(api.Operator).Verify(t.Context()); err != nil || !v.OK {
				t.Errorf("verify: %+v, %v", v, err)
			}
		})
	}
}

// Writers that run when outages begin lose nothing that was acknowledged, whatever their
// outcome, and a retry with the same id stores a turn once.
func TestOutagesUnderWritersLoseNothing(t *testing.T) {
	d, c := start(t, t.TempDir())
	const writers = 4
	var over atomic.Bool // the outages are
	var wg sync.WaitGroup
	sessions, stored := make([]turns.ID, writers), make([]uint64, writers)
	for i := range sessions {
		s, err := c.Create(t.Context(), api.CreateSession{})
		if err != nil {
			t.Fatal(err)
		}
		sessions[i] = s.ID
	}
	for i, s := range sessions {
		wg.Go(func() {
			for ; !over.Load(); stored[i]++ {
				_, err := c.Append(t.Context(), s, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("question ", stored[i]))}})
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
			}
		})
	}
	end := func() uint64 {
		for {
			st, err := d.storage.Log.State(t.Context())
			if err == nil {
				return st.Last
			}
			if t.Failed() || !errors.Is(err, ledger.ErrUnavailable) { // a machine that pauses may have an outage of its own
				over.Store(true)
				t.Fatal(err)
			}
		}
	}
	goOn := func() {
		for before := end(); end() < before+writers*2 && !t.Failed(); {
		}
	}
	for range 3 {
		goOn()
		d.storage.DiskFailed(fmt.Errorf("%w: write x: %w", embed.ErrDisk, syscall.EIO))
		for d.storage.Outage.Active() != nil {
			runtime.Gosched()
		}
	}
	goOn()
	over.Store(true)
	wg.Wait()
	all := uint64(0)
	for i, s := range sessions {
		if got, err := c.Session(t.Context(), s); err != nil || got.Depth != stored[i] || got.Turns != stored[i] {
			t.Errorf("%+v, %v; want %d turns", got, err, stored[i])
		}
		all += stored[i]
	}
	if v, err := c.As(api.Operator).Verify(t.Context()); err != nil || !v.OK || v.Turns != all {
		t.Errorf("verify: %+v, %v; want %d turns", v, err, all)
	}
}

// A folder that lacks what was acknowledged when the disk takes writes again is not
// opened: the daemon stays, serves reads, and says what to do.
func TestAnOutageAfterWhichRecordsAreGoneStays(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	appended(t, c, s.ID, "one")
	appended(t, c, s.ID, "two")
	must[*api.Session](t)(c.Session(t.Context(), s.ID)) // the projections have both turns: the log will not
	unblock := holdOutage(t, dir)
	d.storage.DiskFailed(fmt.Errorf("%w: write x: %w", embed.ErrDisk, syscall.EIO))
	ends := recordEnds(t, dir, "NEXUS_LEDGER")
	if err := os.Truncate(largest(t, dir, "NEXUS_LEDGER"), ends[len(ends)-2]); err != nil {
		t.Fatal(err)
	}
	unblock()
	for tried := false; !tried; { // until the streams were closed for a look
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := d.storage.Log.Last(ctx, "nexus.log.00.default.s.x")
		cancel()
		tried = err != nil && !errors.Is(err, ledger.ErrNotFound)
	}
	if got := raw(t, c, "session.get."+s.ID.String(), `{}`); !strings.Contains(got, `"stale":true`) || !strings.Contains(got, `"turns":2`) {
		t.Errorf("a read: %s", got)
	}
	if got := raw(t, c, "session.create", `{}`); !strings.Contains(got, `"reason":"disk"`) {
		t.Errorf("a change: %s", got)
	}
	select {
	case err := <-d.Failed():
		t.Errorf("the daemon ends: %v", err)
	default:
	}
}

// Close during an outage ends, and the next start has everything.
func TestCloseDuringAnOutage(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	appended(t, c, s.ID, "one")
	unblock := holdOutage(t, dir)
	d.storage.DiskFailed(fmt.Errorf("%w: write x: %w", embed.ErrDisk, syscall.ENOSPC))
	stop(t, d, c)
	unblock()
	_, c = start(t, dir)
	if got, err := c.Session(t.Context(), s.ID); err != nil || got.Turns != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A collection has put another stream in the place of the first one, whose files are gone.
// An outage after it ends.
func TestAnOutageAfterACollectionEnds(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	must[*api.BlobInfo](t)(c.PutBlob(t.Context(), api.PutBlob{Session: s.ID, Data: []byte(words(1, 300_000))}))
	stop(t, d, c)
	d, c = start(t, dir)
	if out := collectLater(t, d, nil); out.Collected == 0 {
		t.Fatalf("%+v", out)
	}
	d.storage.DiskFailed(fmt.Errorf("%w: write x: %w", embed.ErrDisk, syscall.ENOSPC))
	id := api.NewID()
	first := must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{ID: id, Messages: []turns.Message{turns.TextMessage(turns.User, "meanwhile")}}))
	must[*api.BlobInfo](t)(c.PutBlob(t.Context(), api.PutBlob{Session: s.ID, Data: []byte(words(2, 300_000))}))
	if d.storage.Outage.Active() != nil {
		t.Error("an append was acknowledged in an outage")
	}
	stop(t, d, c)
	_, c = start(t, dir)
	if again := must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{ID: id, Messages: []turns.Message{turns.TextMessage(turns.User, "meanwhile")}})); again.Position != first.Position {
		t.Errorf("stored again: %s, %s", again.Position, first.Position)
	}
	verified(t, c)
}

// After a try to open everything again that failed, nothing is acknowledged until the next one,
// by whatever way an append reaches the log: the streams may be closed, or show what is not on
// the disk. The same holds if a write failed during the try.
func TestNothingIsAcknowledgedBetweenTriesToReopen(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	first := appended(t, c, s.ID, "before")
	must[*api.Session](t)(c.Session(t.Context(), s.ID)) // the projections have it: a read in the outage has no more than they
	unblock := holdOutage(t, dir)                       // so that nobody else opens anything
	d.storage.DiskFailed(fmt.Errorf("%w: write x: %w", embed.ErrDisk, syscall.EIO))
	refuses := func(when string) {
		t.Helper()
		if _, err := d.storage.Log.State(t.Context()); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: state of the log: %v, want unavailable", when, err)
		}
		if _, err := d.storage.Log.Append(t.Context(), "nexus.log.00.default.s.x", 0, []byte("x")); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: append: %v, want unavailable", when, err)
		}
		if err := d.storage.Log.Blobs().PutBlob(t.Context(), "default", turns.Hash{1}, []byte("x")); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: put blob: %v, want unavailable", when, err)
		}
		if got := raw(t, c, "session.get."+s.ID.String(), `{}`); !strings.Contains(got, `"stale":true`) || !strings.Contains(got, first.String()) {
			t.Errorf("%s: a read: %s, want what was there, and that it may be stale", when, got)
		}
	}
	kept := filepath.Join(dir, "streams")
	if err := os.Rename(kept, kept+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, nil, 0o600); err != nil { // in the way of the last step that opens the streams
		t.Fatal(err)
	}
	_, failures := d.storage.Outage.State()
	if ended, err := d.storage.Reopen(t.Context(), failures); ended || err == nil {
		t.Fatalf("reopen: %v, %v; want an error", ended, err)
	}
	refuses("after a try that failed")
	if err := errors.Join(os.Remove(kept), os.Rename(kept+".away", kept)); err != nil {
		t.Fatal(err)
	}
	if ended, err := d.storage.Reopen(t.Context(), failures-1); ended || err != nil {
		t.Fatalf("reopen: %v, %v; want that a write failed meanwhile", ended, err)
	}
	refuses("after a try during which a write failed")
	unblock()
	ctx, cancel := context.WithTimeout(t.Context(), untilTheTestEnds(t))
	defer cancel()
	if _, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "after")}}); err != nil {
		t.Fatal(err)
	}
	if got := must[*api.Session](t)(c.Session(t.Context(), s.ID)); got.Turns != 2 {
		t.Errorf("%+v", got)
	}
	verified(t, c)
}

// What is not found in an outage may have been acknowledged, where the projections lack it:
// the answer is that it is not known, and no "not found", which a caller takes for final.
func TestAnOutageDeniesNothingThatWasAcknowledged(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	appended(t, c, s.ID, "one")
	must[*api.Session](t)(c.Session(t.Context(), s.ID))
	d.storage.StopFollowing() // the projections are behind
	late := appended(t, c, s.ID, "two")
	unblock := holdOutage(t, dir)
	d.storage.DiskFailed(fmt.Errorf("%w: write x: %w", embed.ErrDisk, syscall.EIO))
	for verb, body := range map[string]string{
		"turn.get." + s.ID.String():     `{"id":"` + late.String() + `"}`,
		"turn.list." + s.ID.String():    `{"at":"` + late.String() + `"}`,
		"context.get." + s.ID.String():  `{"at":"` + late.String() + `"}`,
		"lineage.path." + s.ID.String(): `{"at":"` + late.String() + `"}`,
	} {
		if got := raw(t, c, verb, body); !strings.Contains(got, `"code":"unavailable"`) || !strings.Contains(got, `"reason":"disk"`) {
			t.Errorf("%s of a turn that was acknowledged: %s, want unavailable because of the disk", verb, got)
		}
	}
	if got := raw(t, c, "session.get."+s.ID.String(), `{}`); !strings.Contains(got, `"stale":true`) || !strings.Contains(got, `"turns":1`) {
		t.Errorf("the session: %s", got)
	}
	unblock()
	ctx, cancel := context.WithTimeout(t.Context(), untilTheTestEnds(t))
	defer cancel()
	if got, err := c.Turn(ctx, s.ID, late); err != nil || got.ID != late { // the client asks until the outage ends
		t.Errorf("%+v, %v", got, err)
	}
	for d.storage.Outage.Active() != nil {
		runtime.Gosched()
	}
	if got := raw(t, c, "turn.get."+s.ID.String(), `{"id":"`+api.NewID().String()+`"}`); !strings.Contains(got, `"code":"not_found"`) {
		t.Errorf("a turn that is not there, after the outage: %s", got)
	}
}
