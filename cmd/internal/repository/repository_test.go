package repository

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs git in a folder, or skips where there is no git.
func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("the git program is not there")
	}
	c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestAWorktreeAndACloneAreOneProjectAndATemplateIsNot(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(top, name) }
	for name, url := range map[string]string{"https": "https://me:ghp_secret@github.com/acme/shelf.git", "ssh": "git@github.com:acme/shelf.git", "template": "https://github.com/acme/other"} {
		run(t, top, "init", "-q", at(name))
		run(t, at(name), "commit", "-q", "--allow-empty", "-m", "one")
		run(t, at(name), "remote", "add", "origin", url)
	}
	run(t, at("https"), "worktree", "add", "-q", at("wt"))
	for name, want := range map[string]string{"https": "github.com/acme/shelf", "ssh": "github.com/acme/shelf", "wt": "github.com/acme/shelf", "template": "github.com/acme/other"} {
		p, ok := Of(t.Context(), at(name))
		if !ok || p.Remote != want {
			t.Errorf("%s: %+v, %v; want the remote %s", name, p, ok, want)
		}
	}
	if p, _ := Of(t.Context(), at("wt")); p.Root != at("https") {
		t.Errorf("the worktree's root is %s, want %s", p.Root, at("https"))
	}
	run(t, top, "init", "-q", at("alone"))
	if p, ok := Of(t.Context(), at("alone")); !ok || p.Remote != "" || p.Root != at("alone") {
		t.Errorf("a repository without a remote: %+v, %v", p, ok)
	}
	run(t, at("alone"), "remote", "add", "a", "https://a.example/x")
	run(t, at("alone"), "remote", "add", "b", "https://b.example/x")
	if p, _ := Of(t.Context(), at("alone")); p.Remote != "" {
		t.Errorf("of two remotes without an origin one was taken: %s", p.Remote)
	}
	for _, dir := range []string{top, at("gone"), "relative", ""} {
		if p, ok := Of(t.Context(), dir); ok {
			t.Errorf("%q is in a repository: %+v", dir, p)
		}
	}
}

// A repository with more remotes than fit into the bound of git's output has a folder and no remote.
func TestWhatGitPrintsIsBounded(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run(t, top, "init", "-q", ".")
	run(t, top, "config", "remote.origin.url", "https://a.example/"+strings.Repeat("x", maxOutput))
	p, ok := Of(t.Context(), top)
	if !ok || p.Root != top || p.Remote != "" {
		t.Errorf("%v, %v, a remote of %d bytes", ok, p.Root, len(p.Remote))
	}
}

// A disk that does not answer holds up nobody longer than patience, and takes only so many places.
func TestALookThatHangsIsLeft(t *testing.T) {
	hangs := make(chan struct{})
	defer close(hangs)
	places, began, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		if within(ctx, places, func() bool { close(began); <-hangs; return true }) {
			t.Error("a look that hangs found something")
		}
	}()
	<-began
	cancel()
	<-ended
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if within(ctx, places, func() bool { t.Error("it was begun without a place"); return true }) {
		t.Error("a look without a place found something")
	}
	if !within(t.Context(), make(chan struct{}, 1), func() bool { return true }) {
		t.Error("a look that ends found nothing")
	}
}
