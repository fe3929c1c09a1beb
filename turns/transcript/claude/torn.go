package claude

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript/claude/record"
)

// torn reads what a torn line still says about its place. What hangs on the line stays
// on its branch so. Its content is lost.
func (k *tree) torn(line int, b []byte) {
	t, uuid := tornLine{line: line}, ""
	for name, v := range tornMembers(b) {
		switch name {
		case "uuid":
			uuid = values.String(v)
		case "parentUuid":
			t.parent, t.root = values.String(v), v.Kind() == 'n'
		case "sessionId":
			t.session = values.String(v)
		}
	}
	if t.parent == "" && !t.root && uuid == "" {
		return
	}
	if uuid == "" {
		k.tornUnnamed = append(k.tornUnnamed, t)
		return
	}
	if k.tornNamed == nil {
		k.tornNamed = make(map[indexKey]tornLine)
	}
	k.tornNamed[keyOf(uuid)] = t
}

// tornMembers returns the members at the top of a part of a line: its beginning, or its
// end, of which those after the message are found by their names.
func tornMembers(b []byte) map[string]turns.Raw {
	out := make(map[string]turns.Raw)
	if len(b) > 0 && b[0] == '{' {
		d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if _, err := d.ReadToken(); err != nil {
			return out
		}
		for d.PeekKind() == '"' {
			t, err := d.ReadToken()
			if err != nil {
				return out
			}
			name := t.String()
			v, err := d.ReadValue()
			if err != nil {
				return out
			}
			out[name] = turns.Raw(bytes.Clone(v))
		}
		return out
	}
	for _, name := range []string{"uuid", "parentUuid", "sessionId"} {
		i := bytes.LastIndex(b, []byte(`"`+name+`"`))
		if i < 0 || i > 0 && b[i-1] == '\\' {
			continue
		}
		rest := bytes.TrimLeft(b[i+len(name)+2:], " \t")
		if len(rest) == 0 || rest[0] != ':' {
			continue
		}
		d := jsontext.NewDecoder(bytes.NewReader(rest[1:]))
		if v, err := d.ReadValue(); err == nil {
			out[name] = turns.Raw(bytes.Clone(v))
		}
	}
	return out
}

// orphanPlace returns the place of a line whose parent is not in the file: what stood
// before the parent if that is a torn line, else the end of the branch that the line can
// only belong to. It never is a place of another session. Nil: the line begins its session.
func (k *tree) orphanPlace(rec *record.Line) *anchor {
	if a := k.lost[keyOf(rec.Parent)]; a != nil {
		return a
	}
	if a, ok := k.tornPlace(rec); ok {
		k.Loss.Add(rec.Number, "repaired", "its parent was on a torn line; it follows what stood before that", rec.UUID)
		return a
	}
	if rec.Sidechain {
		k.Loss.Add(rec.Number, "repaired", "its parent is not in the file; it follows the last turn of its sub-agent", rec.UUID)
		return nil
	}
	live := k.liveBranches(rec.Session)
	fit := live
	if len(live) > 1 {
		fit = slices.DeleteFunc(slices.Clone(live), func(b *branch) bool { return !k.canFollow(rec, b) })
	}
	switch {
	case len(live) == 0:
		k.Loss.Add(rec.Number, "repaired", "its parent is not in the file; it begins its session", rec.UUID)
		return nil
	case len(fit) == 1:
		k.Loss.Add(rec.Number, "repaired", "its parent is not in the file; it follows the last turn of its session", rec.UUID)
		return k.tailAnchor(fit[0])
	case len(fit) == 0:
		fit = live
	}
	k.Loss.Add(rec.Number, "repaired", "its parent is not in the file, and it may belong to any of several branches; it begins one of its own after what they share", rec.UUID)
	base := fit[0].last()
	for _, b := range fit[1:] {
		base = sharedTurn(base, b.last())
	}
	var b *branch
	if base == nil {
		b = k.restart(rec, fit[0])
	} else {
		b = k.forkAt(rec, base, fit[0])
	}
	a := &anchor{b: b, t: base, phase: afterMessages}
	if base == nil {
		a.phase = beforeTurns
	}
	if k.lost == nil {
		k.lost = make(map[indexKey]*anchor)
	}
	k.lost[keyOf(rec.Parent)] = a
	return a
}

// tornPlace returns the place before the torn line that is the parent of rec. A torn line
// whose uuid is lost is the parent if it is the only such line of the session before rec
// that nothing hangs on yet.
func (k *tree) tornPlace(rec *record.Line) (*anchor, bool) {
	uuid := rec.Parent
	t, ok := k.tornNamed[keyOf(uuid)]
	if !ok {
		at := -1
		for i := range k.tornUnnamed {
			u := &k.tornUnnamed[i]
			if u.claimed || u.line > rec.Number || u.session != "" && u.session != rec.Session {
				continue
			}
			if at >= 0 {
				return nil, false
			}
			at = i
		}
		if at < 0 {
			return nil, false
		}
		k.tornUnnamed[at].claimed = true
		t = k.tornUnnamed[at]
		if k.tornNamed == nil {
			k.tornNamed = make(map[indexKey]tornLine)
		}
		k.tornNamed[keyOf(uuid)] = t
	}
	for range len(k.tornNamed) {
		if a := k.index[keyOf(t.parent)]; a != nil {
			return a, true
		}
		if t, ok = k.tornNamed[keyOf(t.parent)]; !ok {
			break
		}
	}
	return nil, false
}

// liveBranches returns the branches of a session that lines may still belong to. One that
// no line came to since a newer one began was given up by a rewind. Several are live where
// two clients write to one session.
func (k *tree) liveBranches(session string) (live []*branch) {
	all := k.branches[session]
	for _, b := range all {
		if b.lastLine >= all[len(all)-1].firstLine {
			live = append(live, b)
		}
	}
	return live
}

// canFollow reports whether the lost parent of rec can have been the last line of b: what
// comes before a response is a message, and what comes before a message a response.
func (k *tree) canFollow(rec *record.Line, b *branch) bool {
	if rec.Kind == record.Assistant {
		if id := values.String(rec.Message.ID); id != "" && k.responses[responseKey(b, id)] != nil {
			return true
		}
		return b.tail != nil && b.tail.responded
	}
	return b.tail.open()
}

// sharedTurn returns the last turn that the paths to a and b share, nil if there is none.
func sharedTurn(a, b *turn) *turn {
	for a != nil && b != nil && a != b {
		if a.depth >= b.depth {
			a = a.parent
		} else {
			b = b.parent
		}
	}
	if a == nil || b == nil {
		return nil
	}
	return a
}
