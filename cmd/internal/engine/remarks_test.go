package engine_test

import (
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// listedIDs returns the sessions that alice's list has.
func listedIDs(t *testing.T, e *Engine, r api.ListSessions) (ids []turns.ID) {
	t.Helper()
	for _, s := range must(e.History.List(t.Context(), alice, r))(t).Sessions {
		ids = append(ids, s.ID)
	}
	return ids
}

// A page of a list looks at so many sessions, whatever the request leaves out of them. All pages together have
// those that it asks for, once each.
func TestAPageOfAListLooksAtFewSessions(t *testing.T) {
	e := newWorld().Engine(t)
	var want []turns.ID
	for i := range uint64(20) {
		s := create(t, e, i, "nexus").ID
		switch i {
		case 3, 9, 10:
			describe(t, e, s, api.DescribeSession{Tag: []string{"zebra"}})
			want = append(want, s)
		case 5, 11:
			describe(t, e, s, api.DescribeSession{Tag: []string{"zebra"}})
			hide(t, e, s, true)
		}
	}
	slices.SortFunc(want, turns.ID.Compare)
	e.History.PageSessions = 4
	for _, order := range []string{"id", "updated"} {
		for _, limit := range []int{1, 2, 50} {
			var got []turns.ID
			r := api.ListSessions{Order: order, Tag: "zebra", Page: api.Page{Limit: limit}}
			for pages := 1; ; pages++ {
				list := must(e.History.List(t.Context(), alice, r))(t)
				for _, s := range list.Sessions {
					got = append(got, s.ID)
				}
				if r.After = list.Next; r.After == "" {
					if limit == 50 && pages != 5 {
						t.Errorf("by %s: %d pages of four of twenty sessions", order, pages)
					}
					break
				}
				if pages > 20 {
					t.Fatalf("by %s, %d a page: no end", order, limit)
				}
			}
			slices.SortFunc(got, turns.ID.Compare)
			if !slices.Equal(got, want) {
				t.Errorf("by %s, %d a page: %v, want %v", order, limit, got, want)
			}
		}
	}
}

func hide(t *testing.T, e *Engine, s turns.ID, hidden bool) *api.Session {
	t.Helper()
	return must(e.Sessions.Hide(t.Context(), alice, s, hidden, api.HideSession{Cause: "by mistake"}, []byte("{}")))(t)
}

func describe(t *testing.T, e *Engine, s turns.ID, r api.DescribeSession) *api.Session {
	t.Helper()
	return must(e.Sessions.Describe(t.Context(), alice, s, r, canon(r)))(t)
}

func ptr[T any](v T) *T { return &v }

// A hidden session is in no list and no search, and is there as it was: also one that is closed.
// It can be shown again.
func TestAHiddenSessionIsThereAndInNoList(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s, other := create(t, e, 0, "nexus"), create(t, e, 0, "nexus")
	turn := add(t, e, s.ID, say("a needle", "found"))
	before := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	must(e.Sessions.CloseSession(t.Context(), alice, s.ID, api.CloseSession{Cause: "done"}, nil))(t)

	if got := hide(t, e, s.ID, true); !got.Hidden || got.State != "closed" || got.Ended == nil || got.Ended.Cause != "done" {
		t.Errorf("hidden after its end: %+v", got)
	}
	at := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Hash
	if got := hide(t, e, s.ID, true); got.Hash != at {
		t.Error("hidden twice, it has another event")
	}
	if got, want := listedIDs(t, e, api.ListSessions{}), []turns.ID{other.ID}; !slices.Equal(got, want) {
		t.Errorf("listed: %v, want %v", got, want)
	}
	if got := listedIDs(t, e, api.ListSessions{Hidden: true, Order: "updated"}); len(got) != 2 {
		t.Errorf("with the hidden ones: %v", got)
	}
	if got := find(t, w, e, alice, seek("needle")).Hits; len(got) != 0 {
		t.Errorf("found: %+v", got)
	}
	for name, r := range map[string]api.Search{"hidden": {Text: "needle", Hidden: true}, "session": {Text: "needle", Session: s.ID}} {
		if got := find(t, w, e, alice, r).Hits; len(got) != 1 || got[0].Turn != turn.ID {
			t.Errorf("by %s: %+v", name, got)
		}
	}
	after := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	if after.Fingerprint != before.Fingerprint {
		t.Error("the context of a hidden session is another one")
	}
	if _, err := e.Sessions.Append(t.Context(), alice, s.ID, say("more", "no"), nil); code(err) != api.Closed {
		t.Errorf("an append to a closed session that was hidden: %v", err)
	}
	hide(t, e, s.ID, false)
	if got := listedIDs(t, e, api.ListSessions{}); len(got) != 2 {
		t.Errorf("shown again: %v", got)
	}
	if _, err := e.Sessions.Hide(t.Context(), bob, s.ID, true, api.HideSession{}, nil); code(err) != api.NotFound {
		t.Errorf("another agent hides it: %v", err)
	}
	if _, err := e.Sessions.Hide(t.Context(), enginetest.Operator, s.ID, true, api.HideSession{}, nil); code(err) != api.Denied {
		t.Errorf("the operator hides it: %v", err)
	}
}

// A retry of a hide does not hide what was shown again in between.
func TestALateRetryOfAHideChangesNothing(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	r := api.HideSession{ID: newID(t)}
	must(e.Sessions.Hide(t.Context(), alice, s.ID, true, r, canon(r)))(t)
	hide(t, e, s.ID, false)
	if got := must(e.Sessions.Hide(t.Context(), alice, s.ID, true, r, canon(r)))(t); got.Hidden {
		t.Error("the retry hid it again")
	}
	if _, err := e.Sessions.Hide(t.Context(), alice, s.ID, false, r, canon(r)); code(err) != api.IDReused {
		t.Errorf("an unhide with the id of the hide: %v", err)
	}
}

// A title, tags and a project are those that were said last; what a request leaves out stays.
func TestASessionIsCalledWhatAPersonSays(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	r := api.CreateSession{SessionSettings: api.SessionSettings{Meta: turns.Raw(`{"title":"by the agent","cwd":"/srv/x","project":{"remote":"github.com/acme/shelf"}}`)}}
	s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
	about := func() *api.Session {
		t.Helper()
		return must(e.History.GetAbout(t.Context(), alice, s.ID, api.GetSession{About: api.About{About: true}}))(t)
	}
	if got := about(); got.Title != "by the agent" || got.Project != "github.com/acme/shelf" {
		t.Errorf("before: %q of %q", got.Title, got.Project)
	}
	turn := add(t, e, s.ID, say("a question", "an answer"))
	describe(t, e, s.ID, api.DescribeSession{Title: ptr("the  slow\nimport"), Tag: []string{"zebra", "apple", "zebra"}})
	describe(t, e, s.ID, api.DescribeSession{Untag: []string{"apple"}, Tag: []string{"kept"}})
	if got := about(); got.Title != "the slow import" || !slices.Equal(got.Tags, []string{"kept", "zebra"}) || got.Project != "github.com/acme/shelf" {
		t.Errorf("described: %q, %q, %q", got.Title, got.Tags, got.Project)
	}
	if got := listedIDs(t, e, api.ListSessions{Tag: "zebra", Project: "shelf"}); !slices.Equal(got, []turns.ID{s.ID}) {
		t.Errorf("by its tag and project: %v", got)
	}
	for name, r := range map[string]api.ListSessions{"a tag that was taken away": {Tag: "apple"}, "another project": {Project: "elf"}} {
		if got := listedIDs(t, e, r); len(got) != 0 {
			t.Errorf("by %s: %v", name, got)
		}
	}
	for text, want := range map[string]int{"slow import": 1, "zebra": 1, "apple": 0, "kept": 1, "answer": 1} {
		if got := find(t, w, e, alice, seek(text)).Hits; len(got) != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := find(t, w, e, alice, seek("zebra")).Hits[0]; got.Kind != "session" || got.Session != s.ID || !got.Turn.IsZero() {
		t.Errorf("a hit in its tags: %+v", got)
	}
	if got := find(t, w, e, bob, seek("zebra")).Hits; len(got) != 0 {
		t.Errorf("another agent finds its tags: %+v", got)
	}
	fork := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: turn.ID}, []byte("f")))(t)
	if got := must(e.Reader.Get(t.Context(), alice, fork.ID, api.Read{}))(t); got.Project != "github.com/acme/shelf" || got.Title != "" || got.Tags != nil {
		t.Errorf("a fork is of %q and is called %q, %q", got.Project, got.Title, got.Tags)
	}
	for name, r := range map[string]api.Search{"the project": {Text: "answer", Project: "acme/shelf"}, "the fork": {Text: "answer", Session: fork.ID, Project: "shelf"}} {
		if got := find(t, w, e, alice, r).Hits; len(got) != 1 {
			t.Errorf("by %s: %+v", name, got)
		}
	}
	if got := find(t, w, e, alice, api.Search{Text: "answer", Project: "other"}).Hits; len(got) != 0 {
		t.Errorf("by another project: %+v", got)
	}
	for name, r := range map[string]api.DescribeSession{
		"a long title":     {Title: ptr(strings.Repeat("x", turns.MaxTitle+1))},
		"an empty tag":     {Tag: []string{""}},
		"a hidden tag":     {Tag: []string{"a\u202eb"}},
		"too many tags":    {Tags: ptr(strings.Split(strings.Repeat("a,b,c,d,", 20)+"e"+strings.Repeat(",", 0), ","))},
		"a project of two": {Project: ptr("a\nb")},
	} {
		if name == "too many tags" {
			var many []string
			for i := range turns.MaxTags + 1 {
				many = append(many, strings.Repeat("t", i+1))
			}
			r.Tags = &many
		}
		if _, err := e.Sessions.Describe(t.Context(), alice, s.ID, r, canon(r)); code(err) != api.Malformed && code(err) != api.TooLarge {
			t.Errorf("%s: %v", name, err)
		}
	}
	describe(t, e, s.ID, api.DescribeSession{Title: ptr(""), Tags: ptr([]string{})})
	if got := about(); got.Title != "by the agent" || got.Tags != nil {
		t.Errorf("taken back: %q, %q", got.Title, got.Tags)
	}
}

// A note is shown with its turn, in the session that has it, and in no context. The newest one
// counts, and an empty one takes it back.
func TestANoteIsShownWithItsTurn(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus")
	first := add(t, e, s.ID, say("one", "1")).ID
	second := add(t, e, s.ID, say("two", "2")).ID
	fork := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: second}, []byte("f")))(t)
	note := func(session, turn turns.ID, text string) *api.Turn {
		t.Helper()
		r := api.NoteTurn{Turn: turn, Text: text}
		return must(e.Sessions.Note(t.Context(), alice, session, r, canon(r)))(t)
	}
	notes := func(session turns.ID) (out []string) {
		t.Helper()
		for _, x := range must(e.History.ListTurns(t.Context(), alice, session, api.ListTurns{}))(t).Turns {
			text := ""
			if x.Note != nil {
				text = x.Note.Text
			}
			out = append(out, text)
		}
		return out
	}
	note(s.ID, first, "an early note")
	if got := note(s.ID, first, "here it began"); got.Note == nil || got.Note.Text != "here it began" {
		t.Errorf("the turn shows %+v", got.Note)
	}
	note(fork.ID, first, "of the fork")
	if got := notes(s.ID); !slices.Equal(got, []string{"here it began", ""}) {
		t.Errorf("the session's notes: %q", got)
	}
	if got := notes(fork.ID); !slices.Equal(got, []string{"of the fork", ""}) {
		t.Errorf("the fork's notes: %q", got)
	}
	if got := find(t, w, e, alice, seek("began")).Hits; len(got) != 1 || got[0].Kind != "note" || got[0].Turn != first || got[0].Depth != 1 {
		t.Errorf("found: %+v", got)
	}
	if got := find(t, w, e, alice, seek("early")).Hits; len(got) != 0 {
		t.Errorf("a note that was replaced is found: %+v", got)
	}
	c := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	if text := string(must(turns.EncodeJSON(c))(t)); strings.Contains(text, "began") {
		t.Error("a context has the note")
	}
	note(s.ID, first, "")
	if got := notes(s.ID); !slices.Equal(got, []string{"", ""}) {
		t.Errorf("taken back: %q", got)
	}
	r := api.NoteTurn{Turn: add(t, e, create(t, e, 0, "nexus").ID, say("x", "y")).ID, Text: "no"}
	if _, err := e.Sessions.Note(t.Context(), alice, s.ID, r, canon(r)); code(err) != api.NotFound {
		t.Errorf("a note on another session's turn: %v", err)
	}
}

// Remarks come along in an export, verify, and are refused where their bodies break a rule.
func TestRemarksAreExportedAndVerified(t *testing.T) {
	from := newWorld().Engine(t)
	s := create(t, from, 0, "nexus")
	first := add(t, from, s.ID, say("one", "1")).ID
	describe(t, from, s.ID, api.DescribeSession{Title: ptr("called"), Tag: []string{"a", "b"}})
	must(from.Sessions.CloseSession(t.Context(), alice, s.ID, api.CloseSession{Cause: "done"}, nil))(t)
	r := api.NoteTurn{Turn: first, Text: "noted"}
	must(from.Sessions.Note(t.Context(), alice, s.ID, r, canon(r)))(t)
	hide(t, from, s.ID, true)
	if v := must(from.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t); !v.OK {
		t.Errorf("verify: %+v", v.Problems)
	}
	records := must(from.Transfer.Export(t.Context(), alice, s.ID, api.ExportSession{}))(t).Records
	to := newWorld().Engine(t)
	must(to.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: records}))(t)
	got := must(to.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t)
	if !got.Hidden || got.Title != "called" || !slices.Equal(got.Tags, []string{"a", "b"}) || got.State != "closed" || got.Ended == nil || got.Ended.Cause != "done" {
		t.Errorf("imported: %+v", got)
	}
	if x := must(to.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: first}))(t); x.Note == nil || x.Note.Text != "noted" {
		t.Errorf("imported, the turn has the note %+v", x.Note)
	}
	if v := must(to.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t); !v.OK {
		t.Errorf("verify of the import: %+v", v.Problems)
	}
}
