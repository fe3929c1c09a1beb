package archive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/rawexport"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// Archive is what was found in an archive.
type Archive struct {
	File    string     `json:"file"`
	Ledger  string     `json:"ledger,omitempty,omitzero"`
	Session turns.ID   `json:"session,omitzero"`
	Channel string     `json:"channel,omitempty,omitzero"` // of an export of external events
	Events  int        `json:"events"`
	Turns   int        `json:"turns"`           // that are shown
	Chains  []turns.ID `json:"chains"`          // sessions with events in it, in their order
	Error   string     `json:"error,omitempty"` // the first fault
}

// Line is what was found, for a person.
func (a *Archive) Line() string {
	result := terminal.Good.Render("sound")
	if a.Error != "" {
		result = terminal.Bad.Render("NOT SOUND")
	}
	if a.Channel != "" {
		return fmt.Sprintf("%s: %s: %s of channel %s\n", prose.Printable(a.File), result, prose.Plural(uint64(a.Events), "event"), prose.Printable(a.Channel))
	}
	return fmt.Sprintf("%s: %s: %s of %s, %s\n", prose.Printable(a.File), result, prose.Plural(uint64(a.Events), "event"), prose.Plural(uint64(len(a.Chains)), "session"), prose.Plural(uint64(a.Turns), "readable turn"))
}

// Check reads an archive or an export to its end, or to the first fault, which
// is [api.Corrupt].
func Check(name string) (*Archive, error) {
	a := &Archive{File: name, Chains: []turns.ID{}}
	f, err := os.Open(name)
	if err != nil {
		return a, fault.Usage(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return a, fault.Usage(fmt.Errorf("%s is a folder: name its files", name))
	}
	r, err := transcriptfile.Gunzipped(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return a, a.fault(1, err)
	}
	chk := archiveCheck{Archive: a, pieces: make(map[turns.Hash][]byte)}
	for n := 1; ; n++ {
		text, err := rawexport.ReadLine(r)
		if err != nil && (err != io.EOF || len(text) > 0) {
			if err == io.EOF && n == 1 && isOther(name, text) && turns.DecodeJSON(text, new(any)) == nil {
				return a, notOurs(name)
			}
			if err == io.EOF {
				err = errors.New("the line is cut off")
			}
			return a, a.fault(n, err)
		}
		if err == io.EOF {
			if n == 1 {
				a.Error = "the file is empty"
				return a, &api.Error{Code: api.Corrupt, Message: a.File + ": " + a.Error}
			}
			if a.Events == 0 {
				return a, a.fault(n, errors.New("the file ends before its first event"))
			}
			return a, nil
		}
		if x, ok := exportedEvent(text); ok && (n == 1 || a.Channel != "") {
			if err := chk.received(&x); err != nil {
				return a, a.fault(n, err)
			}
			continue
		}
		var l rawexport.Line
		err = turns.DecodeJSON(text, &l)
		if n == 1 && l.Archive == nil && l.Ledger == nil && isOther(name, text) {
			return a, notOurs(name)
		}
		if err != nil {
			return a, a.fault(n, err)
		}
		if err := chk.line(&l); err != nil {
			return a, a.fault(n, err)
		}
	}
}

// isOther reports whether the first line of a file is that of another kind of file, and not
// a damaged one of ours: it is text, and has none of the words that ours have several of.
func isOther(name string, line []byte) bool {
	for _, word := range []string{"nexus_archive", "nexus_export", `"ledger"`, `"channel"`, `"prev_hash"`} {
		if bytes.Contains(line, []byte(word)) {
			return false
		}
	}
	control := func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }
	return utf8.Valid(line) && bytes.IndexFunc(line, control) < 0 && !strings.HasSuffix(name, ".gz")
}

func notOurs(name string) error {
	return fault.Usage(fmt.Errorf("%s is neither an archive nor an export", name))
}

// exportedEvent reads a line of events export. ok is false for another line.
func exportedEvent(line []byte) (ev api.Event, ok bool) {
	err := turns.DecodeJSON(line, &ev)
	return ev, err == nil && ev.Channel != "" && ev.Payload != nil
}

// fault notes the first fault, at a line.
func (a *Archive) fault(line int, err error) error {
	a.Error = fmt.Sprintf("line %d: %v", line, err)
	return &api.Error{Code: api.Corrupt, Message: a.File + ": " + a.Error}
}

// received checks a line of events export: the bytes have the hash, follow the event
// before, and are of the event that the line shows. The body is sealed in them.
func (c *archiveCheck) received(x *api.Event) error {
	if c.Channel == "" {
		c.Channel = x.Channel
	}
	ev, err := hashed(x.Payload, x.Hash)
	if err != nil {
		return err
	}
	if err := c.follows(ev); err != nil {
		return err
	}
	if x.Channel != c.Channel || x.ID != ev.ID || x.Index != ev.Index || x.PrevHash != ev.Prev {
		return fmt.Errorf("event %s is shown as number %d of channel %q after %v, the event is %s, number %d of its chain, after %v", x.ID, x.Index, x.Channel, x.PrevHash, ev.ID, ev.Index, ev.Prev)
	}
	c.last, c.hash = ev, x.Hash
	c.Events++
	return nil
}

// hashed returns the event of stored bytes that have the hash.
func hashed(payload []byte, want turns.Hash) (*turns.Event, error) {
	if got := turns.HashEvent(payload); got != want {
		return nil, fmt.Errorf("the bytes of the event have the hash %v, beside them stands %v", got, want)
	}
	return turns.Decode(payload)
}

// follows returns an error if ev is on the chain of the last event and can't follow it.
func (c *archiveCheck) follows(ev *turns.Event) error {
	switch {
	case c.last == nil:
		return nil
	case c.last.Chain != ev.Chain:
		if c.Channel != "" {
			return fmt.Errorf("event %s is of another channel", ev.ID)
		}
		return nil
	case ev.Index == c.last.Index+1 && ev.Prev != c.hash:
		return fmt.Errorf("event %s follows an event with the hash %v, the one before has %v", ev.ID, ev.Prev, c.hash)
	case ev.Index <= c.last.Index || c.whole && ev.Index > c.last.Index+1:
		return fmt.Errorf("event %s is number %d of its chain, after number %d", ev.ID, ev.Index, c.last.Index)
	}
	return nil
}

// archiveCheck checks the lines of an archive in their order.
type archiveCheck struct {
	*Archive
	pieces     map[turns.Hash][]byte
	pieceBytes int
	whole      bool         // it has every event of a session
	last       *turns.Event // of the event before, and its hash
	hash       turns.Hash
}

// maxPieceBytes bounds the pieces of one blob or event: a body and what its seal adds.
const maxPieceBytes = turns.MaxBody + 1<<20

func (c *archiveCheck) takePieces() {
	clear(c.pieces)
	c.pieceBytes = 0
}

func (c *archiveCheck) line(l *rawexport.Line) error {
	switch {
	case l.Archive != nil:
		c.Ledger, c.Session = l.Archive.Ledger, l.Archive.Session
		return nil
	case l.Ledger != nil:
		c.Ledger, c.Session, c.whole = l.Ledger.Ledger, l.Ledger.Session, true
		return nil
	case l.Piece != nil:
		digest := api.PieceDigest(l.Piece.Sealed)
		if c.pieces[digest] == nil {
			c.pieceBytes += len(l.Piece.Sealed)
		}
		if c.pieces[digest] = l.Piece.Sealed; c.pieceBytes > maxPieceBytes {
			return fmt.Errorf("the pieces that no event or blob has taken have over %d bytes", maxPieceBytes)
		}
		return nil
	case l.Event == nil:
		c.takePieces() // they were a blob's
		return nil
	}
	payload := l.Event.Payload
	for _, p := range l.Event.Pieces {
		if payload = append(payload, c.pieces[p]...); len(payload) > turns.MaxPayload { // one piece may be named often
			return fmt.Errorf("the pieces of the event have over %d bytes", turns.MaxPayload)
		}
	}
	c.takePieces()
	ev, err := hashed(payload, l.Event.Hash)
	if err != nil {
		return err
	}
	id, ok := ev.Chain.Session()
	if !ok {
		return fmt.Errorf("event %s is of chain %s, not of a session", ev.ID, ev.Chain)
	}
	if c.last == nil || c.last.Chain != ev.Chain {
		c.Chains = append(c.Chains, id)
		if c.whole && ev.Index != 0 {
			return fmt.Errorf("event %s is number %d of its chain, and the first one here", ev.ID, ev.Index)
		}
	} else if err := c.follows(ev); err != nil {
		return err
	}
	c.last, c.hash = ev, l.Event.Hash
	c.Events++
	if l.Turn == nil {
		return nil
	}
	c.Turns++
	var shown map[string]turns.Raw
	if err := turns.DecodeJSON(l.Turn, &shown); err != nil {
		return err
	}
	shownID, _ := shown["id"].Text()
	shownHash, _ := shown["hash"].Text()
	if shownID != ev.ID.String() || shownHash != l.Event.Hash.String() {
		return fmt.Errorf("what is shown is turn %q with hash %q, the event is %s with %v", shownID, shownHash, ev.ID, l.Event.Hash)
	}
	return nil
}
