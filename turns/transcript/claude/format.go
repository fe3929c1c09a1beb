package claude

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns/transcript"
	"nexus/turns/transcript/claude/write"
)

// Read reads a Claude Code transcript (JSON lines) as steps.
//
// It is a pure fold over the lines: what was emitted after line n depends only on
// lines 1 to n. The end of the file emits the turns whose response is complete: the
// provider stopped, and not for tool calls. A message may have one line for each
// block, so any other last response may go on in the next line. It is emitted only
// with Final, as is one without a stop reason, which older versions do not write.
//
// Before the end a turn is finished, and emitted, when one of these lines was read:
//
//   - a response to what follows it: the first line of another API message
//     that continues the turn (its tool results come between);
//   - a user line with text that continues it. Tool results alone do not
//     finish it: Claude Code writes results between the blocks of one message;
//   - a stop_hook_summary or turn_duration line that hangs on its response;
//   - a compaction that follows it;
//   - a rewind to it or, for the branch that the rewind gave up, to above it.
//
// Held in memory are the lines' derived positions (about 200 bytes a line)
// and the content of turns that are not finished, never that of finished ones.
//
// One session is opened for each sessionId of the file and one for each
// sub-agent (sidechain) in it; a rewind is a fork. A sessionId that first
// appears below a turn of another is a fork of it at that turn. A second first
// prompt (a rewind to before the first turn) opens a session too, since there
// is no turn to fork from. A session's first child of a turn in file order
// continues the session.
//
// The id of a session is derived from its sessionId (and agentId) alone, that of a
// turn from the uuid and the time of its first line: other files name them too. A
// line with forkedFrom is a line of the session that it names. Its turns are read
// with Copied only; without it the file's session is a fork of that one. The file
// of a sub-agent names the session that started it.
//
// What hangs on a line that is lost follows what stood before the line if the rest
// of it says so. Else it follows the last turn of its session, or begins a branch
// where several are written to. It never goes to another session.
//
// A compaction keeps the lines that its boundary names; what hangs on the last of
// them follows the compaction.
func Read(r io.Reader, opt transcript.Options) *transcript.Reader {
	k := newTree(opt)
	k.Source.Torn = k.torn
	k.ReadLines(r, opt, transcript.LineFormat{Name: "claude-code transcript", Object: k.record, End: func(int) { k.finish(opt.Final) },
		Begins: []string{`{"parentUuid":`, `{"type":`, `{"isSidechain":`, `{"logicalParentUuid":`, `{"sessionId":`}})
	k.Source.Titles = k.titles
	k.Complete = k.completeTurns
	return k.Reader()
}

// Sniff reports whether head, the first bytes of a file, looks like
// a Claude Code transcript: one of its first lines is an object with a type of
// Claude Code's and, on messages, a parentUuid, or a bookkeeping line known to
// stand at its start. A few kilobytes will do; a first line cut short is read
// as far as it goes.
func Sniff(head []byte) bool {
	for line := range bytes.Lines(head) {
		var typ string
		keys := make(map[string]bool)
		d := jsontext.NewDecoder(bytes.NewReader(line))
		if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
			return false
		}
		for d.PeekKind() == '"' {
			t, err := d.ReadToken()
			if err != nil {
				break
			}
			name := t.String()
			keys[name] = true
			if name == "type" && d.PeekKind() == '"' {
				if t, err = d.ReadToken(); err == nil {
					typ = t.String()
				}
			} else if d.SkipValue() != nil {
				break
			}
		}
		if keys["systemPayload"] || bytes.Contains(line, []byte(`","parts":[`)) && !bytes.Contains(line, []byte(`"content":`)) {
			return false // Qwen Code writes lines of this form with other content
		}
		switch typ {
		case "summary":
			if keys["leafUuid"] {
				return true
			}
		case "file-history-snapshot":
			return keys["snapshot"] || keys["messageId"]
		case "last-prompt", "mode", "permission-mode": // since 2.1; the first lines before the first message
			if keys["sessionId"] && (keys["leafUuid"] || keys["mode"] || keys["permissionMode"]) {
				return true
			}
		}
		if keys["parentUuid"] && (keys["sessionId"] || keys["isSidechain"] || keys["uuid"]) {
			return true
		}
		if typ == "" || !keys["sessionId"] { // codex, pi and others never have both
			return false
		}
	}
	return false
}

// Format is the format of Claude Code's transcripts.
func Format() transcript.Format {
	return transcript.Format{
		Name: "claude-code", Version: 2, SharesIDs: true, Sniff: Sniff, Open: Read, Lines: Read,
		Write: func(s transcript.WrittenSession) transcript.Writer { return write.New(s) },
	}
}
