package codetree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Kind is the kind of the events that say which files there were after a turn.
const Kind = "code.tree"

// Channel returns the channel of a session's events.
func Channel(session turns.ID) string { return "code." + session.String() }

// Ref returns the ref that keeps the files of a session.
func Ref(session turns.ID) string { return refPrefix + session.String() }

// Recorded says which files a folder had after a turn. It is the body of an event, and
// stands in the message of the commit.
type Recorded struct {
	Session turns.ID  `json:"session"`
	Turn    turns.ID  `json:"turn"`
	Folder  string    `json:"folder"`            // the working files' top
	Tree    string    `json:"tree"`              // of git: the files, byte for byte
	Head    string    `json:"head,omitzero"`     // the commit of HEAD; empty: none yet
	Branch  string    `json:"branch,omitzero"`   // of HEAD; empty: detached
	Time    time.Time `json:"time"`              // when the folder was read
	Files   int       `json:"files"`             //
	Left    []Left    `json:"left,omitempty"`    // at most maxLeft
	LeftOut int       `json:"left_out,omitzero"` // how many there were
	Commit  string    `json:"commit,omitzero"`   // that holds the tree; not in its own message
}

// maxLeft bounds how many files that were left out are named.
const maxLeft = 100

// Recorder records folders. Make one with [NewRecorder]. Safe for concurrent use.
type Recorder struct {
	client *client.Client
	limits Limits
	step   func(string) // tests end the process there

	mu      sync.Mutex
	folders map[string]*folder  // by their tops
	stored  map[turns.ID]string // by session: the last commit whose event is in the ledger
}

// folder serialises the recordings of one folder.
type folder struct {
	mu   sync.Mutex
	had  hashes
	used time.Time
}

// NewRecorder returns a recorder that stores events through c.
func NewRecorder(c *client.Client, l Limits) *Recorder {
	return &Recorder{client: c, limits: l.orDefaults(), step: func(string) {}, folders: make(map[string]*folder), stored: make(map[turns.ID]string)}
}

// ErrMoved says that the agent went on while its folder was read: the files may be of a
// later turn, and nothing was recorded.
var ErrMoved = errors.New("the agent went on while its folder was read")

// Capture is the files of a folder at one moment. git has them, and nothing names them yet.
type Capture struct {
	r    *Recorder
	repo *Repository
	rec  Recorded
}

// Capture reads the files of the repository that dir is in, and gives git what it lacks of
// them. same is asked after they were read: whether the agent has done nothing meanwhile.
// Errors: those of [Open], [ErrTooMuch], [ErrMoved].
func (r *Recorder) Capture(ctx context.Context, dir string, same func() bool) (*Capture, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limits.Time)
	defer cancel()
	repo, err := Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	f := r.folderOf(repo.Top)
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &Capture{r: r, repo: repo, rec: Recorded{Folder: repo.Top, Time: time.Now().UTC()}}
	t, err := repo.snapshot(ctx, r.limits, f.had)
	if err != nil {
		return nil, err
	}
	r.step("read")
	if c.rec.Head, err = repo.resolve(ctx, "HEAD^{commit}"); err != nil {
		return nil, err
	}
	if out, err := repo.git(ctx, nil, "symbolic-ref", "--short", "--quiet", "HEAD"); err == nil {
		c.rec.Branch = strings.TrimSpace(out)
	}
	if !same() {
		return nil, ErrMoved
	}
	c.rec.Tree, c.rec.Files, c.rec.LeftOut, c.rec.Left = t.id, t.files, len(t.left), t.left[:min(len(t.left), maxLeft)]
	if err := repo.write(ctx, t.objects); err != nil {
		return nil, err
	}
	r.step("written")
	return c, nil
}

// Record records the files as those after a turn. The files of a turn may be recorded
// again; the last recording counts. On return the ref and the event are stored.
func (c *Capture) Record(ctx context.Context, at turns.Ref) (*Recorded, error) {
	r, rec := c.r, c.rec
	ctx, cancel := context.WithTimeout(ctx, r.limits.Time)
	defer cancel()
	rec.Session, rec.Turn = at.Session, at.Turn
	tip, err := c.repo.resolve(ctx, Ref(at.Session))
	if err != nil {
		return nil, err
	}
	if tip != "" {
		before, err := c.repo.recordedIn(ctx, tip)
		if err != nil {
			return nil, err
		}
		if err := r.store(ctx, before); err != nil { // a crash may have come before its event
			return nil, c.removeErased(ctx, at.Session, err)
		}
		if before.Turn == rec.Turn && before.Tree == rec.Tree && before.Head == rec.Head {
			return before, nil
		}
	}
	if err := c.repo.commit(ctx, &rec, tip); err != nil {
		return nil, err
	}
	r.step("moved")
	if err := r.store(ctx, &rec); err != nil {
		return &rec, c.removeErased(ctx, at.Session, err)
	}
	return &rec, nil
}

// removeErased removes the ref of a session that was erased meanwhile, as err says; with any other err it does nothing. It returns err.
func (c *Capture) removeErased(ctx context.Context, session turns.ID, err error) error {
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.Erased {
		_, removing := c.repo.RemoveRef(ctx, session)
		err = errors.Join(err, removing)
	}
	return err
}

func (r *Recorder) folderOf(top string) *folder {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 16 // folders whose hashes are in memory
	f := r.folders[top]
	if f == nil {
		if len(r.folders) >= most {
			oldest := ""
			for name, x := range r.folders {
				if oldest == "" || x.used.Before(r.folders[oldest].used) {
					oldest = name
				}
			}
			delete(r.folders, oldest)
		}
		f = &folder{had: make(hashes)}
		r.folders[top] = f
	}
	f.used = time.Now()
	return f
}

// write gives git objects. It stores those that it lacks.
func (r *Repository) write(ctx context.Context, objects []object) error {
	pack, err := r.pack(objects)
	if err == nil {
		_, err = r.git(ctx, bytes.NewReader(pack), "unpack-objects", "-q")
	}
	return err
}

// commit writes a commit that holds the tree, and moves the ref of the session from tip to
// it.
func (r *Repository) commit(ctx context.Context, rec *Recorded, tip string) error {
	body, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	var c bytes.Buffer
	fmt.Fprintf(&c, "tree %s\n", rec.Tree)
	for _, p := range []string{tip, rec.Head} {
		if p != "" {
			fmt.Fprintf(&c, "parent %s\n", p)
		}
	}
	who := fmt.Sprintf("Nexus <nexus@localhost> %d +0000", rec.Time.Unix())
	fmt.Fprintf(&c, "author %s\ncommitter %s\n\nFiles after turn %s\n\n%s%s\n", who, who, rec.Turn, recordedLine, body)
	commit := object{"commit", c.Bytes()}
	if err := r.write(ctx, []object{commit}); err != nil {
		return err
	}
	id := r.id(commit)
	none := strings.Repeat("0", len(id))
	if err := r.updateRef(ctx, rec.Session, Ref(rec.Session), id, cmp.Or(tip, none)); err != nil {
		return err
	}
	rec.Commit = id
	return nil
}

// updateRef runs git update-ref for the ref of a session. A git that is killed while it moves a ref leaves its lock: it gets the
// time that it takes.
func (r *Repository) updateRef(ctx context.Context, session turns.ID, args ...string) error {
	safe, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	args = append([]string{"update-ref", "--no-deref"}, args...)
	_, err := r.git(safe, nil, args...)
	if err != nil && r.removeOldLock(session) {
		_, err = r.git(safe, nil, args...)
	}
	return err
}

// HasRef reports whether the repository has a ref that keeps files of a session.
func (r *Repository) HasRef(ctx context.Context, session turns.ID) (bool, error) {
	id, err := r.resolve(ctx, Ref(session))
	return id != "", err
}

// RemoveRef removes the ref that keeps the files of a session, and no other. had reports whether there was one. The objects stay
// until git gc --prune=now, or the next gc after git's own grace time, removes them.
func (r *Repository) RemoveRef(ctx context.Context, session turns.ID) (had bool, err error) {
	if had, err = r.HasRef(ctx, session); err != nil || !had {
		return false, err
	}
	return true, r.updateRef(ctx, session, "-d", Ref(session))
}

// lockAge is how old the lock of a session's ref is when no git can be at work under it.
const lockAge = time.Minute

// removeOldLock removes the lock that a git which was killed left on a ref of ours.
func (r *Repository) removeOldLock(session turns.ID) bool {
	name := filepath.Join(r.common, filepath.FromSlash(Ref(session))+".lock")
	st, err := os.Lstat(name)
	if err != nil || !st.Mode().IsRegular() || time.Since(st.ModTime()) < lockAge {
		return false
	}
	err = os.Remove(name)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// recordedLine begins the line of a commit's message that has its [Recorded].
const recordedLine = "Nexus-Recorded: "

// recordedIn reads what a commit of ours says.
func (r *Repository) recordedIn(ctx context.Context, commit string) (*Recorded, error) {
	text, err := r.git(ctx, nil, "cat-file", "commit", commit)
	if err != nil {
		return nil, err
	}
	_, line, ok := strings.Cut(text, "\n"+recordedLine)
	line, _, _ = strings.Cut(line, "\n")
	rec := new(Recorded)
	if err := json.Unmarshal([]byte(line), rec); !ok || err != nil {
		return nil, fmt.Errorf("commit %s below %s is none of Nexus", commit, refPrefix)
	}
	rec.Commit = commit
	return rec, nil
}

// store stores the event of a commit, once: its id comes from the commit.
func (r *Recorder) store(ctx context.Context, rec *Recorded) error {
	r.mu.Lock()
	had := r.stored[rec.Session] == rec.Commit
	r.mu.Unlock()
	if had {
		return nil
	}
	body, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	at := api.Time(rec.Time)
	_, err = r.client.AppendEvent(ctx, api.AppendEvent{ID: turns.DeriveID(rec.Time, "code.tree", rec.Session.String(), rec.Commit), Channel: Channel(rec.Session), Kind: Kind, Body: body, Time: &at})
	if err != nil {
		return err
	}
	r.step("stored")
	r.mu.Lock()
	r.stored[rec.Session] = rec.Commit
	r.mu.Unlock()
	return nil
}
