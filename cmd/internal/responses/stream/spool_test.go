package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// folder is a folder of files, on a clock that a test moves.
func folder(t *testing.T, dir string, max int64, now *time.Time) *Spools {
	t.Helper()
	s, err := OpenSpools(dir, func() (seal.Key, error) { return seal.Key{1}, nil }, max, 24*time.Hour, func() time.Time { return *now })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func aResponse() string { return wire.ResponseID(turns.Ref{Session: api.NewID(), Turn: api.NewID()}) }

func eventLine(n int) []byte {
	return fmt.Appendf(nil, `{"type":"t","sequence_number":%d,"text":"secret"}`, n)
}

// write makes a file with events, and ends it.
func write(t *testing.T, s *Spools, id string, events int) {
	t.Helper()
	f, err := s.Open(SpoolHead{id, 3})
	if err != nil {
		t.Fatal(err)
	}
	for n := range events {
		if err := f.Line(eventLine(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(false); err != nil {
		t.Fatal(err)
	}
}

// onDisk is how many files the folder has, and how many bytes.
func onDisk(t *testing.T, dir string) (n int, size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		n, size = n+1, size+info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, size
}

// A file is sealed, and read again by the next process. Cut or altered anywhere, it gives the
// events before that and no error: the answer is lost in any case.
func TestAFileIsSealedAndReadAsFarAsItIsWhole(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	s, id := folder(t, dir, 1<<20, &now), aResponse()
	write(t, s, id, 5)
	name := filepath.Join(dir, id+spoolSuffix)
	whole, err := os.ReadFile(name)
	if err != nil || bytes.Contains(whole, []byte("secret")) || bytes.Contains(whole, []byte("sequence")) {
		t.Fatalf("%v, or the file shows what it has", err)
	}
	h, events, err := folder(t, dir, 1<<20, &now).Read(id)
	if err != nil || h.Lost != 3 || len(events) != 5 || string(events[4].Data) != string(eventLine(4)) {
		t.Errorf("%v %v, %d events", err, h, len(events))
	}
	for i := range whole {
		altered := bytes.Clone(whole)
		altered[i] ^= 0x41
		for _, b := range [][]byte{whole[:i], altered} {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			h, events, err := s.Read(id)
			if err != nil || h == nil || len(events) > 4 {
				t.Fatalf("at %d: %v %v, %d events", i, err, h, len(events))
			}
			for n, e := range events {
				if string(e.Data) != string(eventLine(n)) {
					t.Fatalf("at %d: event %d is %s", i, n, e.Data)
				}
			}
		}
	}
}

// The folder has a bound in bytes: the oldest files of responses that ended make room. What is
// under way goes on as long as there is room, and ends in a typed error.
func TestTheFolderIsBoundedInBytes(t *testing.T) {
	const most = 32 << 10
	dir, now := t.TempDir(), time.Now()
	s := folder(t, dir, most, &now)
	var ids []string
	for range 50 {
		ids = append(ids, aResponse())
		write(t, s, ids[len(ids)-1], 20)
		now = now.Add(time.Second)
		if _, size := onDisk(t, dir); size > most || size != s.Size() {
			t.Fatalf("%d bytes, %d counted, of %d", size, s.Size(), most)
		}
	}
	if h, _, err := s.Read(ids[0]); h != nil || err != nil {
		t.Errorf("the oldest is there: %v", err)
	}
	if _, events, err := s.Read(ids[49]); len(events) != 20 || err != nil {
		t.Errorf("the newest has %d events, %v", len(events), err)
	}
	f, err := s.Open(SpoolHead{aResponse(), 0})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = f.Line(make([]byte, 1000))
	}
	if n, size := onDisk(t, dir); !errors.Is(err, errSpoolFull) || n != 1 || size > most {
		t.Errorf("%v, %d files of %d bytes", err, n, size)
	}
	if err := f.Close(true); err != nil {
		t.Error(err)
	}
	if n, _ := onDisk(t, dir); n != 0 || s.Size() != 0 {
		t.Errorf("%d files, %d bytes counted", n, s.Size())
	}
	// A smaller bound holds from the start.
	for _, id := range ids[:5] {
		write(t, s, id, 20)
	}
	folder(t, dir, most/8, &now)
	if _, size := onDisk(t, dir); size > most/8 {
		t.Errorf("%d bytes at the next start", size)
	}
}

// The folder has a bound in age, and nothing of an older form stays in the clear. A retry
// begins its response's file anew.
func TestTheFolderIsBoundedInAge(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	s, old, young := folder(t, dir, 1<<20, &now), aResponse(), aResponse()
	write(t, s, old, 1)
	now = now.Add(23 * time.Hour)
	write(t, s, young, 1)
	now = now.Add(2 * time.Hour)
	if h, _, err := s.Read(old); h != nil || err != nil {
		t.Errorf("%v %v", h, err)
	}
	if h, _, err := s.Read(young); h == nil || err != nil {
		t.Errorf("%v %v", h, err)
	}
	write(t, s, young, 2)
	if _, size := onDisk(t, dir); size != s.Size() {
		t.Errorf("%d bytes, %d counted", size, s.Size())
	}
	if _, events, err := s.Read(young); len(events) != 2 || err != nil {
		t.Errorf("%d events, %v", len(events), err)
	}
	for _, name := range []string{aResponse() + ".events", aResponse() + spoolSuffix + ".new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(25 * time.Hour)
	folder(t, dir, 1<<20, &now)
	if n, _ := onDisk(t, dir); n != 0 {
		t.Errorf("%d files", n)
	}
}
