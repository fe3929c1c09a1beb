package interchange

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"nexus/turns"
)

// Options say how a transcript is read. A format ignores those that it does not
// name. The zero value reads a transcript that may still grow.
type Options struct {
	// Final says that the transcript has ended. The turns at its end are read too if
	// they have no response or one that may go on, and a torn last line is reported.
	Final bool
	// MaxLine is the longest line read, in bytes; a longer one is skipped and
	// reported. Zero means [DefaultMaxLine].
	MaxLine int
	// Copied, for Codex and pi, says that the history which a fork's file begins with
	// is read as turns of its parent, with the ids that the parent's own file gives
	// them. Without it only the fork is read, for a ledger that has the parent.
	Copied bool
	// SpawnedBy, for Claude Code and Gemini CLI, is the turn that started the sub-agent
	// whose file this is. Zero: unknown.
	SpawnedBy turns.Ref
	// Spawner, for Gemini CLI, is what the agent calls the session that started the
	// sub-agent, where SpawnedBy is not known. Empty: the file may say it.
	Spawner string
	// Form, for chat messages, is their form. Zero: detected for each conversation.
	Form ChatForm
}

// Format is a format of transcripts.
type Format struct {
	Name  string
	Sniff func(head []byte) bool // reports whether a file that begins with head is of it
	Open  func(io.Reader, Options) *Reader
	// Version is that of the reader, from 1. It is raised with a change after which files
	// read differently, so that what was imported before can be read again.
	Version int

	lines func(io.Reader, Options) *Reader // reads a file of one object a line; nil: the format has none
	grows func(head []byte) bool           // reports whether a file is one of those; nil: each is
}

// Formats returns all formats. A file of unknown format is of the first whose Sniff
// takes it.
func Formats() []Format {
	fs := []Format{
		{Name: "claude-code", Version: 1, Sniff: SniffClaudeCode, Open: ClaudeCode, lines: ClaudeCode},
		{Name: "codex", Version: 1, Sniff: SniffCodex, Open: Codex, lines: Codex},
		{Name: "pi", Version: 1, Sniff: SniffPi, Open: Pi, lines: Pi},
		{Name: "gemini-cli", Version: 1, Sniff: SniffGeminiCLI, Open: GeminiCLI, lines: geminiCLILines, grows: isGeminiCLILog},
	}
	for _, form := range []ChatForm{ChatOTel, ChatAnthropic, ChatOpenAI} {
		fs = append(fs, Format{Name: string(form), Version: 1, Sniff: func(head []byte) bool { return SniffChat(head, form) }, Open: func(r io.Reader, opt Options) *Reader {
			opt.Form = form
			return Chat(r, opt)
		}})
	}
	return fs
}

// DefaultMaxLine is the longest line of a transcript that is read, in bytes.
const DefaultMaxLine = 256 << 20

// Reader reads a transcript as steps. Not safe for concurrent use.
//
// A file may grow between two reads. Without [Options].Final a reader emits no turn
// that a further line could change, so the steps of a shorter copy are among those
// of a longer one, byte for byte. It reports how many turns it held back.
type Reader struct {
	queue  []Step // read, and not returned yet
	loss   lossReport
	names  titles
	titles func() titles // nil: names
	read   func() error  // reads one record; io.EOF after the last

	torn func(line int, b []byte) // reads what is left of a torn object, before the others of its line; nil: nothing

	complete func() []Step // the steps that the end of the file would add here; nil: none
	repeats  bool          // Next gives those of complete again
	err      error         // of read: the last
}

// Next returns the next step, and [io.EOF] after the last. It returns
// [turns.ErrMalformed] if the source is no transcript of this format, and the errors
// of the source as they are. The steps before an error are valid. The caller owns the
// step.
func (r *Reader) Next() (Step, error) {
	for len(r.queue) == 0 {
		if r.err != nil {
			return Step{}, r.err
		}
		r.err = r.read()
	}
	s := r.queue[0]
	r.queue[0] = Step{}
	r.queue = r.queue[1:]
	return s, nil
}

// Steps returns an iterator over the steps of [Reader.Next]. An error comes with a zero
// Step and ends it. It can be used once.
func (r *Reader) Steps() iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		for {
			s, err := r.Next()
			if err == io.EOF {
				return
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// Losses returns what was lost or changed so far: single defects in the order of the
// file, then counts, sorted by kind and reason. The caller owns the slice.
func (r *Reader) Losses() []Loss { return r.loss.report() }

// Titles returns the titles of sessions, by the session's id, as the transcript states
// them so far. Nil: none.
func (r *Reader) Titles() map[turns.ID]string {
	if r.titles != nil {
		return r.titles().texts()
	}
	return r.names.texts()
}

// step adds a step to the queue of Next.
func (r *Reader) step(s Step) { r.queue = append(r.queue, s) }

// lineFormat is a format of one JSON object a line.
type lineFormat struct {
	name   string                            // in errors
	object func(line int, json []byte) error // reads one object; an error ends the reading
	end    func(line int)                    // reads the end of the file
}

// readLines makes r read the JSON objects of lines, one line a call of read.
func (r *Reader) readLines(in io.Reader, opt Options, f lineFormat) {
	limit := opt.MaxLine
	if limit <= 0 {
		limit = DefaultMaxLine
	}
	lines := newLineReader(in, limit)
	r.read = func() error {
		line, err := lines.next()
		switch {
		case err == io.EOF:
			f.end(line.n)
			return io.EOF
		case errors.Is(err, errNoMore):
			return err
		case errors.Is(err, errLineTooLong):
			r.loss.add(line.n, "skipped", "the line is longer than "+plural(limit, "byte"), "")
			return nil
		}
		if err == nil {
			objects, torn := lineObjects(line, opt.Final, &r.loss)
			if torn != nil && r.torn != nil {
				r.torn(line.n, torn)
			}
			for _, b := range objects {
				if err = f.object(line.n, b); err != nil {
					break
				}
			}
		}
		if err != nil {
			return fmt.Errorf("read %s, line %d: %w", f.name, line.n, err)
		}
		return nil
	}
}

// encoded returns v as JSON, nil if v can't be encoded. It is for values that were read
// from JSON.
func encoded(v any) turns.Raw {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		return nil
	}
	return b
}

// withUsage returns a meta object with the usage details of its turn, if there are any.
func withUsage(meta turns.Raw, d turns.UsageDetails) turns.Raw {
	if d == (turns.UsageDetails{}) {
		return meta
	}
	return append(membersOf(meta), jsonMember{"usage", encoded(d)}).raw()
}

// withTimeBound returns a meta object that says how the time of its turn was bounded; the
// zero bound leaves it as it is.
func withTimeBound(meta turns.Raw, b turns.TimeBound) turns.Raw {
	if b == "" {
		return meta
	}
	return append(membersOf(meta), jsonMember{"time_bound", turns.RawText(string(b))}).raw()
}

// withProgramMessages returns a meta object that says which messages of its turn a program
// wrote in the name of the user, by index.
func withProgramMessages(meta turns.Raw, at []int) turns.Raw {
	if len(at) == 0 {
		return meta
	}
	return append(membersOf(meta), jsonMember{"program_messages", encoded(at)}).raw()
}

// providerExt returns the Ext of a part: a value that only one provider may see. It
// returns nil if there is no value.
func providerExt(provider, member string, v turns.Raw) turns.Raw {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil
	}
	return encoded(map[string]map[string]turns.Raw{provider: {member: v}})
}

// argumentsOrEmpty returns v, the arguments of a call, and {} if there are none.
func argumentsOrEmpty(v turns.Raw) turns.Raw {
	if v == nil {
		return turns.Raw("{}")
	}
	return v
}

// nonNil returns ms, and an empty list for nil: JSON has a list in both cases.
func nonNil(ms []turns.Message) []turns.Message {
	if ms == nil {
		return []turns.Message{}
	}
	return ms
}

// orphanBegin begins the text before a tool result whose call was not read.
const orphanBegin = "[result of a tool call that is not in the transcript, id "

// orphanText returns the text before a tool result whose call was not read.
func orphanText(id string) string {
	return orphanBegin + strconv.Quote(id) + "]"
}

// jsonText returns the text of a JSON string, and any other value as its JSON.
func jsonText(raw turns.Raw) string {
	if s, ok := raw.Text(); ok {
		return s
	}
	return string(raw)
}
