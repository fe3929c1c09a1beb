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
	head, err := hs.reader.HeadNode(s)
	if err != nil || head.Ref.IsZero() {
		return
	}
	out.HeadTime, out.HeadTimeBound = hs.lastTurnTime(ctx, head)
	if out.Title == "" {
		out.Title = hs.firstUserText(ctx, s, head)
	}
}

// lastTurnTime returns the time that the newest normal turn at or above a node
// claims, or else when it was recorded, and whether an importer bounded what it claims.
func (hs *History) lastTurnTime(ctx context.Context, head lineage.Node) (at *api.Time, bound turns.TimeBound) {
	_ = hs.reader.PathNodes(ctx, head, 1, head.Depth, func(n lineage.Node) (bool, error) {
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
			if err := hs.content.Open(ev, &b); err == nil { // else it can't be read, and the time stands
				bound = turns.TimeBoundOf(b.Meta)
			}
		}
		v := api.UnixTime(ns)
		at = &v
		return false, nil
	})
	return at, bound
}

// firstUserText returns the first text of a user in the session's own turns. If a
// fork has none there, it searches the inherited turns. Where no user said anything, as to a
// subagent, it returns the task that another agent gave, else the first text of the model.
func (hs *History) firstUserText(ctx context.Context, s *ledger.Session, head lineage.Node) string {
	if f := s.ForkOf; f != nil && head.Ref.Session == s.ID {
		if at, err := hs.reader.Projections.Turn(f.At); err == nil {
			if text, _ := hs.firstTextsFrom(ctx, head, at.Depth+1); text != "" {
				return text
			}
		}
	}
	return cmp.Or(hs.firstTextsFrom(ctx, head, 1))
}

// firstTextsFrom returns the first text that a person wrote in a few turns from depth lo on,
// and the first task of an agent or text of the model.
func (hs *History) firstTextsFrom(ctx context.Context, head lineage.Node, lo uint64) (first, answer string) {
	_ = hs.reader.PathTurns(ctx, head, lo, min(lo+titleTurns-1, head.Depth), func(_ rows.Turn, ev *turns.Event) (bool, error) {
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
	return first, answer
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
