package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/turns"
)

var flips = flag.Int("backup-flips", 300, "changed bytes in TestEveryFlipIsFound")

var stored = time.Unix(1_800_000_000, 12345).UTC()

// record is a record of the log that is an event of no kind that matters here.
func record(seq uint64, payload string) blocks.Record {
	return blocks.Record{Seq: seq, Subject: fmt.Sprintf("nexus.log.00.default.s.%d", seq), Header: jetstream.LogHeader([]byte(payload)), Payload: []byte(payload), Stored: stored}
}

func chunk(seq uint64, payload string) blocks.Record {
	sum := sha256.Sum256([]byte(payload))
	header := "NATS/1.0\r\nNexus-Chunk-Sha256: " + hex.EncodeToString(sum[:]) + "\r\n\r\n"
	return blocks.Record{Seq: seq, Subject: fmt.Sprintf("nexus.blobs.default.%064d.0", seq), Header: []byte(header), Payload: []byte(payload), Stored: stored}
}

// memory is a ledger in memory.
type memory struct {
	log, blobs []blocks.Record
	number     uint64
	created    time.Time
	page       int                 // records of a page
	keys       map[turns.ID][]byte // nil bytes: destroyed
	noKeys     bool                // seal is off
}

func (m *memory) BackupState(context.Context) (*api.BackupState, error) {
	out := &api.BackupState{Ledger: "0198c0de-0000-7000-8000-000000000001", Created: api.Time(m.created), BlobStream: m.number}
	if n := len(m.log); n > 0 {
		out.Log = api.BackupEnd{Seq: uint64(n), Hash: turns.HashEvent(m.log[n-1].Payload)}
	}
	if n := len(m.blobs); n > 0 {
		out.Blobs = api.BackupEnd{Seq: uint64(n), Hash: sha256.Sum256(m.blobs[n-1].Payload)}
	}
	return out, nil
}

func (m *memory) ReadBackup(_ context.Context, r api.ReadBackup) (*api.BackupRecords, error) {
	out, all := new(api.BackupRecords), m.log
	if r.Stream == "blobs" {
		all = m.blobs
	}
	out.Next = min(r.Last, r.First+uint64(m.page)-1) + 1
	for _, rec := range all[r.First-1 : out.Next-1] {
		var err error
		if out.Frames, err = AppendRecord(out.Frames, Stream{r.Stream == "blobs", r.Number}, rec); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (m *memory) BackupKeys(_ context.Context, ids ...turns.ID) (*api.BackedUpKeys, error) {
	if m.noKeys {
		return nil, api.Errorf(api.Unsupported, nil, "it has no keys")
	}
	out := new(api.BackedUpKeys)
	for _, id := range ids {
		if k, ok := m.keys[id]; ok && k != nil {
			out.Keys = append(out.Keys, api.ExportKey{ID: id, Key: k})
		} else if ok {
			out.Erased = append(out.Erased, id)
		}
	}
	return out, nil
}

// grow adds records to both streams.
func (m *memory) grow(n int) {
	for range n {
		m.log = append(m.log, record(uint64(len(m.log)+1), fmt.Sprintf(`{"n":%d}`, len(m.log))))
		m.blobs = append(m.blobs, chunk(uint64(len(m.blobs)+1), strings.Repeat("x", len(m.blobs)%50)))
	}
}

func newMemory() *memory {
	m := &memory{created: stored, page: 3}
	m.grow(4)
	return m
}

func config(dir string) Config {
	return Config{File: filepath.Join(dir, "b"), Now: func() time.Time { return stored }}
}

// written returns a file of two runs.
func written(t *testing.T) []byte {
	t.Helper()
	c, m := config(t.TempDir()), newMemory()
	for range 2 {
		if _, err := Run(t.Context(), m, c); err != nil {
			t.Fatal(err)
		}
		m.grow(2)
	}
	b, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func check(t *testing.T, b []byte) (Report, []string) {
	t.Helper()
	var seen []string
	report, _, err := Check(t.Context(), bytes.NewReader(b), func(s Stream, r blocks.Record) error {
		seen = append(seen, fmt.Sprint(s, r.Seq, r.Subject, r.Stored, string(r.Header), string(r.Payload)))
		return nil
	})
	if errors.Is(err, ledger.ErrUnsupported) {
		return Report{State: Damaged}, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return report, seen
}

// Whatever byte changes, the file is not taken for a complete one, and no record that
// differs is passed on.
func TestEveryFlipIsFound(t *testing.T) {
	b := written(t)
	sound, want := check(t, b)
	if sound.State != Complete || sound.Runs != 2 || len(want) != 12 {
		t.Fatalf("%+v, %d records", sound, len(want))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range *flips {
		changed, at := bytes.Clone(b), rng.IntN(len(b))
		changed[at] ^= 1 << rng.IntN(8)
		report, got := check(t, changed)
		if report.State != Damaged {
			t.Fatalf("byte %d of %d is changed, and the file is %s", at, len(b), report.State)
		}
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("byte %d of %d is changed, and the records differ", at, len(b))
		}
	}
}

// Every part of a file that is cut off is noticed, but for whole runs.
func TestACutFileIsIncomplete(t *testing.T) {
	b := written(t)
	whole, _ := check(t, b)
	first := int64(0)
	for n := range b {
		report, _ := check(t, b[:n])
		switch {
		case report.State == Complete && first == 0:
			if first = int64(n); report.Runs != 1 {
				t.Errorf("%d bytes: %+v", n, report)
			}
		case report.State != Incomplete:
			t.Errorf("%d of %d bytes are %s", n, len(b), report.State)
		case report.Bytes != first:
			t.Errorf("%d bytes are complete through %d, want %d", n, report.Bytes, first)
		}
	}
	if first == 0 || whole.Bytes != int64(len(b)) {
		t.Errorf("the first run ends at %d, the second at %d of %d", first, whole.Bytes, len(b))
	}
}

// Records of one frame exchanged, left out or repeated have right checksums.
func TestFramesOutOfPlaceAreDamage(t *testing.T) {
	b := written(t)
	var frames [][]byte
	for in := bytes.NewReader(b[len(magic):]); ; {
		f, err := readFrame(in, nil)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	_, sound := check(t, b)
	join := func(fs ...[]byte) []byte { return append([]byte(magic), bytes.Join(fs, nil)...) }
	for i := range frames {
		without := append(append([][]byte{}, frames[:i]...), frames[i+1:]...)
		if report, _ := check(t, join(without...)); report.State == Complete && i < len(frames)-1 {
			t.Errorf("without frame %d the file is complete", i)
		}
		twice := append(append([][]byte{}, frames[:i+1]...), frames[i:]...)
		report, seen := check(t, join(twice...))
		if report.State != Damaged {
			t.Errorf("with frame %d twice the file is %s", i, report.State)
		}
		if len(seen) > len(sound) || !slices.Equal(seen, sound[:len(seen)]) {
			t.Errorf("with frame %d twice a record is passed on twice", i)
		}
	}
}

func TestARecordIsParsedAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := blocks.Record{Seq: rapid.Uint64().Draw(t, "seq"), Subject: rapid.String().Draw(t, "subject"), Payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
			Header: rapid.SliceOf(rapid.Byte()).Draw(t, "header"), Stored: time.Unix(0, rapid.Int64().Draw(t, "time")).UTC()}
		s := Stream{rapid.Bool().Draw(t, "blobs"), rapid.Uint64().Draw(t, "number")}
		b, err := AppendRecord(nil, s, want)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := readFrame(bytes.NewReader(b), nil)
		if err != nil {
			t.Fatal(err)
		}
		gotStream, got, err := parseRecord(frame)
		if len(want.Header) == 0 {
			want.Header = nil
		}
		if err != nil || gotStream != s || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v %+v, %v, want %+v %+v", gotStream, got, err, s, want)
		}
	})
}

func FuzzCheck(f *testing.F) {
	b := []byte(magic)
	b, _ = appendJSON(b, beginKind, Begin{Ledger: "x", Run: 1})
	b, _ = AppendRecord(b, Stream{}, record(1, "{}"))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		report, c, err := Check(t.Context(), bytes.NewReader(b), nil)
		if err == nil && (report.State == "" || c == nil || report.Bytes > int64(len(b))) {
			t.Errorf("%+v", report)
		}
	})
}

func TestALedgerOfAnotherInstantIsRefused(t *testing.T) {
	c, m := config(t.TempDir()), newMemory()
	if _, err := Run(t.Context(), m, c); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	m.created = m.created.Add(time.Hour)
	m.grow(1)
	if _, err := Run(t.Context(), m, c); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("%v, want a conflict", err)
	}
	if after, err := os.ReadFile(c.File); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the refused run changed the file (%v)", err)
	}
}

func TestADamagedFileIsNotGoneOnWith(t *testing.T) {
	c, m := config(t.TempDir()), newMemory()
	if _, err := Run(t.Context(), m, c); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(c.File, b, 0o600); err != nil {
		t.Fatal(err)
	}
	m.grow(1)
	if _, err := Run(t.Context(), m, c); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("%v, want corrupt", err)
	}
	if err := os.WriteFile(c.File, []byte("some other file of a person"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), m, c); !errors.Is(err, ledger.ErrUnsupported) {
		t.Errorf("%v, want unsupported", err)
	}
	if b, err := os.ReadFile(c.File); err != nil || string(b) != "some other file of a person" {
		t.Errorf("it was written over (%v)", err)
	}
}

// A second process may not write the file. A file that comes to the name meanwhile stays.
func TestAFileIsNotWrittenOver(t *testing.T) {
	c, m := config(t.TempDir()), newMemory()
	x, err := Open(t.Context(), c.File, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), m, c); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("two writers: %v", err)
	}
	if err := os.WriteFile(c.File, []byte("a person's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(x.StartRun("l", stored, false, stored)); err != nil {
		t.Fatal(err)
	}
	if _, err := x.EndRun(stored); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("a name that is taken: %v", err)
	}
	if b, err := os.ReadFile(c.File); err != nil || string(b) != "a person's" {
		t.Errorf("%q, %v", b, err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

func TestADamagedFileOfKeysIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "keys")
	want := Keys{Ledger: "l", Rows: []KeyRow{{ID: turns.ID{1}, Key: bytes.Repeat([]byte{7}, keyBytes)}, {ID: turns.ID{2}, Erased: true}}}
	if err := WriteKeys(name, want); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadKeys(name); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for at := range b {
		changed := bytes.Clone(b)
		changed[at] ^= 4
		if err := os.WriteFile(name, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadKeys(name); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("byte %d is changed: %+v, %v", at, got, err)
		}
	}
	if err := WriteKeys(name, Keys{Ledger: "l"}); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("a damaged file is written over: %v", err)
	}
	c := config(t.TempDir())
	c.Keys = name
	if _, err := Run(t.Context(), newMemory(), c); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("a run replaces a damaged file: %v", err)
	}
	if _, err := os.Stat(c.File + partSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run began a backup before it looked at the file of keys: %v", err)
	}
}

// shortPage answers with the beginning of a frame.
type shortPage struct{ *memory }

func (s shortPage) ReadBackup(ctx context.Context, r api.ReadBackup) (*api.BackupRecords, error) {
	out, err := s.memory.ReadBackup(ctx, r)
	if err == nil {
		out.Frames = out.Frames[:len(out.Frames)-1]
	}
	return out, err
}

func TestAPageThatEndsWithinARecordIsCorrupt(t *testing.T) {
	c, m := config(t.TempDir()), newMemory()
	if _, err := Run(t.Context(), m, c); err != nil {
		t.Fatal(err)
	}
	m.grow(1)
	if _, err := Run(t.Context(), shortPage{m}, c); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("%v, want corrupt", err)
	}
}

// A key that the ledger lost stays in the file of the keys; one that it destroyed does not.
func TestAKeyThatTheLedgerLostStaysInTheFileOfKeys(t *testing.T) {
	c, m := config(t.TempDir()), newMemory()
	c.Keys = c.File + ".keys"
	key := func(n byte) []byte { return bytes.Repeat([]byte{n}, keyBytes) }
	old := Keys{Ledger: "0198c0de-0000-7000-8000-000000000001", Rows: []KeyRow{{ID: turns.ID{1}, Key: key(1)}, {ID: turns.ID{2}, Key: key(2)}, {ID: turns.ID{3}, Key: key(3)}, {ID: turns.ID{4}, Erased: true}}}
	if err := WriteKeys(c.Keys, old); err != nil {
		t.Fatal(err)
	}
	m.keys = map[turns.ID][]byte{{1}: key(9), {2}: nil}
	out, err := Run(t.Context(), m, c)
	if err != nil {
		t.Fatal(err)
	}
	old.Rows[0].Key, old.Rows[1] = key(9), KeyRow{ID: turns.ID{2}, Erased: true}
	got, err := ReadKeys(c.Keys)
	if err != nil || !reflect.DeepEqual(got, old) {
		t.Errorf("%+v, %v, want %+v", got, err, old)
	}
	if out.Keys != 4 || out.KeysKept != 1 || out.KeysMissing != 0 {
		t.Errorf("%+v", out)
	}
	m.noKeys = true
	m.grow(1)
	if _, err := Run(t.Context(), m, c); !errors.Is(err, ledger.ErrUnsupported) {
		t.Errorf("a daemon without keys: %v, want unsupported", err)
	}
	if got, err := ReadKeys(c.Keys); err != nil || !reflect.DeepEqual(got, old) {
		t.Errorf("it replaced the keys: %+v, %v", got, err)
	}
}

// An older copy of the folder was put back, and got other blobs before the next event.
func TestALedgerWhoseBlobsWentAnotherWayIsRefused(t *testing.T) {
	c, m := config(t.TempDir()), newMemory()
	m.blobs = append(m.blobs, chunk(5, "one way"))
	if _, err := Run(t.Context(), m, c); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, why string) {
		t.Helper()
		if _, err := Run(t.Context(), m, c); !errors.Is(err, ledger.ErrConflict) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want a conflict", what, err)
		}
		if after, err := os.ReadFile(c.File); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s: the refused run changed the file (%v)", what, err)
		}
	}
	m.blobs[4] = chunk(5, "another way")
	refused("another last chunk", "different ways")
	m.blobs = append(m.blobs, chunk(6, "more"))
	refused("more chunks after it", "different ways")
	m.blobs = m.blobs[:4]
	refused("fewer chunks", "begin another file")
}

// wrongEnd says of the blobs what the records do not.
type wrongEnd struct{ *memory }

func (w wrongEnd) BackupState(ctx context.Context) (*api.BackupState, error) {
	st, err := w.memory.BackupState(ctx)
	st.Blobs.Hash[0] ^= 1
	return st, err
}

func TestBlobsThatWereNotAcknowledgedAreNoCompleteBackup(t *testing.T) {
	c, m := config(t.TempDir()), newMemory()
	if _, err := Run(t.Context(), wrongEnd{m}, c); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("%v, want corrupt", err)
	}
	if _, err := os.Stat(c.File); !os.IsNotExist(err) {
		t.Errorf("the file has its name: %v", err)
	}
}

// A power cut leaves zeros where bytes were that no fsync had covered: after a run, or from
// within a frame of the next one on. The file has its name already. The next run goes on.
func TestZerosThatAPowerCutLeftAreCutOff(t *testing.T) {
	c, m := config(t.TempDir()), newMemory()
	if _, err := Run(t.Context(), m, c); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	m.grow(2)
	if _, err := Run(t.Context(), m, c); err != nil {
		t.Fatal(err)
	}
	next, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	for n := len(whole); n < len(next); n++ { // so many bytes reached the disk
		for _, zeros := range []int{1, len(next) - n, len(next) - n + 100_000} {
			b := append(bytes.Clone(next[:n]), make([]byte, zeros)...)
			if bytes.Equal(b, next) {
				continue
			}
			if report, _ := check(t, b); report.State != Incomplete || report.Runs != 1 || report.Bytes != int64(len(whole)) {
				t.Fatalf("%d bytes of the second run and %d zeros: %+v", n-len(whole), zeros, report)
			}
		}
		if n%37 != 0 {
			continue
		}
		if err := os.WriteFile(c.File, append(bytes.Clone(next[:n]), make([]byte, 4096)...), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := Run(t.Context(), m, c); err != nil || out.Run != 2 {
			t.Fatalf("%d bytes of the second run, then zeros: %+v, %v", n-len(whole), out, err)
		}
		got, err := os.ReadFile(c.File)
		if err != nil || !bytes.Equal(got, next) {
			t.Fatalf("%d bytes of the second run, then zeros: the file differs (%v)", n-len(whole), err)
		}
	}
	for name, after := range map[string][]byte{"other bytes": []byte("some other bytes, and more of them"), "zeros, then other bytes": append(make([]byte, 5000), 1)} {
		if err := os.WriteFile(c.File, append(bytes.Clone(whole), after...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), m, c); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "begin another file") {
			t.Errorf("%s: %v, want corrupt", name, err)
		}
	}
}
