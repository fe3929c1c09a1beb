package gemini

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// geminiCLILog is the state of a chat that is a log: a header, then records of one line
// each.
//
//   - A message. It is written anew, under its id, when its tokens or tool calls are known:
//     the last record of an id counts. So a message is read when another id follows.
//   - {"$rewindTo": id} takes back the message id and all after it. What follows is a
//     fork, or a session of its own if nothing is left. What was taken back stays stored.
//   - {"$set": {...}} changes members of the header. With messages it replaces what the
//     model sees: a compression, which is recorded as a compaction, or a rollback.
type geminiCLILog struct {
	list []geminiCLIPlaced     // the messages that the model sees, oldest first
	tips map[turns.ID]turns.ID // last turn of each session
}

// geminiCLIPlaced is a message that was read.
type geminiCLIPlaced struct {
	id     string
	before geminiCLIPoint // what it follows
	turn   turns.ID       // that holds it; zero: not emitted yet
}

// geminiCLIHead is how much of a file tells a log from a document, in bytes.
const geminiCLIHead = 64 << 10

// isGeminiCLILog reports whether head begins a log: its first line is a whole object
// without messages.
func isGeminiCLILog(head []byte) bool {
	line, _, whole := bytes.Cut(head, []byte("\n"))
	var h struct {
		Source   string      `json:"sessionId"`
		Messages []turns.Raw `json:"messages"`
	}
	return whole && values.Decode(bytes.TrimSpace(line), &h) == nil && h.Source != "" && len(h.Messages) == 0
}

// geminiCLILines reads a log of one record a line.
func geminiCLILines(r io.Reader, opt transcript.Options) *transcript.Reader {
	g := &geminiCLIReader{opt: opt, log: &geminiCLILog{tips: make(map[turns.ID]turns.ID)}}
	g.ReadLines(r, opt, transcript.LineFormat{Name: "gemini chat", Object: g.logRecord, End: func(int) { _ = g.end() },
		Begins: []string{`{"id":`, `{"type":`}, Untyped: []string{`{"sessionId":`, `{"$set":`, `{"$rewindTo":`}})
	return g.Reader()
}

// geminiCLIRecord is a record of a log that is no message.
type geminiCLIRecord struct {
	ID       jsontext.Value `json:"id"`
	RewindTo *string        `json:"$rewindTo"`
	Set      jsontext.Value `json:"$set"`
}

func (g *geminiCLIReader) logRecord(line int, b []byte) error {
	var r geminiCLIRecord
	if err := values.Decode(b, &r); err != nil {
		g.Loss.Add(line, "skipped", "a record that can't be read: "+err.Error(), "")
		return nil
	}
	g.messageCount = line
	switch {
	case r.RewindTo != nil:
		g.placeLast()
		g.rewind(*r.RewindTo)
	case r.ID.Kind() == '"':
		m := new(geminiCLIMessage)
		if err := values.Decode(bytes.Clone(b), m); err != nil {
			g.Loss.Add(line, "skipped", "a message that can't be read: "+err.Error(), "")
			return nil
		}
		g.keyMessage(m, b)
		g.addMessage(line, m)
	case r.Set.Kind() == '{':
		g.set(line, r.Set)
	default:
		g.header(line, b)
	}
	return nil
}

// geminiCLIHeader are the members of the header that are read.
type geminiCLIHeader struct {
	Source   string             `json:"sessionId"`
	Start    string             `json:"startTime"`
	Updated  string             `json:"lastUpdated"`
	Summary  turns.Raw          `json:"summary"`
	Kind     string             `json:"kind"`
	Parent   string             `json:"parentSessionId"`
	Messages []geminiCLIMessage `json:"messages"`
}

// header reads the header. One that comes again, after a resume, changes nothing: the ids
// follow from the first.
func (g *geminiCLIReader) header(line int, b []byte) {
	var h geminiCLIHeader
	if err := values.Decode(b, &h); err != nil || h.Source == "" {
		g.Loss.Add(line, "skipped", "a record of no known form", "")
		return
	}
	if g.source == "" {
		g.source, g.start, g.subagent, g.spawner = h.Source, values.ParseTime(turns.RawText(h.Start)), h.Kind == "subagent", h.Parent
	} else if g.source != h.Source {
		g.Loss.Add(line, "repaired", "the chat has another session id from here on; it stays one session", h.Source)
	}
}

// set reads a change of the header.
func (g *geminiCLIReader) set(line int, b jsontext.Value) {
	var h geminiCLIHeader
	var members map[string]turns.Raw
	if values.Decode(b, &members) != nil || values.Decode(bytes.Clone(b), &h) != nil {
		g.Loss.Add(line, "skipped", "a change of the header that can't be read", "")
		return
	}
	for i := range h.Messages {
		h.Messages[i].key = h.Messages[i].ID
	}
	for name := range members {
		switch name {
		case "messages":
			g.replace(line, &h, b)
		case "summary":
			if g.source != "" {
				g.Names.Set(g.sessionID(), h.Summary, false)
			}
		case "sessionId", "lastUpdated":
		default:
			g.Loss.Count("skipped", "changes of the header: "+strconv.Quote(name))
		}
	}
}

func (g *geminiCLIReader) addMessage(line int, m *geminiCLIMessage) {
	switch {
	case g.last != nil && g.last.key == m.key:
		g.last = m
	case g.log.index(m.key) >= 0:
		g.Loss.Add(line, "kept_first", "a message changed after another had followed it", m.ID)
	default:
		g.placeLast()
		g.last = m
	}
}

// placeLast reads the message that was held back.
func (g *geminiCLIReader) placeLast() {
	if g.last == nil {
		return
	}
	m := g.last
	g.last = nil
	g.log.list = append(g.log.list, geminiCLIPlaced{id: m.key, before: g.geminiCLIPoint})
	g.messages, g.recordIDs = slices.Clip(g.messages), slices.Clip(g.recordIDs) // a rewind may share them
	g.place(m)
}

func (l *geminiCLILog) index(id string) int {
	return slices.IndexFunc(l.list, func(p geminiCLIPlaced) bool { return p.id == id })
}

// turnEnds notes the turn that holds the messages which no turn held yet.
func (l *geminiCLILog) turnEnds(session, turn turns.ID) {
	l.tips[session] = turn
	for i := len(l.list) - 1; i >= 0 && l.list[i].turn.IsZero(); i-- {
		l.list[i].turn = turn
	}
}

// rewind goes back to before the message id; to the beginning if it is not there.
func (g *geminiCLIReader) rewind(id string) {
	if len(g.messages) > 0 {
		g.Loss.Count("skipped", "messages that were taken back before a response followed")
	}
	if i := g.log.index(id); i >= 0 {
		g.truncate(i)
		return
	}
	g.geminiCLIPoint, g.log.list = geminiCLIPoint{}, nil
}

// truncate goes back to before message i.
func (g *geminiCLIReader) truncate(i int) {
	if i >= len(g.log.list) {
		return
	}
	g.geminiCLIPoint = g.log.list[i].before
	g.log.list = g.log.list[:i]
}

// openSession emits the session of the next turn: that of the chat, a fork where the turn
// does not follow the last one, a new session where nothing is before it.
// branch is its id if it is not the chat's, and first the turn, zero for a compaction.
func (g *geminiCLIReader) openSession(at time.Time, branch, first turns.ID) {
	g.open()
	if g.log == nil {
		return
	}
	if g.session.IsZero() { // rewound to the beginning
		g.session = g.sessionID()
	}
	if g.log.tips[g.session] == g.parent {
		return
	}
	if g.parent.IsZero() {
		g.Step(transcript.Step{Open: &transcript.Open{ID: branch, Time: at, Meta: g.sessionMeta()}})
	} else {
		g.Step(transcript.Step{Fork: &transcript.Fork{ID: branch, At: turns.Ref{Session: g.session, Turn: g.parent}, Time: at, Meta: g.sessionMeta(), First: first}})
	}
	g.session, g.log.tips[branch] = branch, g.parent
}

// replace reads the messages that the model sees from here on.
func (g *geminiCLIReader) replace(line int, h *geminiCLIHeader, raw []byte) {
	if len(g.log.list) == 0 && g.last == nil { // the beginning
		n := compressedMessages(h.Messages)
		if n > 0 && g.parent.IsZero() {
			g.compactFirst(h, n)
		} else {
			n = 0
		}
		for i := n; i < len(h.Messages); i++ {
			g.addMessage(line, &h.Messages[i])
		}
		return
	}
	ids := make([]string, 0, len(g.log.list)+1)
	for _, p := range g.log.list {
		ids = append(ids, p.id)
	}
	if g.last != nil {
		ids = append(ids, g.last.key)
	}
	common := 0
	for common < min(len(ids), len(h.Messages)) && ids[common] == h.Messages[common].ID {
		common++
	}
	kept := 0
	for kept < min(len(ids), len(h.Messages)) && ids[len(ids)-1-kept] == h.Messages[len(h.Messages)-1-kept].ID {
		kept++
	}
	switch {
	case common == len(h.Messages) && common == len(ids):
		g.Loss.Count("kept_first", "messages that were written again; what the tools answered stays as it was")
		return
	case common == len(h.Messages): // a rollback
		g.placeLast()
		g.truncate(common)
		return
	case common == len(ids): // messages were added
		for i := common; i < len(h.Messages); i++ {
			g.addMessage(line, &h.Messages[i])
		}
		return
	}
	g.placeLast()
	g.compact(line, h, kept, sha256.Sum256(raw))
}

// compressedMessages returns how many messages stand for a history that Gemini CLI
// compressed: a snapshot in the name of the user, and the answer to it, which no model gave.
func compressedMessages(ms []geminiCLIMessage) int {
	if len(ms) == 0 || ms[0].Type != "user" || !strings.HasPrefix(strings.TrimSpace(contentText(ms[0].Content)), "<state_snapshot>") {
		return 0
	}
	if len(ms) > 1 && ms[1].Type == "gemini" && ms[1].Tokens == nil {
		return 2
	}
	return 1
}

// contentText returns a message's text: that of its first part.
func contentText(content jsontext.Value) string {
	if s, ok := turns.Raw(content).Text(); ok {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if content.Kind() != '[' || values.Decode(content, &parts) != nil || len(parts) == 0 {
		return ""
	}
	return parts[0].Text
}

// compactFirst records the compaction that a file begins with: what the first n messages
// replaced stands in another file of the session.
func (g *geminiCLIReader) compactFirst(h *geminiCLIHeader, n int) {
	g.open()
	k := &transcript.Compaction{Session: g.session, Trigger: "threshold", Time: g.start, Meta: values.WithTimeBound(nil, turns.TimeNotBefore)}
	for i := range h.Messages[:n] {
		if at := values.ParseTime(turns.RawText(h.Messages[i].Time)); !at.IsZero() {
			g.lastTime, k.Time = at, at
		}
	}
	k.ID = g.compactionID(h.Messages[:n], "")
	g.replacement(k, h.Messages[:n])
	g.log.tips[g.session] = k.ID
	g.Step(transcript.Step{Compaction: k})
}

// compactionID returns the id of the compaction that put messages in the place of others: the
// same in all files of the session. key is for messages without ids.
func (g *geminiCLIReader) compactionID(ms []geminiCLIMessage, key string) turns.ID {
	ids := make([]string, 0, len(ms))
	for i := range ms {
		if ms[i].ID == "" {
			ids = nil
			break
		}
		ids = append(ids, ms[i].ID)
	}
	if len(ids) > 0 {
		key = strings.Join(ids, " ")
	}
	return turns.DeriveID(g.start, "gemini-cli compaction", g.source, key)
}

// replacement adds messages to those that a compaction put in the place of others. What
// follows follows the compaction.
func (g *geminiCLIReader) replacement(k *transcript.Compaction, ms []geminiCLIMessage) {
	g.parent = k.ID
	for i := range ms {
		m := &ms[i]
		switch m.Type {
		case "user":
			k.Replacement = append(k.Replacement, turns.Message{Role: turns.User, Parts: g.parts(m)})
		case "gemini":
			response, results := g.response(m)
			k.Replacement = append(append(k.Replacement, response), results...)
		default:
			continue
		}
		g.log.list = append(g.log.list, geminiCLIPlaced{id: m.ID, before: g.geminiCLIPoint, turn: k.ID})
	}
}

// compact records that messages replace all but the last kept ones. sum is the digest of
// the record.
func (g *geminiCLIReader) compact(line int, h *geminiCLIHeader, kept int, sum [sha256.Size]byte) {
	if g.parent.IsZero() {
		g.Loss.Add(line, "skipped", "a compaction before the first turn", "")
		return
	}
	key := g.parent.String() + " " + hex.EncodeToString(sum[:])
	at, bound := values.ParseTime(turns.RawText(h.Updated)), turns.TimeBound("")
	idTime := at
	if at.IsZero() {
		idTime, at, bound = g.start, g.lastTime, turns.TimeNotBefore
	}
	g.openSession(at, turns.DeriveID(idTime, "gemini-cli branch", g.source, key), turns.ID{})
	old := len(g.log.list) - kept
	replaced := h.Messages[:len(h.Messages)-kept]
	k := &transcript.Compaction{Session: g.session, Parent: g.parent, Time: at, Trigger: "threshold", ID: g.compactionID(replaced, key), Meta: values.WithTimeBound(nil, bound)}
	if kept > 0 {
		k.FirstKept = g.log.list[old].turn
	} else {
		g.messages, g.recordIDs, g.programs = nil, nil, nil
	}
	list := slices.Clone(g.log.list[old:])
	g.log.list = nil
	g.replacement(k, replaced)
	g.log.tips[g.session] = k.ID
	g.log.list = append(g.log.list, list...)
	g.Step(transcript.Step{Compaction: k})
}
