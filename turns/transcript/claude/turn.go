package claude

import (
	"fmt"
	"slices"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript/claude/content"
	"nexus/turns/transcript/claude/record"
)

// userPiece is one tool result of a user line, or the blocks between two of them.
type userPiece struct {
	msg   turns.Message
	call  *toolCall // of a tool result
	stray bool      // a tool result that stands as text
}

// user places a user line: a prompt, tool results, or both.
func (k *tree) user(rec *record.Line, a *anchor) *anchor {
	pieces, typed := k.userPieces(rec)
	if len(pieces) == 0 { // nothing but results that were there before
		return a
	}
	var t *turn
	for i := range pieces {
		c := pieces[i].call
		if c == nil {
			continue
		}
		if t == nil {
			t = k.resultTurn(rec, c, a)
		}
		if t != nil && (c.turn.continuation == t || t.parent == c.turn) {
			continue
		}
		// The next response came without it, or the line answers two turns.
		pieces[i] = userPiece{stray: true, msg: k.strayResult(rec, pieces[i].msg.Parts[0], "the turn after its call has gone on")}
	}
	if t == nil {
		t = k.promptTurn(rec, a, typed && !rec.Meta && rec.Kind == record.User)
	}
	if typed && !rec.Meta && rec.Kind == record.User {
		a.prompted = true
		if t.parent != nil {
			k.emit(t.parent)
		}
	}
	for _, p := range pieces {
		k.addMessage(rec, &t, p)
	}
	t.body.meta.Messages = append(t.body.meta.Messages, rec.UUID)
	t.body.setContext(rec)
	t.body.setTime(rec.Time, k.lastTime)
	return &anchor{b: t.b, t: t, phase: inMessages, messageCount: len(t.body.messages)}
}

func (k *tree) addMessage(rec *record.Line, t **turn, p userPiece) {
	if len((*t).body.messages) >= turns.MaxMessages {
		k.emit(*t)
		k.Loss.Add(rec.Number, "repaired", fmt.Sprintf("more than %d messages for one turn; they go on in another", turns.MaxMessages), rec.UUID)
		*t = k.newTurn(rec, (*t).b)
	}
	b := (*t).body
	order := -1
	if p.call != nil {
		order, p.call.answeredIn = p.call.order, *t
		b.hasResults = true
	} else {
		b.hasTexts = true
	}
	b.messages = append(b.messages, p.msg)
	b.order = append(b.order, order)
	b.program = append(b.program, p.call == nil && (rec.Program || p.stray || !rec.Person && content.IsProgramText(&p.msg)))
	if n := len(b.messages); n > 1 && content.IsLocalOutput(&p.msg) && content.IsCommand(&b.messages[n-2]) {
		b.program[n-2] = true // what the person typed was for Claude Code, and the model is not asked
	}
}

// userPieces reads the blocks of a user line. typed says that a person may have written
// some of it.
func (k *tree) userPieces(rec *record.Line) (pieces []userPiece, typed bool) {
	user := func(p turns.Part) {
		if n := len(pieces); n > 0 && pieces[n-1].call == nil && pieces[n-1].msg.Role == turns.User && len(pieces[n-1].msg.Parts) < turns.MaxParts {
			m := &pieces[n-1].msg
			m.Parts = append(m.Parts, p)
			return
		}
		pieces = append(pieces, userPiece{msg: turns.Message{Role: turns.User, Parts: []turns.Part{p}}})
	}
	answered := make(map[*toolCall]bool)
	for _, block := range rec.Blocks {
		if values.Members(block).Text("type") != "tool_result" {
			p, repaired := content.Part(turns.User, block)
			if repaired != "" {
				k.Loss.Add(rec.Number, "repaired", repaired+" is kept as a text part with the block in ext", rec.UUID)
			}
			user(p)
			pieces[len(pieces)-1].stray = false
			typed = true
			continue
		}
		p, call := k.result(rec, block)
		switch {
		case call == nil:
			user(k.strayResult(rec, p, "its call is not in the file").Parts[0])
			pieces[len(pieces)-1].stray = len(pieces[len(pieces)-1].msg.Parts) == 1 || pieces[len(pieces)-1].stray
		case call.answeredIn != nil || answered[call]:
			k.Loss.Add(rec.Number, "kept_first", "another result of a tool call that has one; it is not stored", p.ID)
		default:
			answered[call] = true
			if n := content.CountUnknown(block); n > 0 {
				k.Loss.AddMany(n, rec.Number, "repaired", "blocks of an unknown type in a tool result are kept as text parts with the block in ext", rec.UUID)
			}
			pieces = append(pieces, userPiece{msg: turns.Message{Role: turns.Tool, Parts: []turns.Part{p}}, call: call})
		}
	}
	if len(rec.Blocks) == 0 {
		k.Loss.Add(rec.Number, "stored", "a user line without content", rec.UUID)
		pieces = []userPiece{{msg: turns.Message{Role: turns.User}}}
	}
	return pieces, typed
}

// result reads a tool_result block and finds its call: by id or, in files
// without ids, the first open call of the line that it says it answers.
func (k *tree) result(rec *record.Line, block turns.Raw) (turns.Part, *toolCall) {
	id := values.Members(block).Text("tool_use_id")
	if id == "" {
		for _, uuid := range []string{rec.Source, rec.Parent} {
			for i := range turns.MaxParts {
				made := derivedCallID(uuid, i)
				c := k.calls[keyOf(made)]
				if c == nil {
					break
				}
				if c.answeredIn == nil {
					p, _ := content.Unchecked(block)
					p.ID = made
					return p, c
				}
			}
		}
	}
	p, repaired := content.Part(turns.Tool, block)
	if repaired != "" { // no id, or one that can't be: never a call's
		p, _ = content.Unchecked(block)
		return p, nil
	}
	return p, k.calls[keyOf(id)]
}

// derivedCallID returns the id for the i-th call of a line, which has none.
func derivedCallID(uuid string, i int) string {
	return fmt.Sprintf("%s:%s:%d", sourceName, values.Clipped(uuid, 80), i)
}

// largestStray is the most bytes of a stray result that is also there as it stood. A text
// of any size moves to a blob; ext does not, and counts against the largest message.
const largestStray = 64 << 10

// strayResult returns a result that can't answer its call, as marked user text.
func (k *tree) strayResult(rec *record.Line, p turns.Part, why string) turns.Message {
	k.Loss.Add(rec.Number, "repaired", "a tool result is kept as text: "+why, p.ID)
	text, ok := p.Response.Text()
	if !ok {
		text = string(p.Response)
	}
	t := turns.TextPart("[tool result without its call]\n" + text)
	if len(p.Response) <= largestStray {
		t.Ext = content.Ext(nil, values.Object{{Name: "tool_result", Value: values.Object{{Name: "tool_use_id", Value: turns.RawText(p.ID)}, {Name: "content", Value: p.Response}}.Raw()}})
	}
	m := turns.Message{Role: turns.User, Parts: []turns.Part{t}}
	if m.Validate("") != nil {
		m.Parts[0].Ext = nil
	}
	return m
}

// resultTurn returns the turn that gets the result of c in a line at a: the one after the
// call's turn, nil if that takes no more messages. A session that was forked at the call's
// turn has its own result of the call. A line that has begun a turn begins no other.
func (k *tree) resultTurn(rec *record.Line, c *toolCall, a *anchor) *turn {
	if a.t.open() && a.t.first == keyOf(rec.UUID) {
		return a.t
	}
	if a.b != c.turn.b && a.b.forkedAt == c.turn && !a.b.side {
		if a.b.tail == nil {
			return k.newTurn(rec, a.b)
		}
		if a.b.tail.parent == c.turn && a.b.tail.open() {
			return a.b.tail
		}
	}
	switch n := c.turn.continuation; {
	case !c.turn.b.takes(rec):
		return nil
	case n.open():
		return n
	case n == nil:
		return k.newTurn(rec, c.turn.b)
	}
	return nil
}

// promptTurn returns the turn that gets the text of a user line at a. Text that a person
// typed may be a rewind; what Claude Code adds by itself is not.
func (k *tree) promptTurn(rec *record.Line, a *anchor, typed bool) *turn {
	t := a.t
	switch {
	case t == nil && a.b.tail == nil:
		return k.newTurn(rec, a.b)
	case t == nil && typed && !a.b.tail.b.side:
		return k.newTurn(rec, k.restart(rec, a.b))
	case t == nil:
		return k.joinTail(rec, a.b)
	case a.b != t.b && a.b.tail == nil: // a fork's first turn
		return k.newTurn(rec, a.b)
	case a.b != t.b && typed && a.prompted:
		return k.newTurn(rec, k.forkAt(rec, t, a.b))
	case a.b != t.b:
		return k.joinTail(rec, a.b)
	case a.phase == inMessages && t.open():
		if typed && a.prompted {
			return k.rewindInto(rec, a)
		}
		return t
	case a.phase == inMessages && t.responded:
		if typed {
			return k.rewindInto(rec, a)
		}
		return k.joinTail(rec, t.b)
	}
	switch n := t.continuation; {
	case n == nil:
		return k.newTurn(rec, t.b)
	case n.open() && (!typed || !n.body.hasTexts && !a.prompted):
		return n
	case typed:
		return k.newTurn(rec, k.forkAt(rec, t, t.b))
	}
	return k.joinTail(rec, t.b)
}

func (k *tree) joinTail(rec *record.Line, b *branch) *turn {
	if b.tail.open() {
		return b.tail
	}
	return k.newTurn(rec, b)
}

// rewindInto makes a branch inside the messages half of a turn. A fork starts after a
// turn, so this one starts after the parent and repeats the messages up to a, if they
// are still in memory.
func (k *tree) rewindInto(rec *record.Line, a *anchor) *turn {
	t := a.t
	body := t.body // emitting drops it
	reason := "a rewind into the messages of a turn repeats them in the fork"
	if t.body == nil {
		reason = "a rewind into the messages of a finished turn: the fork lacks those before it"
	}
	k.Loss.Add(rec.Number, "repaired", reason, rec.UUID)
	var b *branch
	if t.parent == nil {
		b = k.restart(rec, t.b)
	} else {
		b = k.forkAt(rec, t.parent, t.b)
		k.emit(t)
	}
	n := k.newTurn(rec, b)
	n.body.repeat(body, a.messageCount)
	return n
}

// assistant places a line of a response. A line usually holds one block.
func (k *tree) assistant(rec *record.Line, a *anchor) *anchor {
	id := values.String(rec.Message.ID)
	if id == "" {
		id = "line:" + rec.UUID
	}
	key := responseKey(a.b, id)
	t := k.responses[key]
	switch {
	case t == nil:
		t = k.responseTurn(rec, a)
	case t.complete() || len(t.body.response.Parts)+len(rec.Blocks) > turns.MaxParts:
		k.Loss.Add(rec.Number, "repaired", "a block of a response that was finished; it is kept as a response of its own", rec.UUID)
		b := t.b
		k.emit(b.tail)
		t = k.newTurn(rec, b)
	}
	k.responses[key] = t
	if !t.responded {
		t.responded = true
		t.body.response = &turns.Message{Role: turns.Assistant}
		if t.parent != nil {
			k.emit(t.parent)
		}
	}
	if t.body.time.IsZero() && !rec.Time.IsZero() {
		t.body.time, t.body.bound = rec.Time, turns.TimeNotAfter
	}
	k.addResponse(rec, t)
	return &anchor{b: t.b, t: t, phase: afterMessages}
}

func (k *tree) addResponse(rec *record.Line, t *turn) {
	b := t.body
	for i, block := range rec.Blocks {
		if len(b.response.Parts) >= turns.MaxParts {
			k.Loss.Add(rec.Number, "skipped", fmt.Sprintf("%s beyond the %d that a message may have", values.Plural(len(rec.Blocks)-i, "block"), turns.MaxParts), rec.UUID)
			break
		}
		b.response.Parts = append(b.response.Parts, k.responsePart(rec, t, i, block))
	}
	if len(rec.Blocks) == 0 {
		k.Loss.Add(rec.Number, "stored", "an assistant line without content", rec.UUID)
	}
	if s := content.Word(values.String(rec.Message.Model)); s != "" {
		b.model = s
	}
	if s := content.Word(values.String(rec.Message.StopReason)); s != "" {
		b.response.FinishReason = s
	}
	b.setUsage(rec.Message.Usage)
	if rec.Cost.Kind() == '0' {
		b.meta.Cost = rec.Cost
	}
	b.meta.Response = append(b.meta.Response, rec.UUID)
	b.meta.Message = values.String(rec.Message.ID)
	b.setContext(rec)
}

func (k *tree) responsePart(rec *record.Line, t *turn, i int, block turns.Raw) turns.Part {
	o := values.Members(block)
	if o.Text("type") == "tool_use" && o.Get("id") == nil {
		made := derivedCallID(rec.UUID, i)
		block = append(o, values.Member{Name: "id", Value: turns.RawText(made)}).Raw()
		k.Loss.Add(rec.Number, "repaired", "a tool call without an id was given one", made)
	}
	p, repaired := content.Part(turns.Assistant, block)
	if p.Type == turns.ToolCall && hasCall(t.body.response.Parts, p.ID) {
		p, repaired = content.Opaque(block), "a second tool call with the same id in one response"
	}
	if repaired != "" {
		k.Loss.Add(rec.Number, "repaired", repaired+" is kept as a text part with the block in ext", rec.UUID)
	}
	if p.Type == turns.ToolCall {
		k.Loss.ToolName(rec.Number, o.Text("name"), p.ID)
		k.calls[keyOf(p.ID)] = &toolCall{turn: t, order: k.callCount}
		k.callCount++
	}
	return p
}

// hasCall reports whether one of parts is the tool call with an id.
func hasCall(parts []turns.Part, id string) bool {
	return slices.ContainsFunc(parts, func(p turns.Part) bool { return p.Type == turns.ToolCall && p.ID == id })
}

// responseTurn returns the turn that gets a new response at a.
func (k *tree) responseTurn(rec *record.Line, a *anchor) *turn {
	t := a.t
	switch {
	case t == nil && a.b.tail == nil:
		return k.newTurn(rec, a.b)
	case t == nil:
		return k.joinTail(rec, a.b)
	case a.b != t.b && a.b.tail == nil:
		return k.newTurn(rec, a.b)
	case a.b != t.b:
		return k.joinTail(rec, a.b)
	case a.phase == inMessages && t.open():
		return t
	case a.phase == inMessages && t.responded:
		return k.rewindInto(rec, a) // another response to the same messages
	}
	switch n := t.continuation; {
	case n == nil:
		return k.newTurn(rec, t.b)
	case n.open() && n.body.hasResults:
		return n
	}
	return k.newTurn(rec, k.forkAt(rec, t, t.b))
}
