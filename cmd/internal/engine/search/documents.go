package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"nexus/compactor/facts"
	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/search"
	"nexus/turns"
	"nexus/turns/seal"
)

// What is indexed of a part and of an event, in bytes. A longer part is indexed by its
// beginning and its end.
const (
	maxSaid   = 256 << 10
	maxOutput = 64 << 10
	maxEvent  = 1 << 20
	// maxBlob is the largest blob that is read for it. Of a larger one, and of content in
	// pieces, the preview is indexed.
	maxBlob = 4 << 20
)

// part is a text of an event.
type part struct {
	field         field
	half          turns.Half // 0: not of a half
	message, part uint64
	role          turns.Role
	name          string // of who said it, where the message has one
	tool          string
	text          string
}

// field is where in a document a text goes.
type field int

const (
	said field = iota
	calls
	output
)

// Applied implements [search.Source].
func (se *Search) Applied() (string, uint64) {
	at := se.reader.Projections.Applied()
	return at.Identity, at.Seq
}

// WaitFor implements [search.Source].
func (se *Search) WaitFor(ctx context.Context, seq uint64) error {
	return se.reader.Projections.WaitFor(ctx, seq)
}

// Hash implements [search.Source].
func (se *Search) Hash(seq uint64) (turns.Hash, error) {
	r, err := se.reader.Projections.Record(seq)
	return r.Hash, err
}

// Erased implements [search.Source]. A key is that of all that is sealed under it; with the index of an event behind a
// slash, that of the event; of a session with a number behind @, what was left of it when that many events had been taken.
func (se *Search) Erased(key string) bool {
	name, event, one := strings.Cut(key, "/")
	name, taken, _ := strings.Cut(name, "@")
	id, err := turns.ParseID(name)
	if err != nil {
		return false
	}
	k, err := se.content.Key(id)
	if err != nil {
		return errors.Is(err, turns.ErrErased)
	}
	if one {
		index, err := strconv.ParseUint(event, 10, 64)
		return err == nil && !k.Has(index)
	}
	n, _ := strconv.ParseUint(taken, 10, 64)
	return !id.IsReserved() && k.Taken() > n
}

// keyName names what is left of the key of a session, so that the index is made again when more is taken.
func keyName(id turns.ID, taken uint64) string {
	if taken == 0 || id.IsReserved() {
		return id.String()
	}
	return id.String() + "@" + strconv.FormatUint(taken, 10)
}

// Documents implements [search.Source].
func (se *Search) Documents(ctx context.Context, seq uint64) ([]search.Document, error) {
	docs, err := se.documents(ctx, seq)
	if err != nil && !isUnreadable(err) {
		return nil, err
	}
	return docs, nil
}

// isUnreadable reports whether what an event holds can't be read, and so can't be found: a
// chain that was set aside, an erased session, a key that is missing. Other errors are of
// the disk or the server, and the event is read again.
func isUnreadable(err error) bool {
	if errors.As(err, new(*db.ReadError)) {
		return false
	}
	for _, is := range []error{turns.ErrErased, seal.ErrNoKey, ledger.ErrNotFound, lineage.ErrUnknown, ledger.ErrCorrupt, turns.ErrMalformed, turns.ErrUnsupported} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

func (se *Search) documents(ctx context.Context, seq uint64) (docs []search.Document, err error) {
	ev, subject, err := se.eventAt(seq)
	if err != nil {
		return nil, err
	}
	tenant, chain, err := ledger.ParseSubject(subject)
	if err != nil {
		return nil, err
	}
	base := search.Document{Tenant: tenant, Time: timeOf(ev)}
	for i, k := range ev.Keys {
		has, err := se.content.Key(k)
		if err != nil {
			return nil, err
		}
		if base.Keys = append(base.Keys, keyName(k, has.Taken())); i == 0 && (ev.Chain.Entity == turns.ChannelEntity || ev.Chain.Entity == turns.AgentEntity) { // of these one can be erased
			base.Keys = append(base.Keys, fmt.Sprintf("%s/%d", k, ev.Index))
		}
	}
	if slices.ContainsFunc(base.Keys, se.Erased) {
		return nil, nil // also what is listed without a text: the index is made again until it names no such key
	}
	switch {
	case ev.Kind.IsTurn():
		return se.turnDocuments(ctx, ev, seq, base)
	case ev.Kind == turns.KindMemory:
		base.Agent = chain.ID
		return se.memoryDocuments(ev, seq, base)
	case ev.Kind == turns.KindDescribed, ev.Kind == turns.KindNoted:
		s, texts, err := se.remarkTexts(ev)
		if err != nil || len(texts) == 0 {
			return nil, err
		}
		base.Agent, base.Session, base.Kind, base.ID = s.Agent, s.ID.String(), "session", search.DocumentID(seq, 0)
		if ev.Kind == turns.KindNoted {
			base.Kind = "note"
		}
		fill(&base, texts)
		return []search.Document{base}, nil
	case ev.Kind == turns.KindReceived:
		row, err := se.reader.Projections.Channel(tenant, chain.ID)
		if err != nil || row.Agent == "" {
			return nil, err
		}
		parts, _, err := se.receivedParts(ctx, tenant, row.Agent, seq, true)
		if err != nil {
			return nil, err
		}
		base.Agent, base.Kind, base.ID = row.Agent, "event", search.DocumentID(seq, 0)
		fill(&base, parts)
		return []search.Document{base}, nil
	}
	return nil, nil
}

// remarkTexts returns what a person said of a session or a turn, with the session; no text where that
// was taken back.
func (se *Search) remarkTexts(ev *turns.Event) (s ledger.Session, out []part, err error) {
	id, _ := ev.Chain.Session()
	if s, err = se.reader.Projections.Session(id); err != nil {
		return s, nil, err
	}
	if ev.Kind == turns.KindNoted {
		var b turns.NotedBody
		if err := se.content.Open(ev, &b); err != nil {
			return s, nil, err
		}
		out = []part{{text: clip(b.Text, maxSaid)}}
	} else {
		var b turns.DescribedBody
		if err := se.content.Open(ev, &b); err != nil {
			return s, nil, err
		}
		out = []part{{text: strings.TrimSpace(b.Title + "\n" + strings.Join(b.Tags, " ") + "\n" + b.Project)}}
	}
	if out[0].text == "" {
		out = nil
	}
	return s, out, nil
}

// turnDocuments returns the documents of a turn, and of the memories of a compaction.
func (se *Search) turnDocuments(ctx context.Context, ev *turns.Event, seq uint64, base search.Document) ([]search.Document, error) {
	row, err := se.reader.Projections.Turn(ev.Ref())
	if err != nil || row.Seq != seq {
		return nil, err // a copy of a turn that is elsewhere
	}
	s, err := se.reader.Projections.Session(row.Ref.Session)
	if err != nil {
		return nil, err
	}
	texts, err := se.textsOf(ctx, &s, ev, true)
	if err != nil {
		return nil, err
	}
	base.Agent, base.Session = s.Agent, s.ID.String()
	doc := base
	doc.Kind, doc.ID, doc.Model = "turn", search.DocumentID(seq, 0), texts.model
	work, err := se.workAt(&s, row, texts.meta)
	if err != nil {
		return nil, err
	}
	doc.Source, doc.Cwd, doc.Branch = work.Source, work.Cwd, work.Branch
	doc.Segment, doc.Depth = segmentName(s.ID, row.Segment), row.Depth
	fill(&doc, texts.parts)
	docs := []search.Document{doc}
	learned, err := se.memoryDocuments(ev, seq, base)
	return append(docs, learned...), err
}

// segmentName names a segment of the lineage in the index.
func segmentName(session, segment turns.ID) string { return session.String() + "/" + segment.String() }

// memoryDocuments returns the documents of the memories that an event holds.
func (se *Search) memoryDocuments(ev *turns.Event, seq uint64, base search.Document) (docs []search.Document, err error) {
	all, err := se.memories.Texts(ev)
	for i, text := range all {
		doc := base
		id := ev.ID
		doc.Kind, doc.ID = "memory", search.DocumentID(seq, uint64(i))
		if ev.Kind == turns.KindCompaction {
			id, doc.ID = turns.LearnedID(ev.Ref(), i), search.DocumentID(seq, uint64(i)+1)
		}
		again, err := se.memories.IsEvidence(base.Tenant, base.Agent, id)
		if err != nil {
			return nil, err
		}
		if again {
			continue // one that is repeated often would leave no room for other hits
		}
		fill(&doc, []part{{text: text}})
		docs = append(docs, doc)
	}
	return docs, err
}

// fill adds the texts of parts to a document, and who said them.
func fill(d *search.Document, parts []part) {
	size := 0
	for _, p := range parts {
		if r := string(p.role); r != "" && !slices.Contains(d.Roles, r) {
			d.Roles = append(d.Roles, r)
		}
		if p.name != "" && !slices.Contains(d.Said, p.name) {
			d.Said = append(d.Said, p.name)
		}
		if size += len(p.text); size > maxEvent {
			return
		}
		switch p.field {
		case said:
			d.Said = append(d.Said, p.text)
		case calls:
			d.Calls = append(d.Calls, p.text)
			d.Tools = append(d.Tools, p.tool)
		case output:
			d.Output = append(d.Output, p.text)
		}
	}
}

// eventAt returns the event at a position of the log, and its subject.
func (se *Search) eventAt(seq uint64) (*turns.Event, string, error) {
	r, err := se.reader.Projections.Record(seq)
	if err != nil {
		return nil, "", err
	}
	ev, err := turns.Decode(r.Payload)
	return ev, r.Subject, err
}

// timeOf returns when an event happened, as far as it says.
func timeOf(ev *turns.Event) int64 {
	if ev.Claimed != 0 {
		return ev.Claimed
	}
	return ev.Recorded
}

// turnTexts is what the body of a turn or a compaction holds for a search.
type turnTexts struct {
	parts []part
	model string    // of the call
	meta  turns.Raw // of a turn
}

// textsOf returns the texts of a turn or a compaction of s. once: what it reads of blobs is not kept.
func (se *Search) textsOf(ctx context.Context, s *ledger.Session, ev *turns.Event, once bool) (out turnTexts, err error) {
	if ev.Kind == turns.KindCompaction {
		var body turns.CompactionBody
		if err := se.content.Open(ev, &body); err != nil {
			return out, err
		}
		if out.model = body.Model; body.Summary != "" {
			out.parts = []part{{role: turns.Assistant, text: clip(body.Summary, maxSaid)}}
			return out, nil
		}
		out.parts, err = se.messageParts(ctx, s, 0, body.Replacement, once)
		return out, err
	}
	var body turns.TurnBody
	if err := se.content.Open(ev, &body); err != nil {
		return out, err
	}
	out.model, out.meta = body.Model, body.Meta
	if out.parts, err = se.messageParts(ctx, s, turns.MessagesHalf, body.Messages, once); err != nil || body.Response == nil {
		return out, err
	}
	response, err := se.messageParts(ctx, s, turns.ResponseHalf, []turns.Message{*body.Response}, once)
	out.parts = append(out.parts, response...)
	return out, err
}

// messageParts returns the texts of messages of a half.
func (se *Search) messageParts(ctx context.Context, s *ledger.Session, half turns.Half, ms []turns.Message, once bool) (out []part, err error) {
	size := 0
	for i, m := range ms {
		for j, p := range m.Parts {
			x := part{half: half, message: uint64(i), part: uint64(j), role: m.Role, name: m.Name}
			limit := maxSaid
			content, err := se.partContent(ctx, s, &p, once)
			if err != nil {
				return nil, err
			}
			switch p.Type {
			case turns.Text, turns.Reasoning, turns.URI:
				x.text = string(content)
			case turns.ToolCall:
				x.field, x.tool, limit = calls, p.Name, maxOutput
				x.text = p.Name + "\n" + valueText(content)
			case turns.ToolCallResponse:
				x.field, x.tool, limit = output, p.Name, maxOutput
				x.text = valueText(content)
			default: // images, sound, files
				continue
			}
			x.text = clip(x.text, limit)
			if size += len(x.text); size > maxEvent {
				return out, nil
			}
			if x.text != "" {
				out = append(out, x)
			}
		}
	}
	return out, nil
}

// partContent returns the content of a part: its own, that of its blob, or its preview.
func (se *Search) partContent(ctx context.Context, s *ledger.Session, p *turns.Part, once bool) ([]byte, error) {
	if p.Ref == nil {
		return p.ContentBytes(), nil
	}
	if p.Type == turns.Blob || p.InPieces() || p.Ref.Size > maxBlob {
		return []byte(p.Ref.Preview), nil
	}
	read := se.content.ReadBlob
	if once {
		read = se.content.ReadBlobOnce
	}
	k, err := se.content.Tree(s.Root)
	if err == nil {
		var b []byte
		if b, err = read(ctx, s.Tenant, k, p.Ref.Digest); err == nil {
			return b, nil
		}
	}
	if errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, turns.ErrErased) || errors.Is(err, seal.ErrNoKey) {
		return nil, err
	}
	return []byte(p.Ref.Preview), nil
}

// receivedParts returns the text of an external event of an agent, and what it is.
func (se *Search) receivedParts(ctx context.Context, tenant, agent string, seq uint64, once bool) ([]part, *turns.ReceivedBody, error) {
	_, _, body, err := se.reader.ReceivedAt(seq)
	if err != nil {
		return nil, nil, err
	}
	content := body.Body
	if b := body.Blob; b != nil {
		content = turns.Raw(b.Preview)
		if b.Size <= maxBlob && len(b.Pieces) == 0 {
			ch, err := se.reader.ChannelOf(tenant, agent, body.Channel)
			if err != nil {
				return nil, nil, err
			}
			if content, err = se.reader.ReceivedContent(ctx, tenant, ch.Key, body, once); err != nil {
				return nil, nil, err
			}
		}
	}
	return []part{{text: clip(valueText(content), maxSaid)}}, body, nil
}

// valueText returns the text of a JSON value: a string's text, or of another value that of
// [facts.ValuesText].
func valueText(v []byte) string {
	if s, ok := turns.Raw(v).Text(); ok {
		return s
	}
	return facts.ValuesText(v)
}

// clip returns s, or its beginning and its end if it has more than n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head, tail := n*3/4, len(s)-n/4
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + "\n" + s[tail:]
}
