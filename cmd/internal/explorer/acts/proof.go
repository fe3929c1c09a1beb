package acts

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"nexus/cmd/internal/explorer/views"
	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

// partRow is a part of a turn in a list of its parts.
type partRow struct {
	N        int // from 1, as a proof and a redaction number them
	What     string
	Text     string // its beginning, in one line
	Redacted bool   // something was taken out of it
}

// partList is a window of the parts of a turn.
type partList struct {
	Rows     []partRow
	From, To int // numbers of the first and the last one
	Count    int
	Earlier  string // URLs of the windows beside
	Later    string
}

// eachPart yields the parts of a turn in the order of their numbers, with the role of their message.
func eachPart(t *api.Turn) iter.Seq2[turns.Role, *turns.Part] {
	messages := t.Messages
	if k := t.Compaction; k != nil {
		messages = slices.Concat(k.Replacement, k.Nudge)
	} else if t.Response != nil {
		messages = append(messages[:len(messages):len(messages)], *t.Response)
	}
	return func(yield func(turns.Role, *turns.Part) bool) {
		for i := range messages {
			for j := range messages[i].Parts {
				if !yield(messages[i].Role, &messages[i].Parts[j]) {
					return
				}
			}
		}
	}
}

// partsOf lists the parts of a turn, those of its messages before those of its response, from the one behind skip.
func partsOf(t *api.Turn, skip int, url string) (l partList) {
	var all []partRow
	for role, p := range eachPart(t) {
		all = append(all, partRow{N: len(all) + 1, What: whatOf(role, p), Text: beginningOf(p), Redacted: slices.Contains(t.Redacted, len(all)+1)})
	}
	l.Count = len(all)
	skip = max(0, min(skip, l.Count-1))
	l.To = min(skip+views.PiecesOfATurn, l.Count)
	l.Rows, l.From = all[skip:l.To], skip+1
	if skip > 0 {
		l.Earlier = fmt.Sprintf("%s?p=%d", url, max(0, skip-views.PiecesOfATurn))
	}
	if l.To < l.Count {
		l.Later = fmt.Sprintf("%s?p=%d", url, l.To)
	}
	return l
}

// whatOf says in a few words what a part is.
func whatOf(role turns.Role, p *turns.Part) string {
	switch {
	case p.Type == turns.ToolCall:
		return "call of " + pages.Line(cmp.Or(p.Name, "a tool"), 40)
	case p.Type == turns.ToolCallResponse:
		return "result of a call"
	case p.Type == turns.Reasoning:
		return "reasoning"
	case p.Type != turns.Text:
		return pages.Line(cmp.Or(p.MimeType, p.Modality, string(p.Type)), 40)
	case role == turns.Assistant:
		return "answer"
	}
	return "asked by the " + string(role)
}

func beginningOf(p *turns.Part) string {
	if p.Type == turns.ToolCall && p.Ref == nil {
		return pages.Line(prose.FirstArgument(p.Arguments), 120)
	}
	return pages.Line(prose.PartBeginning(p), 120)
}

type provePage struct {
	views.Head
	Depth uint64
	Turn  string // its page
	URL   string // of the files
	Name  string // how the names of all the files begin
	Key   string // public, of the checkpoints
	Parts partList
	turn  turns.ID
}

// TurnID is the turn that the page is of.
func (p *provePage) TurnID() turns.ID { return p.turn }

// proofFile is a proof that can be saved.
type proofFile struct{ URL, Name string }

// File is the proof that shows none, turn or part.
func (p *provePage) File(show string, part int) proofFile {
	url := p.URL + "?show=" + show
	if show == api.DisclosePart {
		url += "&part=" + strconv.Itoa(part)
	}
	return proofFile{url, proofName(p.turn, show, part)}
}

// prove is the page with the proofs of a turn.
func prove(v *visit.Visit) error {
	if err := v.MayProve(); err != nil {
		return err
	}
	s, turn, err := v.Place()
	if err != nil {
		return err
	}
	t, err := v.C.Turn(v.R.Context(), s.ID, turn)
	if err != nil {
		return err
	}
	key, err := v.C.CheckpointKey(v.R.Context())
	if err != nil {
		return err
	}
	url := visit.TurnURL(s.ID, turn)
	p := &provePage{Head: views.HeadOf(v, s), Depth: t.Depth, Turn: url, URL: url + "/proof", Name: "turn-" + prose.Short(turn), turn: turn, Key: key.Key}
	p.Parts = partsOf(t, int(min(v.Number("p", 0), 1<<20)), url+"/prove")
	v.Render("prove", fmt.Sprintf("Proof of turn %d", t.Depth), "sessions", p)
	return nil
}

// proofName is the name of the file of a proof.
func proofName(turn turns.ID, show string, part int) string {
	name := "turn-" + prose.Short(turn)
	switch show {
	case api.DiscloseNone:
		name += "-hashes"
	case api.DiscloseTurn:
		name += "-whole"
	case api.DisclosePart:
		name += "-part-" + strconv.Itoa(part)
	case api.DiscloseSession:
		name += "-key"
	}
	return name + ".proof"
}

// proof serves the proof of a turn as a file, or with ?event the other file: its header, and what ?show says of what was said.
func proof(v *visit.Visit) error {
	s, turn, err := v.Place()
	if err != nil {
		return err
	}
	q := v.R.URL.Query()
	r := api.GetProof{Turn: turn, Disclose: cmp.Or(q.Get("show"), api.DiscloseNone)}
	part := 0
	switch r.Disclose {
	case api.DiscloseNone, api.DiscloseTurn:
	case api.DisclosePart:
		if part, err = strconv.Atoi(q.Get("part")); err != nil || part < 1 {
			return api.Errorf(api.Malformed, nil, "the address names no part: they are numbered from 1")
		}
		r.Parts = []int{part, 0} // with who said it, and where it stands
	default:
		return api.Errorf(api.Malformed, nil, "a proof from here shows none, turn or part")
	}
	p, err := v.C.Proof(v.R.Context(), s.ID, r)
	if err != nil {
		return err
	}
	name, text := proofName(turn, r.Disclose, part), p.Proof
	if q.Has("event") {
		name, text = name+".event", p.Event
	}
	send(v, name, text)
	return nil
}

// send has the browser save a file, and run nothing of it.
func send(v *visit.Visit, name, text string) {
	h := v.W.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = v.W.Write([]byte(text)) // nobody reads any more
}

// keyPage says what the key of a session opens, and has the files that give it away.
type keyPage struct {
	views.Head
	Depth uint64
	Turn  turns.ID
	Of    turns.ID // the session that has the turn
	All   uint64   // turns of that one
	State string   // its
	Name  string   // of the proof
}

// doProve says what the proof of a turn opens that has the key of its session; a form that is sure gets one of its two files.
func doProve(v *visit.Visit) error {
	if !v.Who.MayExport() {
		return api.Errorf(api.Denied, nil, "the file has the key of the session: only the operator gives it away, with a login that may change")
	}
	if err := v.Parse(); err != nil {
		return err
	}
	f := v.R.PostForm
	session, err := turns.ParseID(f.Get("session"))
	if err != nil {
		return api.Errorf(api.Malformed, nil, "the form names no session")
	}
	turn, err := turns.ParseID(f.Get("turn"))
	if err != nil {
		return api.Errorf(api.Malformed, nil, "the form names no turn")
	}
	p, err := v.C.Proof(v.R.Context(), session, api.GetProof{Turn: turn, Disclose: api.DiscloseSession}) // that it can't be given is said before
	if err != nil {
		return err
	}
	name := proofName(turn, api.DiscloseSession, 0)
	switch f.Get("sure") {
	case "proof":
		send(v, name, p.Proof)
		return nil
	case "event":
		send(v, name+".event", p.Event)
		return nil
	}
	s, err := v.C.GetSession(v.R.Context(), session, api.GetSession{About: api.About{About: true}})
	if err != nil {
		return err
	}
	t, err := v.C.Turn(v.R.Context(), session, turn)
	if err != nil {
		return err
	}
	of := s
	if t.Session != s.ID {
		if of, err = v.C.Session(v.R.Context(), t.Session); err != nil {
			return err
		}
	}
	v.Render("disclose", "The key of a session", "sessions", &keyPage{Head: views.HeadOf(v, s), Depth: t.Depth, Turn: turn, Of: of.ID, All: of.Turns, State: of.State, Name: name})
	return nil
}
