package claude

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// lineKind is the role of a line in the tree.
type lineKind uint8

const (
	bookkeepingLine lineKind = iota // no uuid: not in the tree
	transparentLine                 // in parent chains; its children follow its parent
	stopLine                        // transparent, and says that the response above is whole
	userLine
	queuedLine // a prompt typed while the agent worked: an attachment
	assistantLine
	boundaryLine
	summaryLine
	microLine
)

// indexKey is an index key: the start of a SHA-256 of a foreign id.
type indexKey [16]byte

func keyOf(parts ...string) (k indexKey) {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	copy(k[:], h.Sum(nil))
	return k
}

// claudeRecord is one line, decoded.
type claudeRecord struct {
	line       int
	size       int // bytes
	kind       lineKind
	typ        string // for reports: "system turn_duration"
	uuid       string
	parent     string // "": a root
	session    string
	agent      string
	sidechain  bool
	meta       bool      // text that Claude Code wrote as the user
	program    bool      // Claude Code or another program wrote its text in the name of the user
	person     bool      // the line says that a person typed it
	copied     bool      // a copy of a line of session, in the file of another one
	into       string    // of a copy: the session of the file
	alias      string    // of a copy: its own uuid; uuid is that of the original
	time       time.Time // zero: not stated
	cwd        string
	branch     string
	version    string
	source     string // uuid of the assistant line that the result answers
	msg        apiMessage
	blocks     []turns.Raw // content; a string is one block
	cost       turns.Raw   // in dollars, on lines of older versions
	compact    turns.Raw   // metadata of a compaction, verbatim
	retracted  int         // how many messages it takes back
	resultCopy bool
	name       turns.Raw // of the session, on a line that names one
	leaf       string    // uuid of the line that the name is as of
	defect     string    // what is wrong with a message that can't be read
}

// apiMessage is the API message in a line.
type apiMessage struct {
	ID         turns.Raw `json:"id"`
	Model      turns.Raw `json:"model"`
	Role       turns.Raw `json:"role"`
	Content    turns.Raw `json:"content"`
	StopReason turns.Raw `json:"stop_reason"`
	Usage      turns.Raw `json:"usage"`
}

func isTrue(r turns.Raw) bool { return string(r) == "true" }

func (f *claudeFields) record(b []byte, line int) *claudeRecord {
	r := &claudeRecord{
		line: line, size: len(b), typ: values.String(f.Type), uuid: values.String(f.UUID), parent: values.String(f.Parent),
		session: values.String(f.Session), agent: values.String(f.Agent), sidechain: isTrue(f.Sidechain), meta: isTrue(f.Meta), program: f.byProgram(), person: f.byPerson(),
		cwd: values.String(f.Cwd), branch: values.String(f.Branch), version: values.String(f.Version),
		source: values.String(f.ToolSource), resultCopy: bool(f.ResultCopy), cost: f.Cost,
	}
	if r.agent != "" && f.Sidechain == nil {
		r.sidechain = true
	}
	r.time = values.ParseTime(f.Time)
	r.readOrigin(f.ForkedFrom)
	switch r.typ {
	case "user", "assistant":
		r.kind = userLine
		if r.typ == "assistant" {
			r.kind = assistantLine
		} else if isTrue(f.Summary) {
			r.kind = summaryLine
		}
		if r.uuid == "" { // older copies and other writers: the bytes name the line
			sum := sha256.Sum256(b)
			r.uuid = "sha256:" + hex.EncodeToString(sum[:16])
		}
		r.retracted = countTexts(f.Supersedes)
		r.readMessage(f.Message)
		return r
	case "ai-title":
		r.name = f.AITitle
	case "custom-title":
		r.name = f.Title
	case "summary":
		r.name, r.leaf = f.Text, values.String(f.Leaf)
	case "attachment":
		var a struct {
			Type   turns.Raw `json:"type"`
			Prompt turns.Raw `json:"prompt"`
			Mode   turns.Raw `json:"commandMode"`
			Origin turns.Raw `json:"origin"`
			Meta   turns.Raw `json:"isMeta"`
		}
		if json.Unmarshal(f.Attachment, &a) == nil {
			r.typ += " " + values.String(a.Type)
			if values.String(a.Type) == "queued_command" && r.uuid != "" {
				r.kind = queuedLine
				r.program = r.program || isTrue(a.Meta) || values.String(a.Mode) == "task-notification" || isProgramOrigin(a.Origin)
				r.msg.Content = a.Prompt
				r.readBlocks()
				return r
			}
		}
	case "system":
		switch sub := values.String(f.Subtype); sub {
		case "compact_boundary":
			r.kind, r.compact = boundaryLine, f.Compact
			if r.compact == nil {
				r.compact = f.CompactSDK
			}
			if l := values.String(f.Logical); l != "" {
				r.parent = l
			}
		case "microcompact_boundary":
			r.kind, r.compact = microLine, f.Micro
		case "stop_hook_summary", "turn_duration":
			r.kind = stopLine
			r.typ += " " + sub
		default:
			r.typ += " " + sub
			r.retracted = countTexts(f.Retracted)
		}
	}
	switch {
	case r.uuid == "":
		r.kind = bookkeepingLine
	case r.kind == bookkeepingLine:
		r.kind = transparentLine
	}
	return r
}

func (r *claudeRecord) readMessage(m turns.Raw) {
	if err := json.Unmarshal(m, &r.msg); err != nil {
		r.defect = "its message is not an object"
		return
	}
	r.readBlocks()
}

func (r *claudeRecord) readBlocks() {
	switch c := r.msg.Content; c.Kind() {
	case '[':
		if err := json.Unmarshal(c, &r.blocks); err != nil {
			r.defect = "its content can't be read"
		}
	case 0, 'n':
	default:
		r.blocks = []turns.Raw{c}
	}
}

// present reports that a member is there. It reads nothing of it.
type present bool

// UnmarshalJSONFrom skips the value.
func (p *present) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*p = d.PeekKind() != 'n'
	return d.SkipValue()
}

// claudeFields are the members of a line that are read. They are raw, since any of
// them may be of another type than it should.
type claudeFields struct {
	Type       turns.Raw `json:"type"`
	Subtype    turns.Raw `json:"subtype"`
	UUID       turns.Raw `json:"uuid"`
	Parent     turns.Raw `json:"parentUuid"`
	Logical    turns.Raw `json:"logicalParentUuid"`
	Session    turns.Raw `json:"sessionId"`
	Agent      turns.Raw `json:"agentId"`
	Time       turns.Raw `json:"timestamp"`
	Cwd        turns.Raw `json:"cwd"`
	Branch     turns.Raw `json:"gitBranch"`
	Version    turns.Raw `json:"version"`
	Sidechain  turns.Raw `json:"isSidechain"`
	Meta       turns.Raw `json:"isMeta"`
	Summary    turns.Raw `json:"isCompactSummary"`
	Message    turns.Raw `json:"message"`
	Compact    turns.Raw `json:"compactMetadata"`
	Micro      turns.Raw `json:"microcompactMetadata"`
	ResultCopy present   `json:"toolUseResult"`
	ToolSource turns.Raw `json:"sourceToolAssistantUUID"`
	Attachment turns.Raw `json:"attachment"`
	AITitle    turns.Raw `json:"aiTitle"`
	Title      turns.Raw `json:"customTitle"`
	Text       turns.Raw `json:"summary"`
	Leaf       turns.Raw `json:"leafUuid"`
	Cost       turns.Raw `json:"costUSD"`
	ForkedFrom turns.Raw `json:"forkedFrom"`
	CompactSDK turns.Raw `json:"compact_metadata"`
	Hidden     turns.Raw `json:"isVisibleInTranscriptOnly"`
	Origin     turns.Raw `json:"origin"`
	Prompted   turns.Raw `json:"promptSource"`
	ToolUse    turns.Raw `json:"sourceToolUseID"`
	Supersedes turns.Raw `json:"supersedesUuids"`
	Retracted  turns.Raw `json:"retractedMessageUuids"`
}

// byProgram reports whether a line says that a program wrote the text which it holds in the
// name of the user: Claude Code itself, a skill, a hook, a task that ended.
func (f *claudeFields) byProgram() bool {
	return isTrue(f.Meta) || isTrue(f.Hidden) || isTrue(f.Summary) || values.String(f.Prompted) == "system" || values.String(f.ToolUse) != "" || isProgramOrigin(f.Origin)
}

// byPerson reports whether a line says that a person typed its text.
func (f *claudeFields) byPerson() bool {
	switch values.String(f.Prompted) {
	case "typed", "user":
		return true
	}
	return values.Members(f.Origin).Text("kind") == "human"
}

// isProgramOrigin reports whether the origin of a text is a program.
func isProgramOrigin(origin turns.Raw) bool {
	switch kind := values.Members(origin).Text("kind"); kind {
	case "", "human", "cli", "user", "sdk", "channel":
		return false
	case "task-notification", "hook", "skill", "system", "coordinator", "scheduled":
		return true
	default:
		return strings.HasSuffix(kind, "-notification") || strings.HasSuffix(kind, "-hook") || strings.HasSuffix(kind, "-reminder")
	}
}

// countTexts returns how many strings a JSON list holds.
func countTexts(list turns.Raw) (n int) {
	var all []turns.Raw
	if list.Kind() != '[' || json.Unmarshal(list, &all) != nil {
		return 0
	}
	for _, x := range all {
		if x.Kind() == '"' {
			n++
		}
	}
	return n
}

// readOrigin reads which line of which session a line copies. A copy is read as that line:
// a fork of a session begins with what it copied from it, under its own sessionId and with
// the same uuids or new ones.
func (r *claudeRecord) readOrigin(from turns.Raw) {
	o := values.Members(from)
	session, uuid := o.Text("sessionId"), o.Text("messageUuid")
	if session == "" || session == r.session || r.uuid == "" {
		return
	}
	r.copied, r.into, r.session = true, r.session, session
	if uuid != "" && uuid != r.uuid {
		r.alias, r.uuid = r.uuid, uuid
	}
}

func parseRecord(b []byte, line int) (*claudeRecord, error) {
	var f claudeFields
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", turns.ErrMalformed, err)
	}
	return f.record(b, line), nil
}
