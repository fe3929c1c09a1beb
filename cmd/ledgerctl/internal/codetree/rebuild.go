package codetree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/cmd/ledgerctl/internal/edits"
	"nexus/ledger/api"
	"nexus/turns"
)

// Errors of files that are rebuilt from recorded edits.
var (
	// ErrNothingKnown says that a turn has no file whose content is known.
	ErrNothingKnown = errors.New("nothing is known of the files")
	// ErrPartlyKnown says that some files of a turn are not known.
	ErrPartlyKnown = errors.New("some files are not known")
	// ErrNoFolder says that a session does not state the folder that its agent worked in.
	ErrNoFolder = errors.New("the session does not say which folder its agent worked in")
	// ErrNoBase says that a repository lacks the commit that was named.
	ErrNoBase = errors.New("the repository does not have the commit")
)

// Source is a session whose files are rebuilt from its recorded edits. Make one with
// [NewSource].
type Source struct {
	Folder string      // where the agent worked, as the transcript writes it
	Base   string      // the commit that the session began with; empty: not known
	Stated bool        // the transcript states Base, else the user does
	Repo   *Repository // that has Base, and takes the files; nil: none was found

	client  *api.Client
	opt     edits.Options
	at      turns.ID
	id      turns.ID
	folders map[turns.ID]string // of the sessions on the path
	cwds    map[turns.ID]string // where their agents were at the start
}

// Where says what the user states of a session. Empty fields are taken from the session.
type Where struct {
	Repo   string // a folder of the repository; else the session's
	Folder string // where the agent worked
	Base   string // the commit that the session began with

	// Transcript is the file that the session was imported from, for what an import does
	// not store of it; see [edits.ReadOriginals]. Empty: none.
	Transcript string
}

// NewSource returns the source of a turn's files; at is zero for the head. A repository that
// is not there is no error, unless it was named.
func NewSource(ctx context.Context, c *api.Client, session, at turns.ID, w Where) (*Source, error) {
	s := &Source{client: c, at: at, id: session, Folder: w.Folder, folders: make(map[turns.ID]string), cwds: make(map[turns.ID]string)}
	var commit string
	for id := session; ; {
		x, err := c.Session(ctx, id)
		if err != nil {
			return nil, err
		}
		work := turns.WorkContextOf(x.Meta)
		if s.Folder == "" {
			s.Folder = work.Cwd
		}
		if w.Folder == "" {
			s.folders[id] = work.Cwd
		}
		s.cwds[id] = work.Cwd
		s.opt.Agent = work.Source
		s.opt.Beside = s.opt.Beside || x.SpawnedBy != nil
		if commit == "" {
			commit = commitOf(x.Meta)
		}
		if x.ForkedFrom == nil {
			break
		}
		id = x.ForkedFrom.Session
	}
	if err := s.findRepository(ctx, w); err != nil {
		return nil, err
	}
	if err := s.findBase(ctx, w.Base, commit); err != nil {
		return nil, err
	}
	s.opt.Folder = s.Folder
	if w.Transcript == "" {
		return s, nil
	}
	f, err := os.Open(w.Transcript)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s.opt.Originals, err = edits.ReadOriginals(f); err != nil {
		return nil, fmt.Errorf("read %s: %w", w.Transcript, err)
	}
	return s, nil
}

// commitOf returns the commit that a session's meta states; Codex writes it.
func commitOf(meta turns.Raw) string {
	var m struct {
		Git struct {
			Commit string `json:"commit_hash"`
		} `json:"git"`
	}
	if json.Unmarshal(meta, &m) != nil || !isObjectID(m.Git.Commit) {
		return ""
	}
	return m.Git.Commit
}

// findRepository opens the repository. Its top is the folder if the agent worked below it.
func (s *Source) findRepository(ctx context.Context, w Where) (err error) {
	dir := w.Repo
	if dir == "" {
		if dir = s.Folder; dir == "" || !filepath.IsAbs(dir) {
			return nil
		}
	}
	if s.Repo, err = Open(ctx, dir); err != nil {
		if w.Repo == "" && errors.Is(err, ErrNoRepository) {
			return nil
		}
		return err
	}
	if below, ok := strings.CutPrefix(s.Folder, filepath.ToSlash(s.Repo.Top)+"/"); ok && w.Folder == "" {
		s.Folder = filepath.ToSlash(s.Repo.Top)
		for id, dir := range s.folders { // a worktree has the same folders below its top
			s.folders[id] = strings.TrimSuffix(dir, "/"+below)
		}
	}
	return nil
}

func (s *Source) findBase(ctx context.Context, named, stated string) error {
	if s.Repo == nil {
		if named != "" {
			return fmt.Errorf("%w: no repository was found", ErrNoBase)
		}
		return nil
	}
	if named != "" {
		if strings.HasPrefix(named, "-") {
			return fmt.Errorf("%w: %s", ErrNoBase, named)
		}
		id, err := s.Repo.resolve(ctx, named+"^{commit}")
		if err == nil && id == "" {
			err = fmt.Errorf("%w: %s in %s", ErrNoBase, named, s.Repo.Top)
		}
		s.Base = id
		return err
	}
	if stated != "" && s.Repo.Has(ctx, stated) {
		s.Base, s.Stated = stated, true
	}
	return nil
}

// States rebuilds the files after each turn on the path up to the turn of the source, the
// last included. A state is valid until the next.
func (s *Source) States(ctx context.Context) iter.Seq2[*edits.State, error] {
	return func(yield func(*edits.State, error) bool) {
		if s.Folder == "" {
			yield(nil, ErrNoFolder)
			return
		}
		opt := s.opt
		if s.Base != "" {
			base, err := s.Repo.newBase(ctx, s.Base)
			if err != nil {
				yield(nil, err)
				return
			}
			opt.Base = func(_ turns.ID, p string) ([]byte, bool) { return base.content(ctx, p) }
		}
		beyond, err := s.reachesBeyond(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		list := api.ListTurns{Full: true}
		if !beyond { // the turn is not on the path of the head: its results are not known
			list.At = s.at
		}
		for st, err := range edits.Walk(s.path(ctx, list), opt) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(st, err) || err != nil || st.Turn.ID == s.at {
				return
			}
		}
	}
}

// reachesBeyond reports whether the turn is on the path of the session's head, so that the
// turn after it is too.
func (s *Source) reachesBeyond(ctx context.Context) (bool, error) {
	if s.at.IsZero() {
		return true, nil
	}
	for t, err := range s.client.Turns(ctx, s.id, api.ListTurns{}) {
		if err != nil {
			return false, err
		}
		if t.ID == s.at {
			return true, nil
		}
	}
	return false, nil
}

func (s *Source) path(ctx context.Context, list api.ListTurns) iter.Seq2[edits.Turn, error] {
	return func(yield func(edits.Turn, error) bool) {
		var session turns.ID
		for t, err := range s.client.Turns(ctx, s.id, list) {
			if err == nil && t.Error != "" {
				err = api.Errorf(t.Error, nil, "turn %s can't be read", t.ID)
			}
			x := edits.Turn{ID: t.ID, Session: t.Session, Depth: t.Depth, Compaction: t.Type == "compaction", Folder: s.folders[t.Session], Cwd: turns.WorkContextOf(t.Meta).Cwd, Messages: t.Messages, Response: t.Response}
			if x.Cwd == "" && x.Session != session {
				x.Cwd = s.cwds[x.Session]
			}
			session = x.Session
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// baseFiles are the files of a commit.
type baseFiles struct {
	repo  *Repository
	files map[string]entry
	dirs  map[string]bool
}

func (r *Repository) newBase(ctx context.Context, commit string) (*baseFiles, error) {
	b := &baseFiles{repo: r, files: make(map[string]entry), dirs: make(map[string]bool)}
	if commit == "" {
		return b, nil
	}
	list, err := r.files(ctx, commit)
	for _, f := range list {
		b.files[f.path] = f
		for dir := path.Dir(f.path); dir != "." && !b.dirs[dir]; dir = path.Dir(dir) {
			b.dirs[dir] = true
		}
	}
	return b, err
}

// maxBaseFile bounds a file of a commit that edits are applied to.
const maxBaseFile = 16 << 20

// content returns a regular file of the commit.
func (b *baseFiles) content(ctx context.Context, p string) ([]byte, bool) {
	f, ok := b.files[p]
	if !ok || f.mode != modeFile && f.mode != modeExec {
		return nil, false
	}
	size, err := b.repo.git(ctx, nil, "cat-file", "-s", f.id)
	if err != nil || len(strings.TrimSpace(size)) > len("16777216") {
		return nil, false
	}
	text, err := b.repo.git(ctx, nil, "cat-file", "blob", f.id)
	return []byte(text), err == nil && len(text) <= maxBaseFile
}

// Trees makes trees of rebuilt files over a commit. Nothing is given to git before Write.
// Make one with [Source.NewTrees].
type Trees struct {
	repo    *Repository
	base    *baseFiles
	head    string
	made    map[string]bool
	objects []object
}

// NewTrees returns a maker of trees in the source's repository.
func (s *Source) NewTrees(ctx context.Context) (*Trees, error) {
	if s.Repo == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoRepository, s.Folder)
	}
	base, err := s.Repo.newBase(ctx, s.Base)
	return &Trees{repo: s.Repo, base: base, head: s.Base, made: make(map[string]bool)}, err
}

// Tree makes the tree of a state: the files of the commit, with what is known of those that
// the session named in their place. A file that is not known stays as in the commit. What is
// not in the tree as it is known is in Left. With partial it is no error that files are not
// known, or that there is no commit.
func (t *Trees) Tree(st *edits.State, partial bool) (*Recorded, error) {
	files := st.Files()
	unknown := slices.DeleteFunc(slices.Clone(files), func(f edits.File) bool { return f.Status != edits.Unknown })
	switch {
	case t.head == "" && len(unknown) == len(files):
		return nil, ErrNothingKnown
	case !partial && t.head == "":
		return nil, fmt.Errorf("%w: those that the session did not name, since no commit that it began with is known", ErrPartlyKnown)
	case !partial && len(unknown) > 0:
		return nil, fmt.Errorf("%w: %d of the %d that the session named, such as %s", ErrPartlyKnown, len(unknown), len(files), unknown[0].Path)
	}
	rec := &Recorded{Session: st.Turn.Session, Turn: st.Turn.ID, Folder: t.repo.Top, Head: t.head}
	all := make(map[string]entry, len(t.base.files)+len(files))
	maps.Copy(all, t.base.files)
	for _, f := range files {
		if why := t.addFile(all, &f); why != "" {
			rec.LeftOut++
			if len(rec.Left) < maxLeft {
				rec.Left = append(rec.Left, Left{f.Path, why})
			}
		}
	}
	list := make([]entry, 0, len(all))
	for _, f := range all {
		list = append(list, f)
	}
	objects, root := t.repo.trees(list)
	for _, o := range objects {
		t.add(o)
	}
	rec.Tree, rec.Files = root, len(list)
	return rec, nil
}

// addFile puts a file into the entries of a tree. It returns why it did not.
func (t *Trees) addFile(all map[string]entry, f *edits.File) (why string) {
	for i, c := range f.Path {
		if c != '/' {
			continue
		}
		switch dir, ok := all[f.Path[:i]]; {
		case !ok || f.Status == edits.Unknown || f.Deleted:
		case dir.mode == modeLink || dir.mode == modeCommit:
			return "its folder is a link or a submodule in the commit"
		default:
			delete(all, f.Path[:i])
		}
	}
	old, had := all[f.Path]
	switch {
	case f.Status == edits.Unknown:
		return "not known: " + f.Why.Text()
	case had && (old.mode == modeLink || old.mode == modeCommit):
		return "it is a link or a submodule in the commit"
	case f.Deleted:
		delete(all, f.Path)
		return ""
	case !had && isSecret(f.Path, f.Content):
		return "it looks like a secret"
	}
	if t.base.dirs[f.Path] {
		maps.DeleteFunc(all, func(p string, _ entry) bool { return strings.HasPrefix(p, f.Path+"/") })
	}
	o := object{"blob", []byte(f.Content)}
	e := entry{f.Path, modeFile, t.add(o)}
	if had && old.mode == modeExec {
		e.mode = modeExec
	}
	all[f.Path] = e
	return ""
}

// add keeps an object for git, once, and returns its id.
func (t *Trees) add(o object) string {
	id := t.repo.id(o)
	if !t.made[id] {
		t.made[id] = true
		t.objects = append(t.objects, o)
	}
	return id
}

// Write gives git the objects of all trees that were made. Nothing names them: git gc
// removes them after two weeks.
func (t *Trees) Write(ctx context.Context) error {
	if len(t.objects) == 0 {
		return nil
	}
	err := t.repo.write(ctx, t.objects)
	t.objects = nil
	return err
}

// At returns the state after the source's turn. [ErrNothingKnown] if the path has no turn.
func (s *Source) At(ctx context.Context) (*edits.State, error) {
	var last *edits.State
	for st, err := range s.States(ctx) {
		if err != nil {
			return nil, err
		}
		last = st
	}
	if last == nil {
		return nil, fmt.Errorf("%w: the session has no turns", ErrNothingKnown)
	}
	return last, nil
}

// Fill rebuilds the files of those turns of a path that have none. A turn of which files
// are not known keeps none.
func (s *Source) Fill(ctx context.Context, path []PathTurn) error {
	t, err := s.NewTrees(ctx)
	if err != nil {
		return err
	}
	i := 0
	for st, err := range s.States(ctx) {
		if err != nil {
			return err
		}
		for i < len(path) && path[i].ID != st.Turn.ID {
			i++
		}
		if i == len(path) {
			break
		}
		if path[i].Files != nil {
			continue
		}
		rec, err := t.Tree(st, false)
		switch {
		case errors.Is(err, ErrPartlyKnown) || errors.Is(err, ErrNothingKnown):
		case err != nil:
			return err
		default:
			path[i].Files = rec
		}
	}
	return t.Write(ctx)
}
