package responses

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
)

// A spool is the file of a response whose answer is not stored: a line that says which
// answers were lost before, then a line for each event. An event is written before any
// client sees it. The page cache is enough: what a kill of the process leaves is whole but
// for the last line, which nobody has seen. After a power cut the file may be gone; the
// ledger's part is durable then too.
type spool struct {
	file string
	f    *os.File
}

// spoolHead is the first line.
type spoolHead struct {
	Response string `json:"response"`
	Lost     int    `json:"lost"` // answers of this response that were lost before
}

const (
	spoolSuffix = ".events"
	// spoolAge is how long the file of a response without an answer is kept: that of one
	// that failed, was cancelled, or was lost.
	spoolAge = 30 * 24 * time.Hour
	// maxSpool bounds the events of a response: some five times the largest answer.
	maxSpool = 64 << 20
)

// openSpool begins the file of a response, in place of the one of an earlier try.
func openSpool(dir string, h spoolHead) (*spool, error) {
	name := filepath.Join(dir, h.Response+spoolSuffix)
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s := &spool{file: name, f: f}
	if err = s.line(encode(h)); err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

func (s *spool) line(b []byte) error {
	if s == nil {
		return nil
	}
	if len(b) > maxHeldData { // without a copy; what a kill leaves between the two is a line without an end
		if _, err := s.f.Write(b); err != nil {
			return err
		}
		b = nil
	}
	_, err := s.f.Write(append(bytes.Clone(b), '\n'))
	return err
}

// close ends the file; remove says that the answer is stored.
func (s *spool) close(remove bool) error {
	if s == nil {
		return nil
	}
	err := s.f.Close()
	if remove {
		err = errors.Join(err, os.Remove(s.file))
	}
	return err
}

// readSpool reads the file of a response; nil if there is none.
func readSpool(dir, id string) (*spoolHead, []Event, error) {
	f, err := os.Open(filepath.Join(dir, id+spoolSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r := bufio.NewReader(io.LimitReader(f, maxSpool+1<<20))
	var h *spoolHead
	var events []Event
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a last line without an end was not written whole, and nobody saw it
			break
		}
		if err != nil {
			return nil, nil, err
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if h == nil {
			h = new(spoolHead)
			if json.Unmarshal(line, h) != nil || h.Response != id {
				return nil, nil, fmt.Errorf("%w: the spool of %s", turns.ErrCorrupt, id)
			}
			continue
		}
		var w struct {
			Type string `json:"type"`
			Seq  int    `json:"sequence_number"`
		}
		if json.Unmarshal(line, &w) != nil || w.Seq != len(events) {
			break // after a power cut
		}
		events = append(events, Event{Seq: w.Seq, Type: w.Type, Data: line})
	}
	if h == nil {
		h = &spoolHead{Response: id}
	}
	return h, events, nil
}

// removeSpool removes the file of a response whose answer is stored: a crash came between.
func removeSpool(dir, id string) { _ = os.Remove(filepath.Join(dir, id+spoolSuffix)) }

// sweepSpool removes files that are older than spoolAge.
func sweepSpool(dir string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(e.Name(), responsePrefix) {
			continue
		}
		if now.Sub(info.ModTime()) > spoolAge || strings.HasSuffix(e.Name(), ".new") {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// doorFile names a door: a turn that waits for its answer says which door began it. One
// without a file, of this door, was cut off before the model was asked; one of another door
// may be at work.
const doorFile = "door"

// readDoorID reads the door's id, or makes one.
func readDoorID(dir string) (id turns.ID, err error) {
	name := filepath.Join(dir, doorFile)
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
	response *Response // of the newest event that has it
	items    []Item    // whole ones, and the beginnings of others, marked incomplete
	terminal bool
}

// fold reads the events of a response that nobody generates any more.
func fold(events []Event) folded {
	var out folded
	items := make(map[int]*partial)
	for _, ev := range events {
		var w wireEvent
		if ev.of != nil {
			w = *ev.of
		} else if json.Unmarshal(ev.Data, &w) != nil {
			continue
		}
		if w.Response != nil {
			out.response, out.terminal = w.Response, ev.isTerminal()
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
		out.items = append(out.items, items[i].item())
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

func (p *partial) add(w *wireEvent) {
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

func (p *partial) item() Item {
	var head struct {
		Type string `json:"type"`
	}
	if p.done || json.Unmarshal(p.raw, &head) != nil {
		return p.raw
	}
	text := p.text.String()
	switch head.Type {
	case "message":
		var m messageItem
		if json.Unmarshal(p.raw, &m) == nil {
			m.Status = incomplete
			if text != "" {
				c := outputText(text)
				if p.kind == "refusal" {
					c = refusalPart(text)
				}
				m.Content = []turns.Raw{encode(c)}
			}
			return encode(m)
		}
	case "function_call":
		var c callItem
		if json.Unmarshal(p.raw, &c) == nil {
			c.Status, c.Arguments = incomplete, text
			return encode(c)
		}
	case "reasoning":
		var r reasoningItem
		if json.Unmarshal(p.raw, &r) == nil && text != "" {
			r.Content = []textPart{{Type: "reasoning_text", Text: &text}}
			return encode(r)
		}
	}
	return p.raw
}
