package explorer

import (
	"slices"
	"strings"

	"nexus/ledger/api"
)

// doDescribe gives a session a title and tags. The form has what both were when it was made: only what
// was changed in it is stored.
func (v *visit) doDescribe() error {
	c, s, id, err := v.form()
	if err != nil {
		return err
	}
	r, f := api.DescribeSession{ID: id}, v.r.PostForm
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
	if _, err := c.Describe(v.r.Context(), s.ID, r); err != nil {
		return err
	}
	return v.seeOther("/ui/s/" + s.ID.String())
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

// doHide leaves a session out of lists, or shows it in them again.
func (v *visit) doHide() error {
	c, s, id, err := v.form()
	if err != nil {
		return err
	}
	r := api.HideSession{ID: id, Cause: "in the explorer"}
	if v.r.PostForm.Get("hidden") == "" {
		_, err = c.Unhide(v.r.Context(), s.ID, r)
	} else {
		_, err = c.Hide(v.r.Context(), s.ID, r)
	}
	if err != nil {
		return err
	}
	return v.seeOther("/ui/s/" + s.ID.String())
}

// doNote puts a note on a turn; an empty one takes it away.
func (v *visit) doNote() error {
	c, s, id, err := v.form()
	if err != nil {
		return err
	}
	turn, err := v.formTurn()
	if err != nil {
		return err
	}
	if _, err := c.Note(v.r.Context(), s.ID, api.NoteTurn{ID: id, Turn: turn, Text: strings.TrimSpace(v.r.PostForm.Get("text"))}); err != nil {
		return err
	}
	return v.seeOther("/ui/s/" + s.ID.String() + "/t/" + turn.String())
}

// ownTitle returns the title that a person gave a session, for the form that changes it: without
// about, a session has no other.
func (v *visit) ownTitle(s *api.Session) (string, error) {
	plain, err := v.c.Session(v.r.Context(), s.ID)
	if err != nil {
		return "", err
	}
	return plain.Title, nil
}
