package providertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Call is a request that the server got, in the words that all kinds have.
type Call struct {
	Number  int    // from 1, over all kinds
	Attempt int    // from 1, of the calls with this prompt
	Kind    string // openai-chat, openai-responses or anthropic
	Path    string
	Model   string
	System  string // all instructions, one a paragraph
	Prompt  string // text of the last message of the user
	Images  int    // in that message
	Results []string
	Turns   int    // messages or items, tool results included
	Tools   []Tool // functions
	Choice  string // "auto", "none", "required", or the name of a function
	Stream  bool
	Header  map[string][]string // without credentials
	Key     string              // the credential
	Body    []byte
	usage   bool // openai-chat: the stream ends with a count
}

// Tool is a function that the request offers.
type Tool struct {
	Name     string
	Required []string // names of parameters
}

// Answer is what a script returns. The zero value answers with one empty text.
type Answer struct {
	Reasoning []string // pieces
	Text      []string // pieces
	Refusal   []string // pieces
	Calls     []ToolCall
	Length    bool // the answer ends because it is too long
	Failure   *Failure
	// Cut breaks the connection in place of piece number Cut: 1 is the first. Nothing of the
	// reply's body comes before the first piece.
	Cut int
	// Garble sends bytes that are no event in place of piece number Garble.
	Garble int
}

// ToolCall is a call of a tool. ID "" picks one.
type ToolCall struct{ ID, Name, Arguments string }

// Failure is a reply that is no answer.
type Failure struct {
	Status     int
	Code       string
	Message    string
	RetryAfter string // header
	// Late sends the failure inside of the stream, in place of piece number Late.
	Late int
}

// Fail answers with a failure.
func Fail(status int, code, message string) Answer {
	return Answer{Failure: &Failure{Status: status, Code: code, Message: message}}
}

// words cuts a text before each word: the pieces joined are the text.
func words(text string) (pieces []string) {
	for len(text) > 0 {
		n := strings.IndexByte(text[1:], ' ') + 1
		if n == 0 {
			n = len(text)
		}
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// Auto is a script that answers by what is asked:
//
//   - the prompt says "exactly: X": X.
//   - results of tools came since the last answer: what they say.
//   - a tool must be called, or the prompt has a word of its name: a call of it, with an
//     example for each required parameter. The word #both calls each tool that is offered.
//   - the message has images: their number.
//   - else: how many messages came, and the prompt.
//
// Words of the prompt change the answer: #reason adds reasoning, #refuse refuses, #length
// ends it early, #words=N makes it N words long, #cut=N and #garble=N break it at piece N,
// #error=STATUS fails, #error-once=STATUS fails the first call of the prompt, and
// #error-late=N fails at piece N.
func Auto(c Call) (a Answer) {
	number := func(name string) int {
		for _, w := range strings.Fields(c.Prompt) {
			if v, ok := strings.CutPrefix(w, "#"+name+"="); ok {
				n, _ := strconv.Atoi(v)
				return n
			}
		}
		return 0
	}
	has := func(name string) bool { return slices.Contains(strings.Fields(c.Prompt), "#"+name) }
	if n := number("error"); n != 0 {
		return Fail(n, "scripted", "the script fails this call")
	}
	if n := number("error-once"); n != 0 && c.Attempt == 1 {
		return Fail(n, "scripted", "the script fails the first call of this prompt")
	}
	if n := number("error-late"); n != 0 {
		a.Failure = &Failure{Status: 500, Code: "server_error", Message: "the script fails this stream", Late: n}
	}
	a.Cut, a.Garble, a.Length = number("cut"), number("garble"), has("length")
	if has("reason") {
		a.Reasoning = words("First I look at what is asked.")
	}
	_, exact, isExact := strings.Cut(c.Prompt, "exactly: ")
	calls := c.toolCalls(has("both"))
	switch {
	case has("refuse"):
		a.Refusal = words("I do not answer this.")
	case number("words") > 0:
		a.Text = words(strings.TrimSpace(strings.Repeat("word ", number("words"))))
	case isExact:
		a.Text = words(exact)
	case len(c.Results) > 0 && c.Choice != "required":
		a.Text = words("The tools say: " + strings.Join(c.Results, "; "))
	case len(calls) > 0:
		a.Calls = calls
	case c.Images > 0:
		a.Text = words(fmt.Sprintf("I see %d image.", c.Images))
	default:
		a.Text = words(fmt.Sprintf("Message %d says: %s", c.Turns, c.Prompt))
	}
	return a
}

// toolCalls returns the calls that Auto makes.
func (c Call) toolCalls(all bool) (out []ToolCall) {
	if c.Choice == "none" {
		return nil
	}
	prompt := strings.ToLower(c.Prompt)
	for _, t := range c.Tools {
		wanted := all || c.Choice == t.Name || c.Choice == "required"
		for w := range strings.FieldsFuncSeq(t.Name, func(r rune) bool { return r == '_' || r == '-' || r == '.' }) {
			wanted = wanted || c.Choice == "auto" && len(w) > 3 && strings.Contains(prompt, strings.ToLower(w))
		}
		if !wanted || !all && len(out) > 0 {
			continue
		}
		args := make(map[string]any)
		for _, name := range t.Required {
			args[name] = "an example"
		}
		out = append(out, ToolCall{Name: t.Name, Arguments: string(encode(args))})
	}
	return out
}

// A piece is one step of a stream.
type piece struct {
	kind  pieceKind
	index int // of the part in the answer
	text  string
	call  ToolCall
	first bool // of its part
	last  bool
}

type pieceKind int

const (
	reasoningPiece pieceKind = iota + 1
	textPiece
	refusalPiece
	callPiece
)

// pieces returns the steps of a's stream. Each delta is one; a part begins with its first
// and ends with its last.
func (a Answer) pieces() (out []piece) {
	index := 0
	add := func(kind pieceKind, pieces []string) {
		for _, p := range pieces {
			out = append(out, piece{kind: kind, index: index, text: p})
		}
		if len(pieces) > 0 {
			index++
		}
	}
	add(reasoningPiece, a.Reasoning)
	add(refusalPiece, a.Refusal)
	if len(a.Text) == 0 && len(a.Refusal) == 0 && len(a.Calls) == 0 {
		a.Text = []string{""}
	}
	add(textPiece, a.Text)
	for _, c := range a.Calls {
		half := len(c.Arguments) / 2
		for _, p := range []string{c.Arguments[:half], c.Arguments[half:]} {
			out = append(out, piece{kind: callPiece, index: index, text: p, call: c})
		}
		index++
	}
	for i := range out {
		out[i].first = i == 0 || out[i-1].index != out[i].index
		out[i].last = i == len(out)-1 || out[i+1].index != out[i].index
	}
	return out
}

// Signature is the opaque part of an answer's reasoning: the same text has the same one.
func Signature(reasoning string) string {
	return fmt.Sprintf("signature-of-%d-bytes", len(reasoning))
}

// usage counts as one token each four bytes in and each piece out.
type usage struct{ in, cached, out, reasoning int }

func (c Call) count(a Answer) usage {
	in := len(c.Body)/4 + 1
	return usage{in: in, cached: in / 2, out: len(a.pieces()), reasoning: len(a.Reasoning)}
}
