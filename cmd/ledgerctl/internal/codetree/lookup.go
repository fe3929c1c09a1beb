package codetree

import (
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Lookup finds what was recorded of turns. Make one with [NewLookup]. Not safe for
// concurrent use.
type Lookup struct {
	client *client.Client
	had    map[turns.ID]map[turns.ID]Recorded // by session and turn
}

// NewLookup returns a look-up in the ledger.
func NewLookup(c *client.Client) *Lookup {
	return &Lookup{client: c, had: make(map[turns.ID]map[turns.ID]Recorded)}
}

// Of returns what was recorded of a turn. It reads the session's channel, and the member
// code of the turn's meta, where an agent that appends its own turns can state the tree. ok
// is false if nothing was.
func (l *Lookup) Of(ctx context.Context, t *api.Turn) (rec Recorded, ok bool, err error) {
	all, ok := l.had[t.Session]
	if !ok {
		if all, err = l.read(ctx, t.Session); err != nil {
			return Recorded{}, false, err
		}
		l.had[t.Session] = all
	}
	if rec, ok = all[t.ID]; ok {
		return rec, true, nil
	}
	var meta struct {
		Code *Recorded `json:"code"`
	}
	if json.Unmarshal(t.Meta, &meta) != nil || meta.Code == nil || !isObjectID(meta.Code.Tree) || meta.Code.Folder == "" {
		return Recorded{}, false, nil // meta may be anything
	}
	rec = *meta.Code
	rec.Session, rec.Turn = t.Session, t.ID
	return rec, true, nil
}

func (l *Lookup) read(ctx context.Context, session turns.ID) (map[turns.ID]Recorded, error) {
	all := make(map[turns.ID]Recorded)
	r := api.ListEvents{Channel: Channel(session), Kind: Kind}
	for ev, err := range l.client.Events(ctx, r) {
		var refused *api.Error
		if errors.As(err, &refused) && refused.Code == api.NotFound {
			break // nothing was recorded
		}
		if err != nil {
			return nil, err
		}
		body := ev.Body
		if body == nil && ev.Ref != nil { // in a blob
			whole, err := l.client.Event(ctx, api.GetEvent{Channel: Channel(session), ID: ev.ID})
			if err != nil {
				return nil, err
			}
			body = whole.Body
		}
		var rec Recorded
		if json.Unmarshal(body, &rec) != nil || !isObjectID(rec.Tree) || rec.Session != session {
			continue // another program wrote it
		}
		all[rec.Turn] = rec // the last of a turn counts
	}
	return all, nil
}

// Folders returns the folders in which files of a session were recorded, each once.
func Folders(ctx context.Context, c *client.Client, session turns.ID) (out []string, err error) {
	all, err := NewLookup(c).read(ctx, session)
	for _, rec := range all {
		if !slices.Contains(out, rec.Folder) {
			out = append(out, rec.Folder)
		}
	}
	slices.Sort(out)
	return out, err
}

// PathTurn is a turn on a path, and what was recorded of it.
type PathTurn struct {
	api.Turn
	Files *Recorded // nil: not known
}

// Path returns the turns from the root to a turn, zero for the head, with their files. A
// compaction, and an answer without tool calls, changes no files: it has those of the turn
// before it, unless others were recorded.
func Path(ctx context.Context, c *client.Client, session, at turns.ID) (path []PathTurn, err error) {
	look := NewLookup(c)
	for t, err := range c.Turns(ctx, session, api.ListTurns{At: at}) {
		if err != nil {
			return nil, err
		}
		x := PathTurn{Turn: t}
		switch rec, ok, err := look.Of(ctx, &t); {
		case err != nil:
			return nil, err
		case ok:
			x.Files = &rec
		case (t.Type == "compaction" || t.ToolCalls == 0 && !t.Pending && t.Error == "") && len(path) > 0:
			x.Files = path[len(path)-1].Files
		}
		path = append(path, x)
	}
	return path, nil
}
