package acts

import (
	"slices"
	"strings"

	"nexus/ledger/api"
)

// describe gives a session a title and tags. The form has what both were when it was made: only what
// was changed in it is stored.
func (a *act) describe() (string, error) {
	r, f := api.DescribeSession{ID: a.id}, a.R.PostForm
	if title := f.Get("title"); title != f.Get("was_title") {
		r.Title = &title
	}
	was, now := tagsOf(f.Get("was_tags")), tagsOf(f.Get("tags"))
	for _, tag := range now {
		if !slices.Contains(was, tag) {
			r.Tag = append(r.Tag, tag)
		}
	}
	for _, tag := range was {
		if !slices.Contains(now, tag) {
			r.Untag = append(r.Untag, tag)
		}
	}
	_, err := a.c.Describe(a.R.Context(), a.s.ID, r)
	return a.here(), err
}

// tagsOf reads tags with commas between them.
func tagsOf(text string) (tags []string) {
	for tag := range strings.SplitSeq(text, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// hide leaves a session out of lists, or shows it in them again.
func (a *act) hide() (_ string, err error) {
	r := api.HideSession{ID: a.id, Cause: "in the explorer"}
	if a.R.PostForm.Get("hidden") == "" {
		_, err = a.c.Unhide(a.R.Context(), a.s.ID, r)
	} else {
		_, err = a.c.Hide(a.R.Context(), a.s.ID, r)
	}
	return a.here(), err
}

// note puts a note on a turn; an empty one takes it away.
func (a *act) note() (string, error) {
	turn, err := a.turn()
	if err != nil {
		return "", err
	}
	_, err = a.c.Note(a.R.Context(), a.s.ID, api.NoteTurn{ID: a.id, Turn: turn, Text: strings.TrimSpace(a.R.PostForm.Get("text"))})
	return a.here() + "/t/" + turn.String() + "?noted#note", err
}
