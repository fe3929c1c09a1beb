package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
)

// inProcess is a peer that is a library: its process is this one, so its CPU time holds the clients' too.
type inProcess struct{ dir string }

func (p inProcess) pids() []int    { return []int{os.Getpid()} }
func (p inProcess) dirs() []string { return []string{p.dir} }

// chain is the hash of a turn on its chain.
func chain(prev, payload []byte) []byte {
	h := sha256.New()
	h.Write(prev)
	h.Write(payload)
	return h.Sum(nil)
}

// rows is a Pebble database. It groups the syncs of its writers.
type rows struct {
	inProcess
	db *pebble.DB
}

func openPebble(_ context.Context, _ *run, _ load, dir string) (system, error) {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		return nil, err
	}
	return &rows{inProcess{dir}, db}, nil
}

func rowKey(client, i int) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, uint32(client)), uint64(i))
}

func (r *rows) append(_ context.Context, c, i int, t turn) error {
	return r.db.Set(rowKey(c, i), t.json(), pebble.Sync)
}

func (r *rows) check(ctx context.Context, l load, stored []int) (err error) {
	it, err := r.db.NewIterWithContext(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	it.First()
	for c, n := range stored {
		for i := 1; i <= n; i, _ = i+1, it.Next() {
			if !it.Valid() || !bytes.Equal(it.Key(), rowKey(c, i)) {
				return fmt.Errorf("turn %d of client %d is not there", i, c)
			}
			if !bytes.Equal(it.Value(), l.turn(c, i).json()) {
				return fmt.Errorf("turn %d of client %d has other content", i, c)
			}
		}
	}
	if it.Valid() {
		return errors.New("there are rows that nobody wrote")
	}
	return it.Error()
}

func (r *rows) close() error { return r.db.Close() }

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// sessionFiles are JSONL files, one a session, with a fsync for each line. They chain hashes as the ledger does.
type sessionFiles struct {
	inProcess
	files []*os.File
	heads [][]byte
}

type line struct {
	Prev string          `json:"prev"`
	Turn json.RawMessage `json:"turn"`
}

func openFiles(_ context.Context, _ *run, l load, dir string) (system, error) {
	s := &sessionFiles{inProcess: inProcess{dir}, heads: make([][]byte, l.clients)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for c := range l.clients {
		f, err := os.OpenFile(s.name(c), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.files = append(s.files, f)
	}
	d, err := os.Open(dir) // the names of the files are durable too
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *sessionFiles) name(c int) string { return filepath.Join(s.dir, fmt.Sprint(c, ".jsonl")) }

func (s *sessionFiles) append(_ context.Context, c, _ int, t turn) error {
	payload := t.json()
	b, err := json.Marshal(line{hex.EncodeToString(s.heads[c]), payload})
	if err != nil {
		return err
	}
	if _, err := s.files[c].Write(append(b, '\n')); err != nil {
		return err
	}
	s.heads[c] = chain(s.heads[c], payload)
	return s.files[c].Sync()
}

func (s *sessionFiles) check(_ context.Context, l load, stored []int) error {
	for c, n := range stored {
		b, err := os.ReadFile(s.name(c))
		if err != nil {
			return err
		}
		var prev []byte
		i := 0
		for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
			i++
			var got line
			if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
				return err
			}
			payload := l.turn(c, i).json()
			if !bytes.Equal(got.Turn, payload) || got.Prev != hex.EncodeToString(prev) {
				return fmt.Errorf("turn %d of client %d has other content", i, c)
			}
			prev = chain(prev, payload)
		}
		if i != n {
			return fmt.Errorf("client %d has %d turns, %d were acknowledged", c, i, n)
		}
	}
	return nil
}

func (s *sessionFiles) close() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
