package explorer

import (
	"strings"

	pages "nexus/cmd/internal/page"
	"nexus/ledger/api"
)

// doDescribe gives a session a title and tags. The form has all tags, so that one that is taken
// out of it is taken away.
func (v *visit) doDescribe() error {
	c, s, id, err := v.form()
	if err != nil {
		return err
	}
	title, tags := v.r.PostForm.Get("title"), []string{}
	for tag := range strings.SplitSeq(v.r.PostForm.Get("tags"), ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	if _, err := c.Describe(v.r.Context(), s.ID, api.DescribeSession{ID: id, Title: &title, Tags: &tags}); err != nil {
		return err
	}
	return v.seeOther("/ui/s/" + s.ID.String())
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
func (v *visit) ownTitle(s *api.Session) string {
	if plain, err := v.c.Session(v.r.Context(), s.ID); err == nil {
		return pages.Line(plain.Title, 1024)
	}
	return ""
}
