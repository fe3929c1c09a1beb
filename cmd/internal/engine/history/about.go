package history

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
	"nexus/turns/secrets"
)

const (
	// TitleRunes bounds the length of a title, in characters.
	TitleRunes = 120
	// titleTurns is how many turns are searched for the user's first text.
	titleTurns = 8
)

// aboutKey names what a list shows of a session beside its settings. It follows from the session's chain up
// to its tail, of which a redaction is a part too.
type aboutKey struct {
	session turns.ID
	tail    uint64 // position
}

// about is what was read of a session for a list, without an error. It has text of the session, so it
// goes when a key is destroyed, as all caches do.
type about struct {
	time  *api.Time
	bound turns.TimeBound
	text  string // see [History.firstUserText]
	read  bool   // text was: of a session with a title it is not
}

// aboutBytes is about how many bytes of memory an about takes without its text.
const aboutBytes = 256

// fillAbout fills in a title and the time of the newest turn, which tell
// conversations apart. It leaves out what it can't read.
func (hs *History) fillAbout(ctx context.Context, s *ledger.Session, out *api.Session) {
	said := out.Title != "" // by a person
	var meta struct {
		Title turns.Raw `json:"title"`
	}
	_ = json.Unmarshal(out.Meta, &meta) // meta belongs to the client and may be anything
	if t, ok := meta.Title.Text(); ok && !said {
		out.Title = oneLine(t)
	}
	epoch := hs.abouts.Epoch() // before a key is read
	head, err := hs.reader.HeadNode(s)
	if err != nil || head.Ref.IsZero() {
		return
	}
	key := aboutKey{s.ID, s.Tail.Seq}
	a, kept := hs.abouts.Get(key)
	var unread error
	if !kept {
		a.time, a.bound, unread = hs.lastTurnTime(ctx, head)
	}
	out.HeadTime, out.HeadTimeBound = a.time, a.bound
	if out.Title == "" {
		if !a.read {
			kept, a.read = false, true
			a.text, err = hs.firstUserText(ctx, s, head)
			unread = cmp.Or(unread, err)
		}
		out.Title = a.text
	}
	if !kept && unread == nil {
		hs.abouts.PutIn(epoch, key, a, aboutBytes+len(a.text))
	}
}

// lastTurnTime returns the time that the newest normal turn at or above a node
// claims, or else when it was recorded, and whether an importer bounded what it claims. With an error
// the time is what could be read.
func (hs *History) lastTurnTime(ctx context.Context, head lineage.Node) (at *api.Time, bound turns.TimeBound, _ error) {
	var unread error
	err := hs.reader.PathNodes(ctx, head, 1, head.Depth, func(n lineage.Node) (bool, error) {
		if n.Kind == turns.KindCompaction {
			return true, nil
		}
		_, ev, err := hs.reader.TurnEvent(n.Ref)
		if err != nil {
			return false, err
		}
		ns := ev.Claimed
		if ns == 0 {
			ns = ev.Recorded
		} else {
			var b turns.TurnBody
			if unread = hs.content.Open(ev, &b); unread == nil { // else it can't be read, and the time stands
				bound = turns.TimeBoundOf(b.Meta)
			}
		}
		v := api.UnixTime(ns)
		at = &v
		return false, nil
	})
	return at, bound, cmp.Or(err, unread)
}

// firstUserText returns the first text of a user in the session's own turns. If a
// fork has none there, it searches the inherited turns. Where no user said anything, as to a
// subagent, it returns the task that another agent gave, else the first text of the model. With an
// error the text is what could be read.
func (hs *History) firstUserText(ctx context.Context, s *ledger.Session, head lineage.Node) (string, error) {
	var unread error
	if f := s.ForkOf; f != nil && head.Ref.Session == s.ID {
		at, err := hs.reader.Projections.Turn(f.At)
		if unread = err; err == nil {
			var text string
			if text, _, unread = hs.firstTextsFrom(ctx, head, at.Depth+1); text != "" {
				return text, unread
			}
		}
	}
	first, answer, err := hs.firstTextsFrom(ctx, head, 1)
	return cmp.Or(first, answer), cmp.Or(unread, err)
}

// firstTextsFrom returns the first text that a person wrote in a few turns from depth lo on,
// and the first task of an agent or text of the model.
func (hs *History) firstTextsFrom(ctx context.Context, head lineage.Node, lo uint64) (first, answer string, _ error) {
	err := hs.reader.PathTurns(ctx, head, lo, min(lo+titleTurns-1, head.Depth), func(_ rows.Turn, ev *turns.Event) (bool, error) {
		if ev.Kind != turns.KindTurn {
			return true, nil
		}
		var b turns.TurnBody
		if err := hs.content.Open(ev, &b); err != nil {
			return false, err
		}
		if first = firstRequest(&b); first != "" {
			return false, nil
		}
		answer = cmp.Or(answer, givenTask(&b))
		if b.Response != nil && answer == "" {
			for i := range b.Response.Parts {
				answer = cmp.Or(answer, oneLine(textOf(&b.Response.Parts[i])))
			}
		}
		return true, nil
	})
	return first, answer, err
}

// firstRequest returns the beginning of the first text of a turn that a person wrote, ""
// if none did.
func firstRequest(b *turns.TurnBody) string {
	program := turns.ProgramMessages(b.Meta)
	for i, m := range b.Messages {
		if m.Role != turns.User || slices.Contains(program, i) {
			continue
		}
		for j := range m.Parts {
			text := textOf(&m.Parts[j])
			if isStrayResult(text) || m.Parts[j].Ref != nil && isInjected(text) {
				continue
			}
			if t := oneLine(summary.Request(text)); t != "" {
				return t
			}
		}
	}
	return ""
}

// givenTask returns the beginning of the last message of another agent in a turn, "" for none:
// what stands before it is what the agent was told of the conversation so far.
func givenTask(b *turns.TurnBody) string {
	for _, m := range slices.Backward(b.Messages) {
		for j := range m.Parts {
			var ext struct {
				OpenAI struct {
					Message turns.Raw `json:"agent_message"`
				} `json:"openai"`
			}
			if m.Role != turns.User || json.Unmarshal(m.Parts[j].Ext, &ext) != nil || len(ext.OpenAI.Message) == 0 {
				continue
			}
			if t := oneLine(textOf(&m.Parts[j])); t != "" {
				return t
			}
		}
	}
	return ""
}

// textOf returns the text of a part, or the beginning of one that is in a blob; "" for a
// part of another type.
func textOf(p *turns.Part) string {
	switch {
	case p.Type != turns.Text:
		return ""
	case p.Ref != nil:
		return p.Ref.Preview
	}
	return p.Content
}

// isInjected reports whether the beginning of a long text, whose end may be missing, is
// like those that agents write in the user's name: a tag, a caveat, or the instructions of
// a repository.
func isInjected(text string) bool {
	for _, p := range []string{"<", "Caveat: ", "# AGENTS.md", "[Request interrupted by user"} {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}

// isStrayResult reports whether an import kept a tool result as this text.
func isStrayResult(text string) bool {
	return strings.HasPrefix(text, "[tool result without its call]") || strings.HasPrefix(text, "[result of a tool call that is not in the transcript")
}

// oneLine returns the beginning of a text, on one line, with asterisks for credentials of
// known shapes: it stands in lists, which nobody asks for a secret.
func oneLine(s string) string {
	s = secrets.MaskHead(s, 8*TitleRunes)
	if len(s) > 8*TitleRunes {
		s = s[:8*TitleRunes]
	}
	r := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "))
	if len(r) > TitleRunes {
		r = append(r[:TitleRunes-1], '…')
	}
	return string(r)
}
