package codetree

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nexus/turns/secrets"
)

// Limits bound one recording. Zero fields have the defaults.
type Limits struct {
	Files    int           // files of the folder; more: nothing is recorded (20,000)
	Bytes    int64         // bytes that git does not have yet; more: nothing is recorded (64 MiB)
	FileSize int64         // of one file; a larger one is left out (16 MiB)
	Time     time.Duration // of a recording (5 s)
}

func (l Limits) orDefaults() Limits {
	return Limits{cmp.Or(l.Files, 20_000), cmp.Or(l.Bytes, 64<<20), cmp.Or(l.FileSize, 16<<20), cmp.Or(l.Time, 5*time.Second)}
}

// ErrTooMuch says that a folder is over the limits.
var ErrTooMuch = errors.New("the folder is too large to be recorded")

// Left is a file that a tree does not have though it was there.
type Left struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// tree is the files of a folder at one moment.
type tree struct {
	id      string
	files   int
	left    []Left
	objects []object // those that git may lack
}

// known is what a file was when it was hashed.
type known struct {
	size, mtime, changed int64
	inode                uint64
	mode                 fs.FileMode
	id                   string
	why                  string // why it is left out
}

// hashes keeps the hashes of files that did not change since. Its zero value is empty. Not
// safe for concurrent use.
type hashes map[string]known

// settled is how long ago a file must have been written for its length and times to show
// a later write, in nanoseconds: clocks of file systems are coarse.
const settled = int64(2 * time.Second)

// listed is what git says of a path.
type listed struct {
	path      string
	mode, id  string // of the index; empty for a file that git does not track
	elsewhere bool   // not in the folder: a sparse checkout leaves it out
}

// list returns the paths of the index and those that git would add, each once.
func (r *Repository) list(ctx context.Context, limit int) ([]listed, error) {
	c := command(ctx, r.Top, "ls-files", "-z", "-t", "--stage", "--cached", "--others", "--exclude-standard", "--full-name")
	out, err := c.StdoutPipe()
	var said bytes.Buffer
	c.Stderr = &said
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, gitError(ctx, []string{"ls-files"}, err, "")
	}
	var all []listed
	seen := make(map[string]bool)
	in := bufio.NewReader(out)
	for {
		s, err := in.ReadString(0)
		if err != nil {
			break // Wait says why
		}
		tag, rest, _ := strings.Cut(strings.TrimSuffix(s, "\x00"), " ")
		l := listed{path: rest, elsewhere: tag == "S" || tag == "s"}
		if tag != "?" {
			info, name, ok := strings.Cut(rest, "\t")
			f := strings.Fields(info)
			if !ok || len(f) != 3 {
				continue
			}
			l.path, l.mode, l.id = name, f[0], f[1]
		}
		if !seen[l.path] { // a path in conflict stands there up to three times
			seen[l.path] = true
			all = append(all, l)
		}
		if len(all) > limit {
			_ = c.Process.Kill()
			_ = c.Wait()
			return nil, fmt.Errorf("%w: over %d files", ErrTooMuch, limit)
		}
	}
	if err := c.Wait(); err != nil {
		return nil, gitError(ctx, []string{"ls-files"}, err, said.String())
	}
	return all, nil
}

// snapshot reads the folder. It writes nothing.
func (r *Repository) snapshot(ctx context.Context, limits Limits, had hashes) (*tree, error) {
	list, err := r.list(ctx, limits.Files)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(r.Top)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t := new(tree)
	var files []entry
	var fresh []string // files to be read
	folders := make(map[string]bool)
	stats := make(map[string]fs.FileInfo)
	for i, l := range list {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		name, nested := strings.CutSuffix(l.path, "/")
		switch {
		case nested:
			t.left = append(t.left, Left{name, "a git repository of its own"})
			continue
		case l.mode == modeCommit:
			files = append(files, entry{l.path, modeCommit, l.id})
			t.left = append(t.left, Left{name, "a submodule: only the commit of the index is kept"})
			continue
		case l.elsewhere:
			files = append(files, entry{l.path, l.mode, l.id})
			continue
		case !isRealFolder(root, path.Dir(l.path), folders):
			continue // a link stands where the folder was
		}
		info, err := root.Lstat(filepath.FromSlash(l.path))
		if err != nil {
			continue // it was removed, and so the tree does not have it
		}
		if l.id == "" && secretName(l.path) {
			t.left = append(t.left, Left{l.path, "its name is one of files with secrets"})
			continue
		}
		switch {
		case info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0:
		default:
			if !info.IsDir() {
				t.left = append(t.left, Left{l.path, "no regular file"})
			}
			continue
		}
		if info.Mode().IsRegular() && info.Size() > limits.FileSize {
			t.left = append(t.left, Left{l.path, fmt.Sprintf("%d bytes", info.Size())})
			continue
		}
		stats[l.path] = info
		if k, ok := had[l.path]; ok && k.same(info) {
			if k.why != "" {
				t.left = append(t.left, Left{l.path, k.why})
				continue
			}
			files = append(files, entry{l.path, modeOf(info), k.id})
			continue
		}
		files = append(files, entry{l.path, modeOf(info), ""})
		fresh = append(fresh, l.path)
	}
	untracked := make(map[string]bool)
	for _, l := range list {
		untracked[l.path] = l.id == ""
	}
	ids, bodies, err := r.read(ctx, root, fresh, stats, limits, had, untracked)
	if err != nil {
		return nil, err
	}
	whole := files[:0]
	for _, f := range files {
		if f.id == "" {
			k, ok := ids[f.path]
			switch {
			case !ok:
				continue // it went meanwhile
			case k.why != "":
				t.left = append(t.left, Left{f.path, k.why})
				continue
			}
			f.id = k.id
		}
		whole = append(whole, f)
	}
	for p := range had {
		if stats[p] == nil {
			delete(had, p)
		}
	}
	trees, id := r.trees(whole)
	t.id, t.files = id, len(whole)
	t.objects = append(bodies, trees...)
	slices.SortFunc(t.left, func(a, b Left) int { return cmp.Compare(a.Path, b.Path) })
	return t, nil
}

// read hashes files, and returns the content of those that git does not have.
func (r *Repository) read(ctx context.Context, root *os.Root, names []string, stats map[string]fs.FileInfo, limits Limits, had hashes, untracked map[string]bool) (ids map[string]known, bodies []object, err error) {
	ids = make(map[string]known)
	if len(names) == 0 {
		return ids, nil, nil
	}
	has, err := r.asker(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer has.close()
	sum, now, sent := int64(0), time.Now().UnixNano(), make(map[string]bool)
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		info := stats[name]
		body, err := content(root, name, info, limits.FileSize)
		if errors.Is(err, errChanged) {
			return nil, nil, fmt.Errorf("%s %w", name, errChanged)
		}
		k := knownOf(info)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			k.why = "it can't be read"
		case untracked[name] && hasSecret(string(body)):
			k.why = "it holds a credential"
		default:
			o := object{"blob", body}
			k.id = r.id(o)
			there, err := has.ask(k.id)
			if err != nil {
				return nil, nil, err
			}
			if !there && !sent[k.id] {
				sent[k.id] = true
				if sum += int64(len(body)); sum > limits.Bytes {
					return nil, nil, fmt.Errorf("%w: over %d bytes that git does not have", ErrTooMuch, limits.Bytes)
				}
				bodies = append(bodies, o)
			}
		}
		ids[name] = k
		if now-k.mtime > settled && now-k.changed > settled {
			had[name] = k
		} else {
			delete(had, name)
		}
	}
	return ids, bodies, nil
}

var errChanged = errors.New("changed while it was read")

// content returns the bytes of a file, or where a link points. A file that became another
// since info is errChanged.
func content(root *os.Root, name string, info fs.FileInfo, limit int64) ([]byte, error) {
	name = filepath.FromSlash(name)
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := root.Readlink(name)
		return []byte(filepath.ToSlash(to)), err
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(now, info) || !now.Mode().IsRegular() {
		return nil, errChanged
	}
	body, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(body)) != info.Size() {
		err = errChanged
	}
	return body, err
}

// isRealFolder reports whether a folder below the root and those above it are no links.
func isRealFolder(root *os.Root, dir string, known map[string]bool) bool {
	if dir == "." {
		return true
	}
	is, ok := known[dir]
	if !ok {
		if is = isRealFolder(root, path.Dir(dir), known); is {
			info, err := root.Lstat(filepath.FromSlash(dir))
			is = err == nil && info.IsDir()
		}
		known[dir] = is
	}
	return is
}

func modeOf(info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return modeLink
	case info.Mode()&0o100 != 0:
		return modeExec
	}
	return modeFile
}

func knownOf(info fs.FileInfo) known {
	inode, changed := identity(info)
	return known{size: info.Size(), mtime: info.ModTime().UnixNano(), changed: changed, inode: inode, mode: info.Mode()}
}

func (k known) same(info fs.FileInfo) bool {
	n := knownOf(info)
	n.id, n.why = k.id, k.why
	return n == k
}

func hasSecret(text string) bool { return len(secrets.Find(text)) > 0 }

// secretName reports whether files of this name hold secrets as a rule. Only files that
// git does not track are asked about.
func secretName(p string) bool {
	name := strings.ToLower(path.Base(p))
	for _, pattern := range []string{".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.tfstate", "*.tfvars", "credentials", "credentials.json", "secrets.json", "secrets.yaml", "secrets.yml", "secrets.toml", "service-account*.json", "*.nk", "*.creds"} {
		if ok, _ := path.Match(pattern, name); ok {
			return !strings.HasSuffix(name, ".example") && !strings.HasSuffix(name, ".sample") && !strings.HasSuffix(name, ".pub") && !strings.HasSuffix(name, ".template")
		}
	}
	return false
}

// asker asks one process of git which objects there are.
type asker struct {
	in    io.WriteCloser
	out   *bufio.Reader
	close func()
}

func (r *Repository) asker(ctx context.Context) (*asker, error) {
	c := command(ctx, r.Top, "cat-file", "--batch-check=%(objecttype)")
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, gitError(ctx, []string{"cat-file"}, err, "")
	}
	return &asker{in, bufio.NewReader(out), func() { _ = in.Close(); _ = c.Wait() }}, nil
}

func (a *asker) ask(id string) (bool, error) {
	if _, err := io.WriteString(a.in, id+"\n"); err != nil {
		return false, err
	}
	line, err := a.out.ReadString('\n')
	return !strings.HasSuffix(line, " missing\n"), err
}
