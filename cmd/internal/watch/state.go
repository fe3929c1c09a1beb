package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/wholefile"
	"nexus/turns"
)

// State is what a watch knows of its files. It is a cache: without it everything is read
// and offered to the ledger again, which stores nothing twice.
type State struct {
	Version int                   `json:"version"`
	Ledger  string                `json:"ledger"`
	Process int                   `json:"process"`
	Started time.Time             `json:"started"`
	Saved   time.Time             `json:"saved"`
	Waiting string                `json:"waiting,omitzero"` // why calls to the ledger are tried again now
	Limited string                `json:"limited,omitzero"` // why not all folders have notifications
	Files   map[string]*FileState `json:"files"`            // by path
	Erased  map[string]ErasedFile `json:"erased,omitempty"` // by a digest of the path
	Events  []Event               `json:"events"`           // the newest maxEvents, oldest first
}

// FileState is what a watch knows of one file.
type FileState struct {
	Agent    string     `json:"agent"`
	Format   string     `json:"format,omitzero"`
	Sessions []turns.ID `json:"sessions,omitempty"` // of the ledger, that the file holds; the newest last

	// As the file was when it was read last.
	Inode   uint64 `json:"inode"`
	Size    int64  `json:"size"`
	Written int64  `json:"written"` // nanoseconds
	Changed int64  `json:"changed"` // nanoseconds; 0: the system has no such time

	// The steps of the first Offset bytes are in the ledger. Prefix is their SHA-256.
	Offset int64  `json:"offset"`
	Prefix string `json:"prefix,omitzero"`
	Final  bool   `json:"final,omitzero"`  // those of the end of the file too
	Copied bool   `json:"copied,omitzero"` // read with the history that a fork copied
	// Rewritten says that the file was written anew since it was read, and that what it holds
	// now is not all in the ledger yet.
	Rewritten bool `json:"rewritten,omitzero"`

	Stored    int       `json:"stored"`             // events, in all
	Delivered time.Time `json:"delivered,omitzero"` // when something was stored last
	Failed    string    `json:"failed,omitzero"`    // why the rest is not in the ledger
	FailedAt  time.Time `json:"failed_at,omitzero"`
	Tries     int       `json:"tries,omitzero"` // since the last success
	Gone      time.Time `json:"gone,omitzero"`  // when the file was first missing
}

// Event is something that a source should not do, which deletes nothing in the ledger.
type Event struct {
	Time time.Time `json:"time"`
	What string    `json:"what"` // vanished, renamed, truncated, rewritten or replaced
	File string    `json:"file"`
	Text string    `json:"text,omitzero"`
}

const maxEvents = 200

// stateVersion is the form of the file.
const stateVersion = 1

// ErrRunning: another watch uses the state.
var ErrRunning = errors.New("another watch is running with this state")

func stateFile(dir string) string { return filepath.Join(dir, "state.json") }

// ReadState returns the state of a watch, and whether the watch is running. An error is
// [fs.ErrNotExist] where none was saved yet.
func ReadState(dir string) (s *State, running bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err == nil {
		running = isLocked(f)
		f.Close()
	}
	s, err = loadState(dir)
	return s, running, err
}

// loadState reads the state. The second line is the SHA-256 of the first: what a crash left
// of a file is no state.
func loadState(dir string) (*State, error) {
	b, err := os.ReadFile(stateFile(dir))
	if err != nil {
		return nil, err
	}
	text, sum, ok := strings.Cut(string(b), "\n")
	want := sha256.Sum256([]byte(text))
	if !ok || strings.TrimSpace(sum) != hex.EncodeToString(want[:]) {
		return nil, fmt.Errorf("%s is not whole", stateFile(dir))
	}
	s := new(State)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("%s: %w", stateFile(dir), err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("%s has version %d, this build reads %d", stateFile(dir), s.Version, stateVersion)
	}
	return s, nil
}

// encode returns the state as its file has it.
func (s *State) encode() ([]byte, error) {
	b, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return append(append(b, '\n'), hex.EncodeToString(sum[:])+"\n"...), nil
}

// saveState replaces the state in a folder. A crash leaves the one before, or this one.
func saveState(dir string, encoded []byte) error {
	return wholefile.Write(stateFile(dir), 0o600, wholefile.Bytes(encoded))
}

func newState(ledger string) *State {
	return &State{Version: stateVersion, Ledger: ledger, Files: make(map[string]*FileState)}
}

// session returns a session that the file holds; zero: nothing of it is stored.
func (f *FileState) session() (id turns.ID) {
	if n := len(f.Sessions); n > 0 {
		id = f.Sessions[n-1]
	}
	return id
}

// sameFile reports whether a file is as it was when f was made: nobody wrote to it.
func (f *FileState) sameFile(info fs.FileInfo) bool {
	inode, changed := identity(info)
	return f.Inode == inode && f.Size == info.Size() && f.Written == info.ModTime().UnixNano() && f.Changed == changed
}

func (f *FileState) note(info fs.FileInfo) {
	f.Inode, f.Changed = identity(info)
	f.Size, f.Written = info.Size(), info.ModTime().UnixNano()
}
