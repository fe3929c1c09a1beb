package files

import (
	"context"
	"path"
	"strings"

	"nexus/cmd/internal/engine/archive"
	"nexus/ledger/api"
	"nexus/turns"
)

// Lines of the files of the design Autobyteus. It names the files and what each holds,
// and no fields.
type (
	rawTrace struct {
		Type     string          `json:"type"` // RAW_TRACE
		Session  turns.ID        `json:"session"`
		Turn     turns.ID        `json:"turn"`
		Depth    uint64          `json:"depth"`
		Time     api.Time        `json:"time"`
		Model    string          `json:"model,omitempty"`
		Messages []turns.Message `json:"messages"`
		Response *turns.Message  `json:"response"`
		Hash     turns.Hash      `json:"hash"`
		Error    api.Code        `json:"error,omitempty"`
	}
	episode struct {
		Type       string   `json:"type"` // EPISODIC
		Session    turns.ID `json:"session"`
		Compaction turns.ID `json:"compaction"`
		Time       api.Time `json:"time"`
		Text       string   `json:"text"`
		Covered    uint64   `json:"covered"`
	}
	fact struct {
		Type       string    `json:"type"` // SEMANTIC
		Session    turns.ID  `json:"session"`
		Compaction turns.ID  `json:"compaction"`
		Time       api.Time  `json:"time"`
		Kind       string    `json:"kind,omitempty"`
		Text       string    `json:"text"`
		Sources    turns.Raw `json:"sources,omitzero"` // turns: [{session, turn}]
	}
)

// autobyteus writes the files of the agent: its turns that stand in a context, those
// that left one, and the episodes and facts of its compactions. A turn is written to
// the archive, and synced there, before it leaves the first file.
func (x *Exporter) autobyteus(ctx context.Context, s *archive.Session) (written int, err error) {
	dir := path.Join("memory", "agents", s.Agent)
	if s.Tenant != "default" {
		dir = path.Join("tenants", s.Tenant, "memory", "agents", s.Agent)
	}
	u, err := x.unit(path.Join(dir, ".nexus-state.json"))
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			x.drop(u)
		}
	}()
	at := u.state.Sessions[s.ID]
	live := path.Join(dir, "raw_traces.jsonl")
	var b []byte
	for t, err := range x.Source.Turns(ctx, s, at.Next) {
		if err != nil {
			return written, err
		}
		line, err := jsonLine(rawTrace{"RAW_TRACE", s.ID, t.ID, t.Depth, timeOf(t.Turn), t.Model, t.Messages, t.Response, t.Hash, t.Error})
		if err != nil {
			return written, err
		}
		b, at.Next = append(b, line...), t.Index+1
		written++
		if len(b) > flushBytes { // no state counts it yet, so a crash cuts it off
			if err := u.append(live, b); err != nil {
				return written, err
			}
			b = b[:0]
		}
	}
	if err := u.append(live, b); err != nil {
		return written, err
	}
	n, err := x.episodes(u, s, dir, &at)
	if written += n; err != nil {
		return written, err
	}
	if n > 0 {
		if err := x.moveTraces(u, s, dir, live); err != nil {
			return written, err
		}
	}
	if written == 0 {
		return 0, nil
	}
	u.state.Sessions[s.ID] = at
	x.written.Inc()
	return written, u.commit()
}

// episodes writes what the compactions say that are not written yet. A fact that the
// agent's file has is not written again.
func (x *Exporter) episodes(u *unit, s *archive.Session, dir string, at *sessionWritten) (n int, err error) {
	var episodes, facts []byte
	var known map[string]bool
	semantic := path.Join(dir, "semantic.jsonl")
	i := 0
	for c, err := range x.Source.Compactions(s) {
		if err != nil {
			return n, err
		}
		if i++; i <= at.Compactions {
			continue
		}
		at.Compactions = i
		n++
		t, err := x.Source.Compacted(c)
		if err != nil {
			return n, err
		}
		k := t.Compaction
		if k == nil || t.Error != "" {
			continue // its content can't be read any more
		}
		if k.Summary != nil {
			line, err := jsonLine(episode{"EPISODIC", s.ID, t.ID, timeOf(t), *k.Summary, k.Covered})
			if err != nil {
				return n, err
			}
			episodes = append(episodes, line...)
		}
		if known == nil {
			if known, err = knownFacts(u, semantic); err != nil {
				return n, err
			}
		}
		var memories []struct {
			Kind   string    `json:"kind"`
			Text   string    `json:"text"`
			Source turns.Raw `json:"source,omitzero"`
		}
		if k.Memories != nil {
			if err := turns.DecodeJSON(k.Memories, &memories); err != nil {
				return n, err
			}
		}
		for _, m := range memories {
			if key := factKey(m.Text); !known[key] {
				known[key] = true
				line, err := jsonLine(fact{"SEMANTIC", s.ID, t.ID, timeOf(t), m.Kind, m.Text, m.Source})
				if err != nil {
					return n, err
				}
				facts = append(facts, line...)
			}
		}
	}
	if err := u.append(path.Join(dir, "episodic.jsonl"), episodes); err != nil {
		return n, err
	}
	return n, u.append(semantic, facts)
}

// knownFacts returns the facts that a file has.
func knownFacts(u *unit, name string) (map[string]bool, error) {
	known := make(map[string]bool)
	b, err := u.content(name)
	if err != nil {
		return nil, err
	}
	return known, eachLine(b, func(line []byte) error {
		var f fact
		if err := turns.DecodeJSON(line, &f); err != nil {
			return nil // a line that a person changed
		}
		known[factKey(f.Text)] = true
		return nil
	})
}

// factKey is the same for texts that differ in spaces and case only.
func factKey(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// moveTraces moves the turns of a session that have left its context to the archive,
// if the policy has one, and out of the file of the others.
func (x *Exporter) moveTraces(u *unit, s *archive.Session, dir, live string) error {
	b, err := u.content(live)
	if err != nil {
		return err
	}
	type place struct {
		Session turns.ID `json:"session"`
		Turn    turns.ID `json:"turn"`
	}
	var places []place
	var ids []turns.ID
	err = eachLine(b, func(line []byte) error {
		var t rawTrace
		p := place{}
		if turns.DecodeJSON(line, &t) == nil { // a line that a person changed stays
			if p = (place{t.Session, t.Turn}); p.Session == s.ID {
				ids = append(ids, p.Turn)
			}
		}
		places = append(places, p)
		return nil
	})
	if err != nil {
		return err
	}
	left, err := x.Source.Left(s, ids)
	if err != nil {
		return err
	}
	var stays, goes []byte
	i := 0
	_ = eachLine(b, func(line []byte) error {
		if p := places[i]; p.Session == s.ID && left[p.Turn] {
			goes = append(goes, line...)
		} else {
			stays = append(stays, line...)
		}
		i++
		return nil
	})
	if len(goes) == 0 {
		return nil
	}
	if s.Files.Archive {
		if err := u.append(path.Join(dir, "raw_traces_archive.jsonl"), goes); err != nil {
			return err
		}
	}
	return u.prepare(live, stays)
}

// timeOf is when a turn was said, as far as is known.
func timeOf(t *api.Turn) api.Time {
	if t.Time != nil {
		return *t.Time
	}
	return t.Recorded
}
