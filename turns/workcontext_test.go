package turns

import "testing"

func TestWorkContextOfMeta(t *testing.T) {
	for meta, want := range map[string]WorkContext{
		``: {}, `null`: {}, `[1]`: {}, `"x"`: {}, `{"cwd":7,"source":["odd"],"git":"x","git_branch":null}`: {},
		`{"source":"claude-code","cwd":"/a/b","git_branch":"main"}`:       {"claude-code", "/a/b", "main"},
		`{"source":"codex","cwd":"/a","git":{"branch":"fix"}}`:            {"codex", "/a", "fix"},
		`{"turn_context":{"cwd":"/c","model":"m"}}`:                       {Cwd: "/c"},
		`{"git_branch":"fix","git":{"branch":7},"turn_context":"a text"}`: {Branch: "fix"},
	} {
		if got := WorkContextOf(Raw(meta)); got != want {
			t.Errorf("%s: %+v, want %+v", meta, got, want)
		}
	}
	if got, want := (WorkContext{Cwd: "/a"}).Or(WorkContext{"s", "/b", "main"}), (WorkContext{"s", "/a", "main"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestWorkContextIsInItsFolderAndThoseAbove(t *testing.T) {
	for _, x := range []struct {
		cwd, folder string
		want        bool
	}{
		{"/a/b", "/a/b", true}, {"/a/b", "/a/b/", true}, {"/a/b", "/a", true}, {"/a/b", "/", true}, {"/", "/", true},
		{"/a/bc", "/a/b", false}, {"/a", "/a/b", false}, {"", "/", false}, {"", "/a", false},
	} {
		if got := (WorkContext{Cwd: x.cwd}).IsIn(x.folder); got != x.want {
			t.Errorf("%q in %q: %v", x.cwd, x.folder, got)
		}
	}
}
