// Package repository says which repository of git a folder of this machine is in.
//
// The importer calls it for the folders that transcripts name. It asks the git program and
// changes nothing; it runs no program that a repository names.
//
// Begin at [Of], or at a [Cache] where many sessions are of few folders.
package repository

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nexus/turns"
)

const (
	// patience bounds one call of git, and the look whether a folder is there: it may be on a disk
	// that does not answer.
	patience = 3 * time.Second
	// maxOutput bounds what a call of git prints, in bytes: a repository names its remotes.
	maxOutput = 64 << 10
)

// Of returns the project of a folder: the remote named origin, else the only one, and the folder
// of the main worktree. ok is false where the folder is in no repository, is not there, or git is
// not. The project's folders are not filled in.
func Of(ctx context.Context, dir string) (p turns.Project, ok bool) {
	if !filepath.IsAbs(dir) {
		return p, false
	}
	if !isFolder(ctx, dir) {
		return p, false
	}
	common, err := git(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil || common == "" {
		return p, false
	}
	p.Root = common // a bare repository, or one whose folder has another name
	if filepath.Base(common) == ".git" {
		p.Root = filepath.Dir(common)
	}
	remotes, err := git(ctx, dir, "remote")
	if err != nil {
		return p, true
	}
	names := strings.Fields(remotes)
	name := "origin"
	if !slices.Contains(names, name) {
		if len(names) != 1 {
			return p, true
		}
		name = names[0]
	}
	if url, err := git(ctx, dir, "remote", "get-url", name); err == nil {
		p.Remote = turns.Remote(url)
	}
	return p, true
}

// git returns what a call of git in a folder prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := exec.CommandContext(ctx, "git", append([]string{"--no-pager", "-C", dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull}, args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") { // a hook of git may have started us, for another repository
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0")
	c.WaitDelay = time.Second
	var out output
	c.Stdout = &out
	err := c.Run()
	return strings.TrimSuffix(string(out.b), "\n"), err
}

// output is what a program printed. It takes at most [maxOutput] bytes; then the program's call
// fails.
type output struct{ b []byte }

func (o *output) Write(p []byte) (int, error) {
	if len(o.b)+len(p) > maxOutput {
		return 0, fmt.Errorf("git prints more than %d bytes", maxOutput)
	}
	o.b = append(o.b, p...)
	return len(p), nil
}

// looks bounds the looks at folders that wait for a disk. One that hangs keeps its place until the
// disk answers, and no end of them pile up.
var looks = make(chan struct{}, 8)

// isFolder reports whether a folder is there. It waits at most [patience].
func isFolder(ctx context.Context, dir string) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return within(ctx, looks, func() bool {
		st, err := os.Stat(dir)
		return err == nil && st.IsDir()
	})
}

// within returns what look returns, false if ctx ends before. A look that has no place among places
// is not begun; one that hangs goes on behind.
func within(ctx context.Context, places chan struct{}, look func() bool) bool {
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	done := make(chan bool, 1)
	go func() {
		defer func() { <-places }()
		done <- look()
	}()
	select {
	case ok := <-done:
		return ok
	case <-ctx.Done():
		return false
	}
}

// Cache keeps what [Of] answered, for [keptFor]. The zero value is ready; a nil one asks each time. Safe for
// concurrent use.
type Cache struct {
	mu   sync.Mutex
	dirs map[string]answer
}

type answer struct {
	project turns.Project
	ok      bool
	at      time.Time
}

// keptFor is how long an answer is kept: a remote is added or changed now and then. At most
// mostKept are kept.
const (
	keptFor  = time.Minute
	mostKept = 10_000
)

// Of is the other Of.
func (c *Cache) Of(ctx context.Context, dir string) (turns.Project, bool) {
	if c == nil {
		return Of(ctx, dir)
	}
	c.mu.Lock()
	a, ok := c.dirs[dir]
	c.mu.Unlock()
	if ok && time.Since(a.at) < keptFor {
		return a.project, a.ok
	}
	a.at = time.Now()
	a.project, a.ok = Of(ctx, dir)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirs == nil || len(c.dirs) >= mostKept {
		c.dirs = make(map[string]answer)
	}
	c.dirs[dir] = a
	return a.project, a.ok
}
