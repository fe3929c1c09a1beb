package views

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// PiecesOfATurn is how many pieces the page of a turn shows.
	PiecesOfATurn = 100
	// MaxContent is the largest content of a part that is read for a page, in bytes. Larger ones
	// show their beginning.
	MaxContent = 4 << 20
)

type turnPage struct {
	Head
	Row       TurnRow
	Turn      *api.Turn
	Depth     uint64
	Prev      string
	Next      string
	Sender    string
	Masked    int
	From, To  int // the pieces shown
	Pieces    int
	Back      string // URLs of the pieces beside
	More      string
	Seen      string     // of a turn that a compaction covers
	Covered   []turns.ID // the innermost first, at most maxCovered
	Later     uint64     // further ones, each of which covers the one before
	Price     string
	CacheHit  float64
	Inherited bool
	Noted     bool // the note was saved just now
}

// Read reads a turn with its whole content, and the results of its calls.
func Read(v *visit.Visit, s *api.Session, id turns.ID) (*api.Turn, *pages.Entry, int, error) {
	t, err := v.C.Turn(v.R.Context(), s.ID, id)
	if err != nil {
		return nil, nil, 0, err
	}
	ts := []api.Turn{*t}
	if t.ToolCalls > 0 && t.Depth < s.Depth { // nothing, for a turn that is not on the path of the head
		list, err := listTurns(v, s, t.Depth, min(t.Depth+readAfter, s.Depth))
		if err != nil {
			return nil, nil, 0, err
		}
		if len(list) > 0 && list[0].ID == t.ID {
			ts = append(ts, list[1:]...)
		}
	}
	if t.Depth > 1 && t.Parent != nil && !slices.ContainsFunc(ts[0].Messages, func(m turns.Message) bool { return m.Role == turns.User }) {
		// The name of a result is that of its call.
		if up, err := v.C.Turn(v.R.Context(), s.ID, *t.Parent); err == nil {
			names := make(map[string]string)
			if up.Response != nil {
				for _, p := range up.Response.Parts {
					names[p.ID] = p.Name
				}
			}
			for i := range t.Messages {
				for j := range t.Messages[i].Parts {
					if p := &t.Messages[i].Parts[j]; p.Type == turns.ToolCallResponse && p.Name == "" {
						p.Name = names[p.ID]
					}
				}
			}
		}
	}
	entries, masked, err := pages.Entries(s, ts, pages.Options{Content: func(session turns.ID, ref *turns.BlobRef) ([]byte, error) {
		if ref.Size > MaxContent {
			return []byte(ref.Preview), nil
		}
		return v.C.Content(v.R.Context(), session, ref)
	}})
	if err != nil {
		return nil, nil, 0, err
	}
	return t, entries[0], masked, nil
}

func (v *visitor) turn() error {
	s, id, err := v.Place()
	if err != nil {
		return err
	}
	t, e, masked, err := Read(v.Visit, s, id)
	if err != nil {
		return err
	}
	p := &turnPage{Head: HeadOf(v.Visit, s), Turn: t, Depth: t.Depth, Masked: masked, Inherited: t.Session != s.ID, Noted: v.R.URL.Query().Has("noted")}
	p.Command = "ledgerctl continue " + s.ID.String() + "/" + t.ID.String() + " --in claude" // by its id: it may be on another branch
	p.Row = turnRowOf(v.Visit, s, t, e)
	p.pieces(s, t, e, int(min(v.Number("p", 0), 1<<20)))
	if t.Parent != nil {
		p.Prev = visit.TurnURL(s.ID, *t.Parent)
	}
	if near, err := v.C.TurnPage(v.R.Context(), s.ID, api.ListTurns{From: t.Depth, Page: api.Page{Limit: 2}}); err == nil && len(near.Turns) == 2 && near.Turns[0].ID == t.ID {
		p.Next = visit.TurnURL(s.ID, near.Turns[1].ID)
	}
	if x, err := v.C.Expansion(v.R.Context(), s.ID, api.ExpandCompaction{ID: id, Page: api.Page{Limit: 1}}); err == nil && t.Compaction == nil {
		p.Seen, p.Covered = x.State, x.CoveredBy[:min(maxCovered, len(x.CoveredBy))]
		p.Later = uint64(len(x.CoveredBy) - len(p.Covered))
	}
	if u := t.Usage; u != nil && u.InputTokens > 0 {
		p.CacheHit = float64(u.CacheRead) / float64(u.InputTokens)
	}
	v.RenderLive("turn", fmt.Sprintf("Turn %d", t.Depth), "sessions", "", p)
	return nil
}

// maxCovered is how many of the compactions that cover a turn its page names: in a long session each that came later
// does.
const maxCovered = 3

// DepthInt is the depth, to count from.
func (p *turnPage) DepthInt() int { return int(p.Depth) }

// Around is where a window begins that has the turn near its top.
func (p *turnPage) Around() uint64 { return around(p.Depth) }

// IsHead reports whether the turn is the head of the session.
func (p *turnPage) IsHead() bool { return p.Session.Head != nil && *p.Session.Head == p.Turn.ID }

func around(depth uint64) uint64 { return max(depth, 5) - 4 }

// pieces puts the pieces of a turn from the one numbered from on the page.
func (p *turnPage) pieces(s *api.Session, t *api.Turn, e *pages.Entry, from int) {
	url := "/ui/s/" + s.ID.String() + "/t/" + t.ID.String()
	all := len(e.Asked) + len(e.Answer)
	from = min(from, max(0, all-1))
	to := min(from+PiecesOfATurn, all)
	p.Pieces, p.From, p.To = all, from+1, to
	p.Row.Asked, p.Row.Answer, p.Row.More, p.Row.Full = nil, nil, 0, true
	for i := from; i < to; i++ {
		b, n, list := (*pages.Block)(nil), "", &p.Row.Asked
		if i < len(e.Asked) {
			b, n = e.Asked[i], fmt.Sprint("a", i)
		} else {
			b, n, list = e.Answer[i-len(e.Asked)], fmt.Sprint("r", i-len(e.Asked)), &p.Row.Answer
		}
		x := pieceOf(b, url, n, p.Row.colours)
		x.Full = true
		*list = append(*list, x)
	}
	if from > 0 {
		p.Back = fmt.Sprintf("%s?p=%d", url, max(0, from-PiecesOfATurn))
	}
	if to < all {
		p.More = fmt.Sprintf("%s?p=%d", url, to)
	}
}

// ID is the anchor of a piece on the page of its turn.
func (p piece) ID() string { return p.URL[strings.LastIndexByte(p.URL, '/')+1:] }

// find returns the piece of a turn that the path names: a0 is the first that was asked, r0 the
// first of the answer.
func (v *visitor) find() (*api.Session, *pages.Block, string, error) {
	s, id, err := v.Place()
	if err != nil {
		return nil, nil, "", err
	}
	_, e, _, err := Read(v.Visit, s, id)
	if err != nil {
		return nil, nil, "", err
	}
	n := v.R.PathValue("n")
	list := e.Asked
	if strings.HasPrefix(n, "r") {
		list = e.Answer
	}
	i, err := strconv.Atoi(strings.TrimLeft(n, "ar"))
	if err != nil || i < 0 || i >= len(list) {
		return nil, nil, "", api.Errorf(api.NotFound, nil, "the turn has no part %s", prose.Clip(n, 20))
	}
	return s, list[i], n, nil
}

type blockPage struct {
	Head
	Piece piece
	Back  string
}

// block shows one piece of a turn: as a page, or alone for a fold that is opened.
func (v *visitor) block() error {
	s, b, n, err := v.find()
	if err != nil {
		return err
	}
	id, err := v.ID("turn")
	if err != nil {
		return err
	}
	p := pieceOf(b, visit.TurnURL(s.ID, id), n, v.Colours)
	p.Full = true
	v.Render("block", "A part of a turn", "sessions", &blockPage{Head: HeadOf(v.Visit, s), Piece: p, Back: visit.TurnURL(s.ID, id)})
	return nil
}

// picture serves a picture of a turn. It is of a stranger: only what is one of four kinds of
// pictures by its own bytes is served, and it may load and run nothing.
func (v *visitor) picture() error {
	_, b, _, err := v.find()
	if err != nil {
		return err
	}
	uri := b.Image
	if uri == "" && b.Result != nil {
		uri = b.Result.Image
	}
	head, body, ok := strings.Cut(strings.TrimPrefix(uri, "data:"), ";base64,")
	raw, err := base64.StdEncoding.DecodeString(body)
	if !ok || err != nil || http.DetectContentType(raw) != head || !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, head) {
		return api.Errorf(api.NotFound, nil, "this part is no picture that is shown")
	}
	h := v.W.Header()
	h.Set("Content-Type", head)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, max-age=3600")
	http.ServeContent(v.W, v.R, "", v.Now(), bytes.NewReader(raw))
	return nil
}
