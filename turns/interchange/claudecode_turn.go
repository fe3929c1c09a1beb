package interchange

import (
	"fmt"

	"nexus/turns"
)

// ccPiece is a run of a user line's blocks: one tool result, or what stands
// between two of them.
type ccPiece struct {
	msg  turns.Message
	call *ccCall // of a tool result
}

// user places a user line: a prompt, tool results, or both.
func (k *ccTree) user(rec *ccRecord, a *ccAnchor) *ccAnchor {
	pieces, real := k.userPieces(rec)
	if len(pieces) == 0 { // nothing but results that were there before
		return a
	}
	var t *ccTurn
	for i := range pieces {
		c := pieces[i].call
		if c == nil {
			continue
		}
		if t == nil {
			t = k.resultTurn(rec, c)
		}
		if t != nil && c.turn.cont == t {
			continue
		}
		// The next response came without it, or the line answers two turns.
		pieces[i] = ccPiece{msg: k.strayResult(rec, pieces[i].msg.Parts[0], "the turn after its call has gone on")}
	}
	if t == nil {
		t = k.promptTurn(rec, a, real && !rec.meta && rec.kind == ccUser)
	}
	if real && !rec.meta && rec.kind == ccUser {
		a.prompted = true
		if t.parent != nil {
			k.emit(t.parent)
		}
	}
	for _, p := range pieces {
		k.addMessage(rec, &t, p)
	}
	t.body.meta.Messages = append(t.body.meta.Messages, rec.uuid)
	t.body.setContext(rec)
	return &ccAnchor{b: t.b, t: t, phase: ccMessages, pos: len(t.body.msgs)}
}

func (k *ccTree) addMessage(rec *ccRecord, t **ccTurn, p ccPiece) {
	if len((*t).body.msgs) >= turns.MaxMessages {
		k.emit(*t)
		k.loss.add(rec.line, "repaired", fmt.Sprintf("more than %d messages for one turn; they go on in another", turns.MaxMessages), rec.uuid)
		*t = k.newTurn(rec, (*t).b)
	}
	b := (*t).body
	order := -1
	if p.call != nil {
		order, p.call.answer = p.call.order, *t
		b.results = true
	} else {
		b.texts = true
	}
	b.msgs = append(b.msgs, p.msg)
	b.order = append(b.order, order)
}

// userPieces reads the blocks of a user line. Real says that a person may have
// written some of it.
func (k *ccTree) userPieces(rec *ccRecord) (pieces []ccPiece, real bool) {
	user := func(p turns.Part) {
		if n := len(pieces); n > 0 && pieces[n-1].call == nil && pieces[n-1].msg.Role == turns.User && len(pieces[n-1].msg.Parts) < turns.MaxParts {
			m := &pieces[n-1].msg
			m.Parts = append(m.Parts, p)
			return
		}
		pieces = append(pieces, ccPiece{msg: turns.Message{Role: turns.User, Parts: []turns.Part{p}}})
	}
	taken := make(map[*ccCall]bool)
	for _, block := range rec.blocks {
		if ccMembers(block).text("type") != "tool_result" {
			p, repaired := ccPart(turns.User, block)
			if repaired != "" {
				k.loss.add(rec.line, "repaired", repaired+" is kept as a text part with the block in ext", rec.uuid)
			}
			user(p)
			real = true
			continue
		}
		p, call := k.result(rec, block)
		switch {
		case call == nil:
			user(k.strayResult(rec, p, "its call is not in the file").Parts[0])
		case call.answer != nil || taken[call]:
			k.loss.add(rec.line, "kept_first", "another result of a tool call that has one; it is not stored", p.ID)
		default:
			taken[call] = true
			if n := ccOdd(block); n > 0 {
				k.loss.addMany(n, rec.line, "repaired", "blocks of an unknown type in a tool result are kept as text parts with the block in ext", rec.uuid)
			}
			pieces = append(pieces, ccPiece{msg: turns.Message{Role: turns.Tool, Parts: []turns.Part{p}}, call: call})
		}
	}
	if len(rec.blocks) == 0 {
		k.loss.add(rec.line, "stored", "a user line without content", rec.uuid)
		pieces = []ccPiece{{msg: turns.Message{Role: turns.User}}}
	}
	return pieces, real
}

// result reads a tool_result block and finds its call: by id or, in files
// without ids, the first open call of the line that it says it answers.
func (k *ccTree) result(rec *ccRecord, block turns.Raw) (turns.Part, *ccCall) {
	id := ccMembers(block).text("tool_use_id")
	if id == "" {
		for _, uuid := range []string{rec.source, rec.parent} {
			for i := range turns.MaxParts {
				made := ccMadeID(uuid, i)
				c := k.calls[ccKeyOf(made)]
				if c == nil {
					break
				}
				if c.answer == nil {
					p, _ := ccBlock(block)
					p.ID = made
					return p, c
				}
			}
		}
	}
	p, repaired := ccPart(turns.Tool, block)
	if repaired != "" { // no id, or one that can't be: never a call's
		p, _ = ccBlock(block)
		return p, nil
	}
	return p, k.calls[ccKeyOf(id)]
}

// ccMadeID is the id given to the i-th call without one in a line.
func ccMadeID(uuid string, i int) string {
	return fmt.Sprintf("%s:%s:%d", ccSource, ccClip(uuid, 80), i)
}

// strayResult is marked ordinary text for a result that can't answer its call.
func (k *ccTree) strayResult(rec *ccRecord, p turns.Part, why string) turns.Message {
	k.loss.add(rec.line, "repaired", "a tool result is kept as text: "+why, p.ID)
	text, ok := p.Response.Text()
	if !ok {
		text = string(p.Response)
	}
	t := turns.TextPart("[tool result without its call]\n" + text)
	t.Ext = ccExt(nil, ccObject{{"tool_result", ccObject{{"tool_use_id", turns.RawText(p.ID)}, {"content", p.Response}}.raw()}})
	m := turns.Message{Role: turns.User, Parts: []turns.Part{t}}
	if m.Validate("") != nil {
		m.Parts[0].Ext = nil
	}
	return m
}

// resultTurn is the turn that takes the result of c: what continues the call's
// turn, if that still takes messages.
func (k *ccTree) resultTurn(rec *ccRecord, c *ccCall) *ccTurn {
	switch n := c.turn.cont; {
	case n.open():
		return n
	case n == nil:
		return k.newTurn(rec, c.turn.b)
	}
	return nil
}

// promptTurn is the turn that takes the words of a user line at a. Real words
// may rewind; what Claude Code adds by itself only ever joins.
func (k *ccTree) promptTurn(rec *ccRecord, a *ccAnchor, real bool) *ccTurn {
	t := a.t
	switch {
	case t == nil && a.b.tail == nil:
		return k.newTurn(rec, a.b)
	case t == nil && real && !a.b.tail.b.side:
		return k.newTurn(rec, k.restart(rec, a.b))
	case t == nil:
		return k.joinTail(rec, a.b)
	case a.b != t.b && a.b.tail == nil: // a fork's first turn
		return k.newTurn(rec, a.b)
	case a.b != t.b && real && a.prompted:
		return k.newTurn(rec, k.forkAt(rec, t))
	case a.b != t.b:
		return k.joinTail(rec, a.b)
	case a.phase == ccMessages && t.open():
		if real && a.prompted {
			return k.rewindInto(rec, a)
		}
		return t
	case a.phase == ccMessages && t.responded:
		if real {
			return k.rewindInto(rec, a)
		}
		return k.joinTail(rec, t.b)
	}
	switch n := t.cont; {
	case n == nil:
		return k.newTurn(rec, t.b)
	case n.open() && (!real || !n.body.texts && !a.prompted):
		return n
	case real:
		return k.newTurn(rec, k.forkAt(rec, t))
	}
	return k.joinTail(rec, t.b)
}

func (k *ccTree) joinTail(rec *ccRecord, b *ccBranch) *ccTurn {
	if b.tail.open() {
		return b.tail
	}
	return k.newTurn(rec, b)
}

// rewindInto branches off inside the messages half of a turn. A fork starts
// after a turn, so it starts after the parent and repeats the messages up to a,
// as long as they are held.
func (k *ccTree) rewindInto(rec *ccRecord, a *ccAnchor) *ccTurn {
	t := a.t
	var msgs []turns.Message
	var order []int
	if t.body != nil {
		pos := min(a.pos, len(t.body.msgs))
		msgs, order = append(msgs, t.body.msgs[:pos]...), append(order, t.body.order[:pos]...)
	}
	reason := "a rewind into the messages of a turn repeats them in the fork"
	if t.body == nil {
		reason = "a rewind into the messages of a finished turn: the fork lacks those before it"
	}
	k.loss.add(rec.line, "repaired", reason, rec.uuid)
	var b *ccBranch
	if t.parent == nil {
		b = k.restart(rec, t.b)
	} else {
		b = k.forkAt(rec, t.parent)
		k.emit(t)
	}
	n := k.newTurn(rec, b)
	n.body.msgs, n.body.order = msgs, order
	for i := range msgs {
		if order[i] < 0 {
			n.body.texts = true
		} else {
			n.body.results = true
		}
	}
	return n
}

// assistant places a line of a response: one block, as a rule.
func (k *ccTree) assistant(rec *ccRecord, a *ccAnchor) *ccAnchor {
	id := ccText(rec.msg.ID)
	if id == "" {
		id = "line:" + rec.uuid
	}
	key := ccKeyOf(a.b.id.String(), id)
	t := k.msgs[key]
	switch {
	case t == nil:
		t = k.responseTurn(rec, a)
	case t.emitted || len(t.body.resp.Parts)+len(rec.blocks) > turns.MaxParts:
		k.loss.add(rec.line, "repaired", "a block of a response that was finished; it is kept as a response of its own", rec.uuid)
		b := t.b
		k.emit(b.tail)
		t = k.newTurn(rec, b)
	}
	k.msgs[key] = t
	if !t.responded {
		t.responded = true
		t.body.resp = &turns.Message{Role: turns.Assistant}
		if t.parent != nil {
			k.emit(t.parent)
		}
	}
	k.addResponse(rec, t)
	return &ccAnchor{b: t.b, t: t, phase: ccAfter}
}

func (k *ccTree) addResponse(rec *ccRecord, t *ccTurn) {
	b := t.body
	for i, block := range rec.blocks {
		if len(b.resp.Parts) >= turns.MaxParts {
			k.loss.add(rec.line, "skipped", fmt.Sprintf("%s beyond the %d that a message may have", plural(len(rec.blocks)-i, "block"), turns.MaxParts), rec.uuid)
			break
		}
		b.resp.Parts = append(b.resp.Parts, k.responsePart(rec, t, i, block))
	}
	if len(rec.blocks) == 0 {
		k.loss.add(rec.line, "stored", "an assistant line without content", rec.uuid)
	}
	if s := ccWord(ccText(rec.msg.Model)); s != "" {
		b.model = s
	}
	if s := ccWord(ccText(rec.msg.StopReason)); s != "" {
		b.resp.FinishReason = s
	}
	if u := ccUsage(rec.msg.Usage); u != nil {
		b.usage = u
	}
	b.meta.Response = append(b.meta.Response, rec.uuid)
	b.meta.Message = ccText(rec.msg.ID)
	b.setContext(rec)
}

func (k *ccTree) responsePart(rec *ccRecord, t *ccTurn, i int, block turns.Raw) turns.Part {
	o := ccMembers(block)
	if o.text("type") == "tool_use" && o.get("id") == nil {
		made := ccMadeID(rec.uuid, i)
		block = append(o, ccMember{"id", turns.RawText(made)}).raw()
		k.loss.add(rec.line, "repaired", "a tool call without an id was given one", made)
	}
	p, repaired := ccPart(turns.Assistant, block)
	if c := k.calls[ccKeyOf(p.ID)]; p.Type == turns.ToolCall && c != nil && c.turn == t {
		p, repaired = ccKeep(block), "a second tool call with the same id in one response"
	}
	if repaired != "" {
		k.loss.add(rec.line, "repaired", repaired+" is kept as a text part with the block in ext", rec.uuid)
	}
	if p.Type == turns.ToolCall {
		k.calls[ccKeyOf(p.ID)] = &ccCall{turn: t, order: k.nCalls}
		k.nCalls++
	}
	return p
}

// responseTurn is the turn that takes a new response at a.
func (k *ccTree) responseTurn(rec *ccRecord, a *ccAnchor) *ccTurn {
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
	case a.phase == ccMessages && t.open():
		return t
	case a.phase == ccMessages && t.responded:
		return k.rewindInto(rec, a) // another response to the same messages
	}
	switch n := t.cont; {
	case n == nil:
		return k.newTurn(rec, t.b)
	case n.open() && n.body.results:
		return n
	}
	return k.newTurn(rec, k.forkAt(rec, t))
}
