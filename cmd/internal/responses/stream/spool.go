package stream

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// A spool is the file of a response whose answer is not stored: which answers were lost
// before, then each event. An event is written before any client sees it. The page cache is
// enough: what a kill of the process leaves is whole but for the last frame, which nobody has
// seen. After a power cut the file may be gone; the ledger's part is durable then too.
//
// A file is a list of frames, each a length and a sealed text. The first is the file's own
// key, sealed under the ledger's; the others are sealed under the file's key, each for its
// place.
type Spool struct {
	of     *Spools
	id     string // of the response
	f      *os.File
	key    seal.Key
	frames int
	begin  int64 // where the events begin
}

// SpoolHead is the first text after the key.
type SpoolHead struct {
	Response string `json:"response"`
	Lost     int    `json:"lost"` // answers of this response that were lost before
}

const (
	spoolSuffix = ".spool"
	// defaultSpoolAge is how long the file of a response without an answer is kept: that of
	// one that failed, was cancelled, or was lost.
	DefaultSpoolAge   = 30 * 24 * time.Hour
	DefaultSpoolBytes = 512 << 20
	// maxSpool bounds the events of a response: some five times the largest answer.
	MaxSpool = 64 << 20
)

// Spools is the folder of the files, bounded in bytes and age: the oldest files of responses
// that ended make room for the events of those under way. Safe for concurrent use.
type Spools struct {
	dir string
	key func() (seal.Key, error) // of the ledger
	max int64
	age time.Duration
	now func() time.Time

	mu    sync.Mutex
	bytes int64
	files map[string]*spooled // by response
}

// spooled is what is known of a file.
type spooled struct {
	size  int64
	ended time.Time // zero: it is written

	erased bool // its session is: it goes when it ends
}

// errSpoolFull ends a response whose events have no room.
var errSpoolFull = &wire.Error{Status: http.StatusServiceUnavailable, Type: wire.ServerError, Code: "spool_full", RetryAfter: time.Second,
	Message: "The folder of answers that are not stored yet is full."}

// OpenSpools reads the folder. What was cut off when a file began is removed.
func OpenSpools(dir string, key func() (seal.Key, error), max int64, age time.Duration, now func() time.Time) (*Spools, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Spools{dir: dir, key: key, max: max, age: age, now: now, files: make(map[string]*spooled)}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(e.Name(), wire.ResponsePrefix) {
			continue
		}
		if id, ok := strings.CutSuffix(e.Name(), spoolSuffix); ok {
			s.files[id] = &spooled{size: info.Size(), ended: info.ModTime()}
			s.bytes += info.Size()
		} else if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.removeOld(); err != nil {
		return nil, err
	}
	return s, s.makeRoom(0)
}

func (s *Spools) name(id string) string { return filepath.Join(s.dir, id+spoolSuffix) }

// makeRoom removes the oldest files of responses that ended, until n more bytes fit, and then
// some, so that not each event looks through the folder. The caller holds mu. Errors:
// errSpoolFull, and those of the folder.
func (s *Spools) makeRoom(n int64) error {
	if s.bytes+n <= s.max {
		return nil
	}
	var ended []string
	for id, f := range s.files {
		if !f.ended.IsZero() {
			ended = append(ended, id)
		}
	}
	slices.SortFunc(ended, func(a, b string) int { return s.files[a].ended.Compare(s.files[b].ended) })
	for _, id := range ended {
		if s.bytes+n <= s.max-s.max/8 {
			break
		}
		if err := s.forget(id); err != nil {
			return err
		}
	}
	if s.bytes+n > s.max {
		return errSpoolFull
	}
	return nil
}

// removeOld removes the files that are too old. The caller holds mu.
func (s *Spools) removeOld() error {
	for id := range s.files {
		if s.isOld(id) {
			if err := s.forget(id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Spools) isOld(id string) bool {
	f := s.files[id]
	return f != nil && !f.ended.IsZero() && s.now().Sub(f.ended) > s.age
}

// forget removes a file. The caller holds mu.
func (s *Spools) forget(id string) error {
	if err := os.Remove(s.name(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f := s.files[id]; f != nil {
		s.bytes -= f.size
		delete(s.files, id)
	}
	return nil
}

// Remove removes the file of a response, if there is one.
func (s *Spools) Remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.forget(id) // one that stays is removed when it is too old
}

// Erase removes the files of the responses of a session, and returns how many are removed now. One that is being
// written is removed when it ends: done is false until then.
func (s *Spools) Erase(session turns.ID) (n int, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done = true
	for id, f := range s.files {
		if r, ok := wire.ParseResponseID(id); !ok || r.Session != session {
			continue
		}
		if f.ended.IsZero() {
			f.erased, done = true, false
			continue
		}
		if err := s.forget(id); err != nil {
			return n, false, err
		}
		n++
	}
	return n, done, nil
}

// EraseFiles removes the files of the responses of a session from a folder that no Spools has open, and returns how many.
func EraseFiles(dir string, session turns.ID) (n int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, e := range entries {
		id, _, _ := strings.Cut(e.Name(), spoolSuffix)
		if r, ok := wire.ParseResponseID(id); !ok || r.Session != session {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		n++
	}
	return n, nil
}

// Expire removes what is too old.
func (s *Spools) Expire() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removeOld()
}

// Size returns how many bytes the files have.
func (s *Spools) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Open begins the file of a response, in place of the one of an earlier try.
func (s *Spools) Open(h SpoolHead) (_ *Spool, err error) {
	out := &Spool{of: s, id: h.Response}
	if _, err := rand.Read(out.key[:]); err != nil {
		return nil, err
	}
	ledger, err := s.key()
	if err != nil {
		return nil, err
	}
	sealed, err := seal.Token(ledger, out.key[:], rand.Reader, "response events", h.Response)
	if err != nil {
		return nil, err
	}
	name := s.name(h.Response)
	if out.f, err = os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if earlier := s.files[h.Response]; earlier != nil {
		s.bytes -= earlier.size
	}
	s.files[h.Response] = new(spooled)
	s.mu.Unlock()
	if err = out.frame(sealed); err == nil {
		err = out.Line(wire.Encode(h))
	}
	if err == nil {
		out.begin, err = out.f.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(name+".new"), out.Close(true))
	}
	return out, nil
}

// Line appends a text.
func (s *Spool) Line(b []byte) error {
	if s == nil {
		return nil
	}
	sealed, err := seal.Token(s.key, b, rand.Reader, "event", strconv.Itoa(s.frames))
	if err != nil {
		return err
	}
	s.frames++
	return s.frame(sealed)
}

// frame appends a sealed text. What a kill leaves of it is a frame without an end.
func (s *Spool) frame(sealed []byte) error {
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(len(sealed)))
	size := int64(n + len(sealed))
	s.of.mu.Lock()
	err := s.of.makeRoom(size)
	if f := s.of.files[s.id]; err == nil && f != nil {
		f.size += size
		s.of.bytes += size
	}
	s.of.mu.Unlock()
	if err != nil {
		return err
	}
	if len(sealed) <= maxHeldData {
		_, err = s.f.Write(append(head[:n], sealed...))
		return err
	}
	if _, err = s.f.Write(head[:n]); err == nil {
		_, err = s.f.Write(sealed)
	}
	return err
}

// DropEvents removes the events so far from the file. Numbers of later ones may leave a gap.
func (s *Spool) DropEvents() error {
	if s == nil {
		return nil
	}
	if _, err := s.f.Seek(s.begin, io.SeekStart); err != nil {
		return err
	}
	if err := s.f.Truncate(s.begin); err != nil {
		return err
	}
	s.frames = 1
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if f := s.of.files[s.id]; f != nil {
		s.of.bytes += s.begin - f.size
		f.size = s.begin
	}
	return nil
}

// Close ends the file; remove says that nobody needs it: the answer is stored.
func (s *Spool) Close(remove bool) error {
	if s == nil {
		return nil
	}
	err := s.f.Close()
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	f := s.of.files[s.id]
	if remove || f != nil && f.erased {
		return errors.Join(err, s.of.forget(s.id))
	}
	if f != nil {
		f.ended = s.of.now()
	}
	return err
}

// Read reads the file of a response; nil if there is none. Of one that is damaged, or sealed
// for another ledger, it returns what can be read: the answer is lost in any case.
func (s *Spools) Read(id string) (*SpoolHead, []Event, error) {
	s.mu.Lock()
	old := s.isOld(id)
	s.mu.Unlock()
	if old {
		s.Remove(id)
	}
	f, err := os.Open(s.name(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	h, size := &SpoolHead{Response: id}, uint64(info.Size())
	r := bufio.NewReader(io.LimitReader(f, MaxSpool+1<<24))
	ledger, err := s.key()
	if err != nil {
		return nil, nil, err
	}
	sealed, err := nextFrame(r, size)
	if err != nil {
		return h, nil, ignoreEnd(err)
	}
	var key seal.Key
	if b, err := seal.OpenToken(ledger, sealed, "response events", id); err != nil || copy(key[:], b) != len(key) {
		return h, nil, nil
	}
	var events []Event
	for n := 0; ; n++ {
		if sealed, err = nextFrame(r, size); err != nil {
			return h, events, ignoreEnd(err)
		}
		text, err := seal.OpenToken(key, sealed, "event", strconv.Itoa(n))
		if err != nil { // after a power cut
			return h, events, nil
		}
		if n == 0 {
			if json.Unmarshal(text, h) != nil || h.Response != id {
				return &SpoolHead{Response: id}, nil, nil
			}
			continue
		}
		var w struct {
			Type string `json:"type"`
			Seq  int    `json:"sequence_number"`
		}
		if json.Unmarshal(text, &w) != nil || w.Seq < NextSeq(events) {
			return h, events, nil
		}
		events = append(events, Event{Seq: w.Seq, Type: w.Type, Data: text})
	}
}

// NextSeq is the number of the event behind events.
func NextSeq(events []Event) int {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq + 1
}

// nextFrame reads a frame of at most most bytes. io.EOF: there is none, or its end was not written.
func nextFrame(r *bufio.Reader, most uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, io.EOF
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return b, err
}

// ignoreEnd is nil for the end of a file: a last frame without an end was not written whole,
// and nobody saw it.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// serverFile names a server: a turn that waits for its answer says which server began it. One
// without a file, of this server, was cut off before the model was asked; one of another server
// may be at work.
const serverFile = "door"

// ReadServerID reads the server's id, or makes one.
func ReadServerID(dir string) (id turns.ID, err error) {
	name := filepath.Join(dir, serverFile)
	b, err := os.ReadFile(name)
	if err == nil {
		if id, err = turns.ParseID(strings.TrimSpace(string(b))); err == nil {
			return id, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	id = api.NewID()
	if err := os.WriteFile(name+".new", []byte(id.String()+"\n"), 0o600); err != nil {
		return id, err
	}
	return id, os.Rename(name+".new", name)
}

// folded is what the events of a response add up to.
type folded struct {
	Response *wire.Response // of the newest event that has it
	Items    []wire.Item    // whole ones, and the beginnings of others, marked incomplete
	Terminal bool
}

// Fold reads the events of a response that nobody generates any more.
func Fold(events []Event) folded {
	var out folded
	items := make(map[int]*partial)
	for _, ev := range events {
		var w WireEvent
		if ev.Of != nil {
			w = *ev.Of
		} else if json.Unmarshal(ev.Data, &w) != nil {
			continue
		}
		if w.Response != nil {
			out.Response, out.Terminal = w.Response, ev.isTerminal()
		}
		if w.OutputIndex == nil {
			continue
		}
		p := items[*w.OutputIndex]
		if p == nil {
			p = new(partial)
			items[*w.OutputIndex] = p
		}
		p.add(&w)
	}
	for i := 0; items[i] != nil; i++ {
		out.Items = append(out.Items, items[i].item())
	}
	return out
}

// partial is an item of which some events are known.
type partial struct {
	raw  turns.Raw
	done bool
	text strings.Builder
	kind string // refusal
}

func (p *partial) add(w *WireEvent) {
	switch w.Type {
	case "response.output_item.added":
		p.raw = w.Item
	case "response.output_item.done":
		p.raw, p.done = w.Item, true
	case "response.refusal.delta":
		p.kind = "refusal"
		fallthrough
	case "response.output_text.delta", "response.function_call_arguments.delta", "response.reasoning.delta":
		if w.Delta != nil {
			p.text.WriteString(*w.Delta)
		}
	}
}

func (p *partial) item() wire.Item {
	var head struct {
		Type string `json:"type"`
	}
	if p.done || json.Unmarshal(p.raw, &head) != nil {
		return p.raw
	}
	text := p.text.String()
	switch head.Type {
	case "message":
		var m wire.MessageItem
		if json.Unmarshal(p.raw, &m) == nil {
			m.Status = wire.Incomplete
			if text != "" {
				c := wire.OutputText(text)
				if p.kind == "refusal" {
					c = wire.RefusalPart(text)
				}
				m.Content = []turns.Raw{wire.Encode(c)}
			}
			return wire.Encode(m)
		}
	case "function_call":
		var c wire.CallItem
		if json.Unmarshal(p.raw, &c) == nil {
			c.Status, c.Arguments = wire.Incomplete, text
			return wire.Encode(c)
		}
	case "reasoning":
		var r wire.ReasoningItem
		if json.Unmarshal(p.raw, &r) == nil && text != "" {
			r.Content = []wire.TextPart{{Type: "reasoning_text", Text: &text}}
			return wire.Encode(r)
		}
	}
	return p.raw
}
