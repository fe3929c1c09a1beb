package codetree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Errors of a restoration.
var (
	ErrNotEmpty = errors.New("the folder is there already and is not empty")
	ErrNoTree   = errors.New("the repository does not have the files")
	ErrBadPath  = errors.New("the tree has a path that no file may have")
)

// Worktree is a folder with the files of a tree.
type Worktree struct {
	Dir  string
	repo *Repository
	made bool // by us, not empty before
	git  bool // git knows it as a worktree
}

// AddWorktree puts the files of a tree into dir, which must not be there or be empty. If
// head is a commit that the repository has, dir is a worktree of it with a detached HEAD,
// and what differs from the commit shows as changes; else it is a plain folder. After an
// error, dir is as it was.
func (r *Repository) AddWorktree(ctx context.Context, dir, tree, head string) (w *Worktree, err error) {
	if !r.Has(ctx, tree) {
		return nil, fmt.Errorf("%w: tree %s in %s", ErrNoTree, tree, r.Top)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	made, err := freeFolder(dir)
	if err != nil {
		return nil, err
	}
	w = &Worktree{Dir: dir, repo: r, made: made}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Remove(context.WithoutCancel(ctx)))
		}
	}()
	if isObjectID(head) {
		if commit, err := r.resolve(ctx, head+"^{commit}"); err != nil {
			return nil, err
		} else if commit != "" {
			if _, err := r.git(ctx, nil, "worktree", "add", "--quiet", "--detach", "--no-checkout", "--force", dir, commit); err != nil {
				return nil, err
			}
			w.git = true
			if _, err := git(ctx, dir, nil, "read-tree", "HEAD"); err != nil {
				return nil, err
			}
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return w, w.fill(ctx, tree)
}

// freeFolder reports whether dir is still to be made; an error if it can't be used.
func freeFolder(dir string) (toMake bool, err error) {
	switch st, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case !st.IsDir():
		return false, fmt.Errorf("%w: %s", ErrNotEmpty, dir)
	}
	list, err := os.ReadDir(dir)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%w: %s", ErrNotEmpty, dir)
	}
	return false, err
}

// Remove removes the folder with all that is in it, and git's note of it. It is for a
// folder that nobody else uses.
func (w *Worktree) Remove(ctx context.Context) error {
	if w.git {
		_, _ = w.repo.git(ctx, nil, "worktree", "remove", "--force", "--force", w.Dir) // what it leaves is removed next
	}
	err := w.empty(true)
	if w.made {
		err = errors.Join(err, os.RemoveAll(w.Dir))
	} else if _, e := os.Stat(w.Dir); errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, os.Mkdir(w.Dir, 0o755))
	}
	if w.git {
		_, _ = w.repo.git(ctx, nil, "worktree", "prune")
	}
	return err
}

// empty removes what is in the folder; the link to the repository only with all.
func (w *Worktree) empty(all bool) error {
	list, err := os.ReadDir(w.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range list {
		if f.Name() != ".git" || all || !w.git {
			name := filepath.Join(w.Dir, f.Name())
			if e := os.RemoveAll(name); e != nil { // folders without the right to write, as Go's module cache has
				_ = filepath.WalkDir(name, func(p string, d fs.DirEntry, _ error) error {
					if d != nil && d.IsDir() {
						_ = os.Chmod(p, 0o700)
					}
					return nil
				})
				err = errors.Join(err, os.RemoveAll(name))
			}
		}
	}
	return err
}

// Reset removes all files of the folder and puts those of another tree there.
func (w *Worktree) Reset(ctx context.Context, tree string) error {
	if err := w.empty(false); err != nil {
		return err
	}
	return w.fill(ctx, tree)
}

// fill writes the files of a tree into the empty folder. No filter runs. Links come last,
// so that no file is written through one.
func (w *Worktree) fill(ctx context.Context, tree string) error {
	files, err := w.repo.files(ctx, tree)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(w.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	c := command(ctx, w.repo.Top, "cat-file", "--batch")
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	pipe, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return gitError(ctx, []string{"cat-file"}, err, "")
	}
	defer func() { _ = in.Close(); _ = c.Wait() }()
	out := bufio.NewReader(pipe)
	slices.SortStableFunc(files, func(a, b entry) int { return order(a) - order(b) })
	for _, f := range files {
		name := filepath.FromSlash(f.path)
		if f.mode == modeCommit {
			if err := root.MkdirAll(name, 0o755); err != nil {
				return err
			}
			continue
		}
		if dir := filepath.Dir(name); dir != "." {
			if err := root.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := writeBlob(root, name, f, in, out); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}

func order(e entry) int {
	if e.mode == modeLink {
		return 1
	}
	return 0
}

func writeBlob(root *os.Root, name string, f entry, in io.Writer, out *bufio.Reader) error {
	if _, err := io.WriteString(in, f.id+"\n"); err != nil {
		return err
	}
	head, err := out.ReadString('\n')
	if err != nil {
		return err
	}
	w := strings.Fields(head)
	if len(w) != 3 || w[1] != "blob" {
		return fmt.Errorf("%w: %s", ErrNoTree, strings.TrimSpace(head))
	}
	size, err := strconv.ParseInt(w[2], 10, 64)
	if err != nil {
		return err
	}
	content := io.LimitReader(out, size)
	if f.mode == modeLink {
		to, err := io.ReadAll(content)
		if err == nil {
			err = root.Symlink(filepath.FromSlash(string(to)), name)
		}
		if err != nil {
			return err
		}
	} else {
		perm := fs.FileMode(0o644)
		if f.mode == modeExec {
			perm = 0o755
		}
		to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, content)
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
	}
	_, err = out.ReadByte() // a line break follows
	return err
}

// files returns the files of a tree. Their paths stay below a folder and outside .git.
func (r *Repository) files(ctx context.Context, tree string) (out []entry, err error) {
	if !isObjectID(tree) {
		return nil, fmt.Errorf("%w: %q", ErrNoTree, tree)
	}
	text, err := r.git(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", tree)
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(text, "\x00") {
		info, name, ok := strings.Cut(line, "\t")
		f := strings.Fields(info)
		if !ok || len(f) != 3 {
			continue
		}
		for part := range strings.SplitSeq(name, "/") {
			if !fs.ValidPath(part) || part == "." || isGitName(part) || strings.Contains(part, `\`) && filepath.Separator == '\\' {
				return nil, fmt.Errorf("%w: %q", ErrBadPath, name)
			}
		}
		out = append(out, entry{name, f[0], f[2]})
	}
	return out, nil
}

// isGitName reports whether a file system may take the name of a file for .git.
func isGitName(s string) bool {
	s = strings.TrimRight(strings.ToLower(s), ". ")
	s = strings.Map(func(r rune) rune { // characters that HFS+ ignores
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, s)
	return s == ".git" || s == "git~1" || strings.HasPrefix(s, ".git:")
}
