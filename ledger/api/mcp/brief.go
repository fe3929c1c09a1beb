package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/secrets"
)

const (
	defaultSessions = 3
	maxSessions     = 4
	maxMemories     = 6
	maxOpen         = 5
	lastTurns       = 2
	recentTurns     = 4 // that are read to find the last ones; compactions may be among them
)

// What the texts of a brief may take, in bytes of a frame. The first session has the
// most; all that a brief may have stays below maxText.
const (
	labelBytes    = 60
	titleBytes    = 120
	summaryBytes  = 1000
	turnBytes     = 300 // each half
	openBytes     = 100
	memoryBytes   = 160
	documentBytes = 400
	// A session after the first has its title, and this much of its summary and its
	// last answer.
	laterBytes = 120
)

type briefInput struct {
	Cwd      string `json:"cwd,omitempty" jsonschema:"only sessions that worked in this folder or below it; an absolute path"`
	Project  string `json:"project,omitempty" jsonschema:"only sessions of this repository: the name of its remote (github.com/acme/shelf), the end of it, or a folder of it; with cwd: those of either"`
	Session  string `json:"session,omitempty" jsonschema:"only this session: its id or label"`
	Sessions int    `json:"sessions,omitempty" jsonschema:"how many sessions; default 3"`
}

type briefResult struct {
	Notice   string         `json:"notice"`
	Sessions []briefSession `json:"sessions" jsonschema:"newest first; the first has the most"`
	Memories []briefMemory  `json:"memories" jsonschema:"in force, newest first"`
	Document string         `json:"document,omitempty" jsonschema:"the beginning of the agent's own document"`
}

type briefSession struct {
	Session string      `json:"session"`
	Label   string      `json:"label,omitempty"`
	Task    string      `json:"task,omitempty" jsonschema:"its title, or the first words of the user"`
	Cwd     string      `json:"cwd,omitempty"`
	State   string      `json:"state"`
	Time    string      `json:"time" jsonschema:"of its newest turn"`
	Bound   string      `json:"time_bound,omitempty" jsonschema:"not_after or not_before: the source does not state the time, and it is a bound of it"`
	Head    string      `json:"head,omitempty" jsonschema:"its newest turn; expand and fork take it"`
	Number  uint64      `json:"number" jsonschema:"of the newest turn on its path"`
	Summary string      `json:"summary,omitempty" jsonschema:"the beginning of the newest summary"`
	From    string      `json:"summary_turn,omitempty" jsonschema:"the compaction with the whole summary; expand takes it"`
	Turns   []briefTurn `json:"turns" jsonschema:"the last turns, oldest first, each shortened"`
	Open    []string    `json:"open" jsonschema:"what the summary and the last turn say is not done"`
}

type briefTurn struct {
	Handle string `json:"handle"`
	Number uint64 `json:"number"`
	User   string `json:"user,omitempty"`
	Agent  string `json:"agent,omitempty"`
}

type briefMemory struct {
	Memory string `json:"memory"`
	Kind   string `json:"kind"`
	Time   string `json:"time"`
	Text   string `json:"text"`
	Source string `json:"source,omitempty" jsonschema:"a turn that it comes from; expand takes it"`
}

func defineBrief() (definition, error) {
	return define(about{name: "brief", title: "Brief for a start",
		description: "What an agent needs when it starts: the last sessions of this agent, or of a folder, with task, newest summary, last turns and open points, and the memories in force. At most 8 kB; the handles in it lead to the rest."},
		func(p map[string]*jsonschema.Schema) { within(p["sessions"], 1, maxSessions) },
		brief)
}

func brief(ctx context.Context, c *call, in briefInput) (*briefResult, error) {
	n, err := limitOf("/sessions", in.Sessions, defaultSessions, maxSessions)
	if err != nil {
		return nil, err
	}
	out := &briefResult{Notice: notice, Sessions: []briefSession{}, Memories: []briefMemory{}}
	var sessions []api.Session
	var seenBy turns.ID // whose memories are shown
	switch {
	case in.Session != "" && in.Cwd+in.Project != "":
		return nil, api.FieldErrorf("/session", "name a session, or a folder and a project")
	case in.Session != "":
		s, err := c.session(ctx, "/session", in.Session)
		if err != nil {
			return nil, err
		}
		sessions, seenBy = []api.Session{*s}, s.ID
	default:
		found, err := c.newest(ctx, n, in.keep())
		if err != nil {
			return nil, err
		}
		sessions = found.sessions
	}
	for i := range sessions {
		b, err := c.briefSession(ctx, &sessions[i], i == 0)
		if err != nil {
			return nil, err
		}
		out.Sessions = append(out.Sessions, *b)
	}
	if out.Memories, err = c.briefMemories(ctx, seenBy); err != nil {
		return nil, err
	}
	if seenBy.IsZero() && c.caller.Agent != api.Operator { // the document is the agent's, for its main sessions
		d, err := c.Document(ctx, api.MemoryDocument{})
		if err != nil {
			return nil, err
		}
		out.Document = shortened(d.Text, documentBytes)
	}
	return out, nil
}

// keep says which sessions a brief is of; nil: all.
func (in *briefInput) keep() func(*api.Session) bool {
	if in.Cwd+in.Project == "" {
		return nil
	}
	return func(s *api.Session) bool {
		return in.Cwd != "" && isIn(workDir(s), in.Cwd) || in.Project != "" && turns.ProjectOf(s.Meta).Has(s.Project, in.Project)
	}
}

// briefSession describes a session: the first of a brief at length.
func (c *call) briefSession(ctx context.Context, s *api.Session, first bool) (*briefSession, error) {
	out := &briefSession{Session: s.ID.String(), Label: s.Label, Task: shortened(s.Title, titleBytes), Cwd: shortened(workDir(s), titleBytes), State: s.State,
		Time: timeText(s.HeadTime), Bound: string(s.HeadTimeBound), Number: s.Depth, Turns: []briefTurn{}, Open: []string{}}
	if s.Head == nil {
		return out, nil
	}
	out.Head = handle(s.ID, *s.Head)
	summaryRoom, turnRoom, last := summaryBytes, turnBytes, lastTurns
	if !first {
		summaryRoom, turnRoom, last = laterBytes, laterBytes/2, 1
	}
	for k, err := range c.Compactions(ctx, s.ID) { // newest first
		if err != nil {
			return nil, err
		}
		t, err := c.Compaction(ctx, s.ID, k.ID)
		if err != nil {
			return nil, err
		}
		text := summaryText(t.Compaction)
		out.From, out.Summary, out.Open = handle(s.ID, t.ID), shortened(text, summaryRoom), openPoints(text)
		break
	}
	read := 0
	for t, err := range c.Turns(ctx, s.ID, api.ListTurns{Order: "desc", Full: true, Page: api.Page{Limit: recentTurns}}) {
		if err != nil {
			return nil, err
		}
		if read++; read > recentTurns {
			break
		}
		if t.Type != "normal" || t.Error != "" {
			continue
		}
		if read == 1 && (t.Pending || t.OpenCalls > 0) {
			out.Open = append(out.Open, fmt.Sprintf("turn %d: %s", t.Depth, waiting(&t)))
		}
		out.Turns = append(out.Turns, briefTurn{handle(s.ID, t.ID), t.Depth, shortened(textsOf(t.Messages, turns.ProgramMessages(t.Meta)), turnRoom), shortened(answered(t.Response), turnRoom)})
		if len(out.Turns) == last {
			break
		}
	}
	slices.Reverse(out.Turns)
	out.Open = out.Open[:min(len(out.Open), maxOpen)]
	if !first {
		out.Open = out.Open[:min(len(out.Open), 1)]
	}
	return out, nil
}

// waiting says what a turn that is not complete waits for.
func waiting(t *api.Turn) string {
	if t.OpenCalls > 0 {
		return fmt.Sprintf("%d tool calls have no result", t.OpenCalls)
	}
	return "it has no response"
}

// summaryText is the text of a compaction's summary.
func summaryText(k *api.Compaction) string {
	switch {
	case k == nil:
		return ""
	case k.Summary != nil:
		return *k.Summary
	}
	return textsOf(k.Replacement, nil)
}

// openPoints returns the items of the section REMAINING, which the extractive summarizer
// writes, and models that are asked for the same sections.
func openPoints(summary string) []string {
	out, in := []string{}, false
	for line := range strings.SplitSeq(summary, "\n") {
		item, isItem := strings.CutPrefix(strings.TrimSpace(line), "- ")
		switch {
		case !isItem && strings.TrimSpace(line) != "":
			in = strings.EqualFold(strings.Trim(line, "#*: \t\r"), "REMAINING")
		case in && isItem && len(out) < maxOpen:
			out = append(out, shortened(item, openBytes))
		}
	}
	return out
}

// textsOf returns the texts of messages, but of those whose indexes without has, and names
// their results of tools.
func textsOf(ms []turns.Message, without []int) string {
	var b strings.Builder
	results := 0
	for i, m := range ms {
		if slices.Contains(without, i) {
			continue
		}
		for _, p := range m.Parts {
			switch {
			case p.Type == turns.ToolCallResponse:
				results++
			case p.Type == turns.Text && p.Ref != nil:
				fmt.Fprintln(&b, p.Ref.Preview)
			case p.Type == turns.Text:
				fmt.Fprintln(&b, p.Content)
			}
		}
	}
	if results > 0 {
		fmt.Fprintf(&b, "(%s of tools)", plural(uint64(results), "result"))
	}
	return strings.TrimSpace(b.String())
}

// answered returns the texts of a response, and names the tools that it calls.
func answered(m *turns.Message) string {
	if m == nil {
		return ""
	}
	text := textsOf([]turns.Message{*m}, nil)
	var calls []string
	for _, p := range m.Parts {
		if p.Type == turns.ToolCall {
			calls = append(calls, p.Name)
		}
	}
	if len(calls) > 0 {
		text = strings.TrimSpace(text + "\n(calls " + strings.Join(calls, ", ") + ")")
	}
	return text
}

func (c *call) briefMemories(ctx context.Context, session turns.ID) ([]briefMemory, error) {
	out := []briefMemory{}
	for m, err := range c.Memories(ctx, api.ListMemories{State: "accepted", Session: session, Page: api.Page{Limit: maxMemories}}) {
		if err != nil {
			return nil, err
		}
		if len(out) == maxMemories {
			break
		}
		if m.Error != "" {
			continue
		}
		b := briefMemory{Memory: m.ID.String(), Kind: m.Kind, Time: timeText(&m.Time), Text: shortened(m.Text, memoryBytes)}
		if len(m.Sources) > 0 {
			b.Source = handle(m.Sources[0].Session, m.Sources[0].Turn)
		}
		out = append(out, b)
	}
	return out, nil
}

// shortened returns the beginning of a text that takes at most n bytes of a frame, with
// asterisks for credentials of known shapes.
func shortened(s string, n int) string {
	const mark = "…"
	s = strings.TrimSpace(s)
	s = secrets.MaskHead(s, n)
	if m, _ := fits(s, n); m == len(s) {
		return s
	}
	m, _ := fits(s, n-len(mark))
	return s[:m] + mark
}

func (r *briefResult) text(f *frame) {
	if len(r.Sessions) == 0 {
		f.line("No session found.")
	}
	for _, s := range r.Sessions {
		bound := ""
		if s.Bound != "" {
			bound = strings.ReplaceAll(s.Bound, "_", " ") + " "
		}
		f.line("Session %s: %s, %s, newest %s%s", s.Session, s.State, plural(s.Number, "turn"), bound, s.Time)
		if s.Label != "" {
			f.data("label: " + shortened(s.Label, labelBytes))
		}
		if s.Task != "" {
			f.data("task: " + s.Task)
		}
		if s.Summary != "" {
			f.line("summary, whole in %s:", s.From)
			f.data(s.Summary)
		}
		for _, t := range s.Turns {
			f.line("turn %s (number %d):", t.Handle, t.Number)
			if t.User != "" {
				f.data("user: " + t.User)
			}
			if t.Agent != "" {
				f.data("agent: " + t.Agent)
			}
		}
		if len(s.Open) > 0 {
			f.line("open:")
			for _, o := range s.Open {
				f.data("- " + o)
			}
		}
	}
	if len(r.Memories) > 0 {
		f.line("Memories:")
		for _, m := range r.Memories {
			f.line("%s, %s, %s", m.Memory, m.Kind, m.Time)
			f.data(m.Text)
		}
	}
	if r.Document != "" {
		f.line("Document:")
		f.data(r.Document)
	}
}
