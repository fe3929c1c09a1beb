package transcripts

import (
	"context"
	"maps"
	"slices"

	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Preview is what an import of files would do. It is made without storing anything.
type Preview struct {
	Files int `json:"files"` // that are transcripts
	// Formats has how many files were read as each format.
	Formats     map[string]int `json:"formats"`
	Sessions    int            `json:"sessions"`
	NewSessions int            `json:"new_sessions"` // of them: those that the ledger lacks
	Turns       int            `json:"turns"`
	// NewTurns are those that the ledger lacks. Of a session that it has, that is the difference of
	// the numbers of turns: an import also compares what they say.
	NewTurns    int `json:"new_turns"`
	Compactions int `json:"compactions"`
	// Hidden are sessions that the ledger has and that were hidden; an import leaves them so.
	Hidden []turns.ID `json:"hidden,omitzero"`
	// Unfinished are turns at the ends of files that may still grow, OpenFiles the files: they would be
	// left for a later import.
	Unfinished int               `json:"unfinished,omitzero"`
	OpenFiles  int               `json:"open_files,omitzero"`
	Losses     []transcript.Loss `json:"losses"`

	seen     map[turns.ID]bool // what is counted: two files may have one turn
	sessions map[turns.ID]*previewed
	losses   tally.Report
	lacking  map[string][]turns.Ref // by file: the places that it was forked from
}

// previewed is a session of the files.
type previewed struct {
	had   bool
	turns int // that the ledger has
	found int // in the files
}

// Preview reads a file as [Importer.File] does, and adds what it would store. An export of raw
// events counts as a file only. [Importer.EndPreview] follows the last file.
func (im *Importer) Preview(ctx context.Context, name string, p *Preview) error {
	p.Files++
	return im.preview(ctx, name, false, p)
}

// EndPreview reads the forks again whose parent neither the ledger nor a file has, with the history
// that they copied, as an import does.
func (im *Importer) EndPreview(ctx context.Context, p *Preview) error {
	for _, name := range slices.Sorted(maps.Keys(p.lacking)) {
		for _, at := range p.lacking[name] {
			if p.sessions[at.Session] != nil {
				continue
			}
			if had, err := im.begin().SessionIfAny(ctx, at.Session); err != nil {
				return err
			} else if had != nil {
				continue
			}
			if err := im.preview(ctx, name, true, p); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

func (im *Importer) preview(ctx context.Context, name string, copied bool, p *Preview) error {
	in, err := transcriptfile.OpenContext(ctx, name, im.Stdin, im.Format, im.Read)
	if err != nil {
		return err
	}
	defer in.Close()
	if !copied {
		if p.Formats == nil {
			p.Formats = make(map[string]int)
		}
		p.Formats[in.Format.Name]++
	}
	if in.Format.Open == nil {
		return nil
	}
	if p.seen == nil {
		p.seen, p.sessions, p.lacking = make(map[turns.ID]bool), make(map[turns.ID]*previewed), make(map[string][]turns.Ref)
	}
	r := in.Format.Open(in, transcriptfile.ReadOptions(name, in.Format.Name, transcript.Options{Final: im.Final || im.IsSettled(name), Copied: copied}))
	for st, err := range r.Steps() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if p.seen[st.ID()] {
			continue
		}
		p.seen[st.ID()] = true
		if st.Fork != nil && !copied && !transcriptfile.IsStream(name) {
			p.lacking[name] = append(p.lacking[name], st.Fork.At)
		}
		switch {
		case st.Open != nil, st.Fork != nil:
			_, err = p.session(ctx, im, st.ID())
		case st.Compaction != nil:
			p.Compactions++
		default:
			p.Turns++
			var s *previewed
			if s, err = p.session(ctx, im, st.Append.Session); err == nil {
				if s.found++; s.found > s.turns {
					p.NewTurns++
				}
			}
		}
		if err != nil {
			return err
		}
	}
	if copied { // its losses are those of the first reading
		return nil
	}
	for _, l := range r.Losses() {
		p.losses.Lose(l)
	}
	if p.losses.Unfinished > p.Unfinished {
		p.Unfinished = p.losses.Unfinished
		p.OpenFiles++
	}
	p.Losses = p.losses.Losses
	return nil
}

// session counts a session when it is met first.
func (p *Preview) session(ctx context.Context, im *Importer, id turns.ID) (*previewed, error) {
	if s := p.sessions[id]; s != nil {
		return s, nil
	}
	had, err := im.begin().SessionIfAny(ctx, id)
	if err != nil {
		return nil, err
	}
	s := new(previewed)
	if had != nil {
		s.had, s.turns = true, int(had.Turns)
		if had.Hidden {
			p.Hidden = append(p.Hidden, id)
		}
	} else {
		p.NewSessions++
	}
	p.Sessions++
	p.sessions[id] = s
	return s, nil
}
