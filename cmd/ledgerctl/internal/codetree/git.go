package codetree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Errors of a folder whose files can't be recorded.
var (
	ErrNoGit        = errors.New("the git program is not there")
	ErrNoRepository = errors.New("the folder is in no git repository with working files")
)

// refPrefix is where the refs of sessions are. git push sends them only with --mirror, or
// when asked.
const refPrefix = "refs/nexus/"

// Repository is a git repository with working files.
type Repository struct {
	Top    string // the folder of its working files
	common string // its git folder, that of the main worktree
	sha256 bool   // the hash of its objects, else SHA-1
}

// safe are the settings under which git runs no program of the repository and changes
// nothing that it was not asked to.
var safe = []string{
	"-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull, "-c", "core.untrackedCache=false",
	"-c", "submodule.recurse=false", "-c", "diff.ignoreSubmodules=dirty", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "commit.gpgSign=false", "-c", "log.showSignature=false",
	"-c", "protocol.allow=never", "-c", "core.quotePath=false", "-c", "advice.detachedHead=false", "-c", "core.longPaths=true",
}

// environment is that of this process without what steers git, so that a hook of git
// that started an agent points to no other repository.
func environment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			env = append(env, v)
		}
	}
	return append(env, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1", "GIT_PAGER=cat", "GIT_EDITOR=:", "GIT_ATTR_NOSYSTEM=1")
}

// command returns a call of git in a folder. At the end of ctx git is asked to end, so that
// it removes its lock files; later it is killed.
func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "git", append(append([]string{"--no-pager", "-C", dir}, safe...), args...)...)
	c.Env = environment()
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 3 * time.Second
	detach(c)
	return c
}

// git runs git and returns what it printed.
func git(ctx context.Context, dir string, stdin io.Reader, args ...string) (string, error) {
	c := command(ctx, dir, args...)
	var out, said bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = stdin, &out, &said
	if err := c.Run(); err != nil {
		return "", gitError(ctx, args, err, said.String())
	}
	return out.String(), nil
}

func gitError(ctx context.Context, args []string, err error, said string) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrNoGit, err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", args[0], ctx.Err())
	}
	first, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	return fmt.Errorf("git %s: %w: %s", args[0], err, first)
}

// Open returns the repository of a folder: [ErrNoRepository] if it is in none, in a bare
// one or in the git folder itself, [ErrNoGit] without git. A repository of another user is
// refused as git refuses it (safe.directory).
func Open(ctx context.Context, dir string) (*Repository, error) {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("%w: %s is no folder here", ErrNoRepository, dir)
	}
	out, err := git(ctx, dir, nil, "rev-parse", "--is-inside-work-tree", "--show-object-format", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
	if err != nil {
		if errors.Is(err, ErrNoGit) || ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrNoRepository, err)
	}
	l := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(l) != 4 || l[0] != "true" {
		return nil, fmt.Errorf("%w: %s", ErrNoRepository, dir)
	}
	return &Repository{Top: filepath.FromSlash(l[2]), common: filepath.FromSlash(l[3]), sha256: l[1] == "sha256"}, nil
}

func (r *Repository) git(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	return git(ctx, r.Top, stdin, args...)
}

// Same reports whether two folders of working files are of one repository, and have its refs.
func (r *Repository) Same(o *Repository) bool { return r.common == o.common }

// resolve returns the object that a name means, "" if there is none.
func (r *Repository) resolve(ctx context.Context, name string) (string, error) {
	out, err := r.git(ctx, nil, "rev-parse", "--verify", "--quiet", name)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNoGit) {
		return "", nil
	}
	return strings.TrimSpace(out), err
}

// isObjectID reports whether s is the whole hash of an object, and so no option and no
// other name of git.
func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// Has reports whether the repository has a tree or commit.
func (r *Repository) Has(ctx context.Context, object string) bool {
	if !isObjectID(object) {
		return false
	}
	_, err := r.git(ctx, nil, "cat-file", "-e", object+"^{tree}")
	return err == nil
}

// DiffStat returns what changed between two trees, as git diff --stat prints it.
func (r *Repository) DiffStat(ctx context.Context, from, to string) (string, error) {
	if !isObjectID(from) || !isObjectID(to) {
		return "", fmt.Errorf("%q or %q is no tree", from, to)
	}
	return r.git(ctx, nil, "diff-tree", "-r", "--stat", "--no-ext-diff", "--no-textconv", "--no-color", from, to)
}
