package interchange

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// ccKind is what a line is to the tree.
type ccKind uint8

const (
	ccBookkeeping ccKind = iota // no uuid: not in the tree
	ccThrough                   // in parent chains, looked through
	ccStop                      // looked through, and says that the response above is whole
	ccUser
	ccQueued // a prompt typed while the agent worked: an attachment
	ccAssistant
	ccBoundary
	ccSummary
	ccMicro
)

// ccKey is an index key: the start of a SHA-256 of a foreign id.
type ccKey [16]byte

func ccKeyOf(parts ...string) (k ccKey) {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	copy(k[:], h.Sum(nil))
	return k
}

// ccRecord is one line, read.
type ccRecord struct {
	line       int
	size       int // bytes
	kind       ccKind
	typ        string // for reports: "system turn_duration"
	uuid       string
	parent     string // "": a root
	session    string
	agent      string
	sidechain  bool
	meta       bool // words that Claude Code put into the user's mouth
	time       time.Time
	cwd        string
	branch     string
	version    string
	source     string // uuid of the assistant line that the result answers
	msg        ccMessage
	blocks     []turns.Raw // content; a string is one block
	compact    turns.Raw   // metadata of a compaction, verbatim
	resultCopy bool
	name       turns.Raw // of the session, on a line that names one
	leaf       string    // uuid of the line that the name is as of
	defect     string    // what is wrong with a message that can't be read
}

// ccMessage is the API message in a line.
type ccMessage struct {
	ID         turns.Raw `json:"id"`
	Model      turns.Raw `json:"model"`
	Role       turns.Raw `json:"role"`
	Content    turns.Raw `json:"content"`
	StopReason turns.Raw `json:"stop_reason"`
	Usage      turns.Raw `json:"usage"`
}

func ccText(r turns.Raw) string { s, _ := r.Text(); return s }

func ccTrue(r turns.Raw) bool { return string(r) == "true" }

func (f *ccFields) record(b []byte, line int) *ccRecord {
	r := &ccRecord{
		line: line, size: len(b), typ: ccText(f.Type), uuid: ccText(f.UUID), parent: ccText(f.Parent),
		session: ccText(f.Session), agent: ccText(f.Agent), sidechain: ccTrue(f.Sidechain), meta: ccTrue(f.Meta),
		cwd: ccText(f.Cwd), branch: ccText(f.Branch), version: ccText(f.Version),
		source: ccText(f.ToolSource), resultCopy: bool(f.ResultCopy),
	}
	if t, err := time.Parse(time.RFC3339Nano, ccText(f.Time)); err == nil {
		r.time = t.UTC()
	}
	switch r.typ {
	case "user", "assistant":
		r.kind = ccUser
		if r.typ == "assistant" {
			r.kind = ccAssistant
		} else if ccTrue(f.Summary) {
			r.kind = ccSummary
		}
		if r.uuid == "" { // older copies and other writers: the bytes name the line
			sum := sha256.Sum256(b)
			r.uuid = "sha256:" + hex.EncodeToString(sum[:16])
		}
		r.readMessage(f.Message)
		return r
	case "ai-title":
		r.name = f.AITitle
	case "custom-title":
		r.name = f.Title
	case "summary":
		r.name, r.leaf = f.Text, ccText(f.Leaf)
	case "attachment":
		var a struct {
			Type   turns.Raw `json:"type"`
			Prompt turns.Raw `json:"prompt"`
		}
		if json.Unmarshal(f.Attachment, &a) == nil {
			r.typ += " " + ccText(a.Type)
			if ccText(a.Type) == "queued_command" && r.uuid != "" {
				r.kind = ccQueued
				r.msg.Content = a.Prompt
				r.readBlocks()
				return r
			}
		}
	case "system":
		switch sub := ccText(f.Subtype); sub {
		case "compact_boundary":
			r.kind, r.compact = ccBoundary, f.Compact
			if l := ccText(f.Logical); l != "" {
				r.parent = l
			}
		case "microcompact_boundary":
			r.kind, r.compact = ccMicro, f.Micro
		case "stop_hook_summary", "turn_duration":
			r.kind = ccStop
			r.typ += " " + sub
		default:
			r.typ += " " + sub
		}
	}
	switch {
	case r.uuid == "":
		r.kind = ccBookkeeping
	case r.kind == ccBookkeeping:
		r.kind = ccThrough
	}
	return r
}

func (r *ccRecord) readMessage(m turns.Raw) {
	if err := json.Unmarshal(m, &r.msg); err != nil {
		r.defect = "its message is not an object"
		return
	}
	r.readBlocks()
}

func (r *ccRecord) readBlocks() {
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
