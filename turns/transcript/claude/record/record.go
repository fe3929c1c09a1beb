package record

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

// Kind is the role of a line in the tree.
type Kind uint8

// The kinds of lines.
const (
	Bookkeeping Kind = iota // no uuid: not in the tree
	Transparent             // in parent chains; its children follow its parent
	Stop                    // transparent, and says that the response above is whole
	User                    // a prompt, tool results, or both
	Queued                  // a prompt typed while the agent worked: an attachment
	Assistant               // a block of a response, or several
	Boundary                // a compaction begins
	Summary                 // the summary of a compaction
	Micro                   // a microcompaction
)

// Line is one line, decoded. A member that the line does not state, or states as another type, is
// zero.
type Line struct {
	Number     int // in the file, from 1
	Size       int // bytes
	Kind       Kind
	Type       string // for reports: "system turn_duration"
	UUID       string
	Parent     string // "": a root
	Session    string
	Agent      string
	Sidechain  bool
	Meta       bool      // text that Claude Code wrote as the user
	Program    bool      // Claude Code or another program wrote its text in the name of the user
	Person     bool      // the line says that a person typed it
	Copied     bool      // a copy of a line of session, in the file of another one
	Into       string    // of a copy: the session of the file
	Alias      string    // of a copy: its own uuid; uuid is that of the original
	Time       time.Time // zero: not stated
	Cwd        string
	Branch     string
	Version    string
	Source     string // uuid of the assistant line that the result answers
	Message    Message
	Blocks     []turns.Raw // content; a string is one block
	Cost       turns.Raw   // in dollars, on lines of older versions
	Compact    turns.Raw   // metadata of a compaction, verbatim
	Retracted  int         // how many messages it takes back
	ResultCopy bool
	Name       turns.Raw // of the session, on a line that names one
	Leaf       string    // uuid of the line that the name is as of
	Defect     string    // what is wrong with a message that can't be read
}

// Message is the API message in a line.
type Message struct {
	ID         turns.Raw `json:"id"`
	Model      turns.Raw `json:"model"`
	Role       turns.Raw `json:"role"`
	Content    turns.Raw `json:"content"`
	StopReason turns.Raw `json:"stop_reason"`
	Usage      turns.Raw `json:"usage"`
}

func (f *fields) line(b []byte, number int) *Line {
	r := &Line{
		Number: number, Size: len(b), Type: values.String(f.Type), UUID: values.String(f.UUID), Parent: values.String(f.Parent),
		Session: values.String(f.Session), Agent: values.String(f.Agent), Sidechain: values.IsTrue(f.Sidechain), Meta: values.IsTrue(f.Meta), Program: f.byProgram(), Person: f.byPerson(),
		Cwd: values.String(f.Cwd), Branch: values.String(f.Branch), Version: values.String(f.Version),
		Source: values.String(f.ToolSource), ResultCopy: bool(f.ResultCopy), Cost: f.Cost,
	}
	if r.Agent != "" && f.Sidechain == nil {
		r.Sidechain = true
	}
	r.Time = values.ParseTime(f.Time)
	r.readOrigin(f.ForkedFrom)
	switch r.Type {
	case "user", "assistant":
		r.Kind = User
		if r.Type == "assistant" {
			r.Kind = Assistant
		} else if values.IsTrue(f.Summary) {
			r.Kind = Summary
		}
		if r.UUID == "" { // older copies and other writers: the bytes name the line
			sum := sha256.Sum256(b)
			r.UUID = "sha256:" + hex.EncodeToString(sum[:16])
		}
		r.Retracted = countTexts(f.Supersedes)
		r.readMessage(f.Message)
		return r
	case "ai-title":
		r.Name = f.AITitle
	case "custom-title":
		r.Name = f.Title
	case "summary":
		r.Name, r.Leaf = f.Text, values.String(f.Leaf)
	case "attachment":
		var a struct {
			Type   turns.Raw `json:"type"`
			Prompt turns.Raw `json:"prompt"`
			Mode   turns.Raw `json:"commandMode"`
			Origin turns.Raw `json:"origin"`
			Meta   turns.Raw `json:"isMeta"`
		}
		if json.Unmarshal(f.Attachment, &a) == nil {
			r.Type += " " + values.String(a.Type)
			if values.String(a.Type) == "queued_command" && r.UUID != "" {
				r.Kind = Queued
				r.Program = r.Program || values.IsTrue(a.Meta) || values.String(a.Mode) == "task-notification" || isProgramOrigin(a.Origin)
				r.Message.Content = a.Prompt
				r.readBlocks()
				return r
			}
		}
	case "system":
		switch sub := values.String(f.Subtype); sub {
		case "compact_boundary":
			r.Kind, r.Compact = Boundary, f.Compact
			if r.Compact == nil {
				r.Compact = f.CompactSDK
			}
			if l := values.String(f.Logical); l != "" {
				r.Parent = l
			}
		case "microcompact_boundary":
			r.Kind, r.Compact = Micro, f.Micro
		case "stop_hook_summary", "turn_duration":
			r.Kind = Stop
			r.Type += " " + sub
		default:
			r.Type += " " + sub
			r.Retracted = countTexts(f.Retracted)
		}
	}
	switch {
	case r.UUID == "":
		r.Kind = Bookkeeping
	case r.Kind == Bookkeeping:
		r.Kind = Transparent
	}
	return r
}

func (r *Line) readMessage(m turns.Raw) {
	if err := json.Unmarshal(m, &r.Message); err != nil {
		r.Defect = "its message is not an object"
		return
	}
	r.readBlocks()
}

func (r *Line) readBlocks() {
	switch c := r.Message.Content; c.Kind() {
	case '[':
		if err := json.Unmarshal(c, &r.Blocks); err != nil {
			r.Defect = "its content can't be read"
		}
	case 0, 'n':
	default:
		r.Blocks = []turns.Raw{c}
	}
}

// present reports that a member is there. It reads nothing of it.
type present bool

// UnmarshalJSONFrom skips the value.
func (p *present) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*p = d.PeekKind() != 'n'
	return d.SkipValue()
}

// fields are the members of a line that are read. They are raw, since any of
// them may be of another type than it should.
type fields struct {
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
func (f *fields) byProgram() bool {
	return values.IsTrue(f.Meta) || values.IsTrue(f.Hidden) || values.IsTrue(f.Summary) || values.String(f.Prompted) == "system" || values.String(f.ToolUse) != "" || isProgramOrigin(f.Origin)
}

// byPerson reports whether a line says that a person typed its text.
func (f *fields) byPerson() bool {
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
func (r *Line) readOrigin(from turns.Raw) {
	o := values.Members(from)
	session, uuid := o.Text("sessionId"), o.Text("messageUuid")
	if session == "" || session == r.Session || r.UUID == "" {
		return
	}
	r.Copied, r.Into, r.Session = true, r.Session, session
	if uuid != "" && uuid != r.UUID {
		r.Alias, r.UUID = r.UUID, uuid
	}
}

// Parse reads a line. number is its number in the file, from 1. The error is [turns.ErrMalformed]
// for what is no object, or one with a member twice.
func Parse(b []byte, number int) (*Line, error) {
	var f fields
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", turns.ErrMalformed, err)
	}
	return f.line(b, number), nil
}

// HasContent reports whether a line stands for more than a place in the chain.
func (r *Line) HasContent() bool { return r.Kind != Transparent && r.Kind != Stop }
