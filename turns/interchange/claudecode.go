package interchange

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// ClaudeOptions say how a Claude Code transcript is read.
type ClaudeOptions struct {
	// Final says that the transcript has ended: a last turn without a response
	// is given too, and a torn last line is reported.
	Final bool
	// MaxLine is the longest line read, in bytes; a longer one is skipped and
	// reported. Zero means [DefaultMaxLine].
	MaxLine int
	// SpawnedBy is what started the agent of a file that holds a sub-agent
	// only; zero where that isn't known.
	SpawnedBy turns.Ref
}

// DefaultMaxLine is the longest line of a transcript that is read, in bytes.
const DefaultMaxLine = 128 << 20

// ClaudeReader reads a Claude Code transcript (JSON lines) as steps.
//
// It is a pure fold over the lines: what has been given after line n depends
// on lines 1 to n alone. At the end of the file come the turns that have a
// response and were not given yet. So the steps of a shorter copy are those of a
// longer one, with the same IDs and the same content; only the last response of a
// branch may have fewer parts, where the longer copy goes on with it.
//
// Before the end a turn is finished, and given, when one of these lines was read:
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
// Not safe for concurrent use.
type ClaudeReader struct {
	lines *ccLines
	opt   ClaudeOptions
	tree  *ccTree
	err   error
}

// ClaudeCode is a reader of the transcript in r.
func ClaudeCode(r io.Reader, opt ClaudeOptions) *ClaudeReader {
	if opt.MaxLine <= 0 {
		opt.MaxLine = DefaultMaxLine
	}
	return &ClaudeReader{lines: newCCLines(r, opt.MaxLine), opt: opt, tree: newCCTree(opt)}
}

// Next is the next step, or [io.EOF] after the last. Another error is the
// source's own; the steps given before it stand.
func (c *ClaudeReader) Next() (Step, error) {
	for len(c.tree.out) == 0 {
		if c.err != nil {
			return Step{}, c.err
		}
		if err := c.readLine(); err != nil {
			c.err = err
		}
	}
	s := c.tree.out[0]
	c.tree.out[0] = Step{}
	c.tree.out = c.tree.out[1:]
	return s, nil
}

// Steps are the steps that [ClaudeReader.Next] gives; an error is the last
// pair. They can be ranged over once.
func (c *ClaudeReader) Steps() iter.Seq2[Step, error] { return stepsOf(c.Next) }

// Losses is the loss report of what was read so far: single defects in file
// order, then counts by reason.
func (c *ClaudeReader) Losses() []Loss { return c.tree.loss.report() }

func (c *ClaudeReader) readLine() error {
	line, err := c.lines.next()
	switch {
	case err == io.EOF:
		c.tree.finish(c.opt.Final)
		return io.EOF
	case errors.Is(err, errLineTooLong):
		c.tree.loss.add(line.n, "skipped", "the line is longer than "+plural(c.opt.MaxLine, "byte"), "")
		return nil
	case err != nil:
		return fmt.Errorf("read claude-code transcript, line %d: %w", line.n, err)
	}
	for _, rec := range ccRecords(line, c.opt.Final, &c.tree.loss) {
		c.tree.feed(rec)
	}
	return nil
}

// SniffClaudeCode reports whether head, the first bytes of a file, looks like
// a Claude Code transcript: one of its first lines is an object with a type of
// Claude Code's and, on messages, a parentUuid, or a bookkeeping line known to
// stand at its start. A few kilobytes will do; a first line cut short is read
// as far as it goes.
func SniffClaudeCode(head []byte) bool {
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
