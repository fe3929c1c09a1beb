package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
	"nexus/turns/interchange"
)

// report is what the import of one file did.
type report struct {
	File        string             `json:"file"`
	Format      string             `json:"format"`
	Sessions    []turns.ID         `json:"sessions"`
	Turns       int                `json:"turns"`
	Split       int                `json:"split,omitzero"` // of the turns: several turns of the ledger hold each
	Forks       int                `json:"forks"`
	Compactions int                `json:"compactions"`
	Stored      int                `json:"stored"`
	Existing    int                `json:"existing"`
	KeptFirst   int                `json:"kept_first"`
	Losses      []interchange.Loss `json:"losses"`
	Error       string             `json:"error,omitzero"` // why it ended before the end of the file
}

// transcriptSource is a file and how it is read.
type transcriptSource struct {
	name   string
	final  bool
	copied bool // read the copied history of a fork, since the ledger lacks its parent
	grown  bool // import an export of this ledger as any transcript, since it has more in it
}

// exportPrefix begins an export of raw events.
const exportPrefix = `{"nexus_export":`

// archivePrefix begins the archive of a compaction.
const archivePrefix = `{"nexus_archive":`

// gzipPrefix begins what gzip compressed.
const gzipPrefix = "\x1f\x8b"

func formatNames() string {
	names := []string{"auto"}
	for _, f := range interchange.Formats() {
		names = append(names, f.Name)
	}
	return strings.Join(append(names, "jsonl"), ", ")
}

// importer imports files. window is the context window of the sessions that it opens,
// in tokens; 0: the default.
type importer struct {
	c      *api.Client
	stdin  io.Reader
	format string
	final  bool          // files will not grow
	settle time.Duration // after so long without a write, a file will not grow either; 0: any may
	window uint64
	splits splitTurns
	read   func(int) // called with the number of bytes that were read; nil: not called
}

func importCmd(e *env) *cobra.Command {
	im := importer{stdin: e.in}
	var losses bool
	c := verb("import FILE|DIR…", "bring transcripts in; again stores nothing twice", 1, -1, func(cmd *cobra.Command, args []string) (err error) {
		files, size, err := findTranscripts(args)
		if err != nil {
			return err
		}
		if im.c, err = e.client("main"); err != nil {
			return err
		}
		if !cmd.Flags().Changed("final") {
			im.settle = settleTime
		}
		bar := e.progress(size, "importing", progressbar.OptionShowBytes(true))
		im.read = func(n int) { _ = bar.Add(n) }
		defer bar.Close()
		all := importReport{e: e, each: losses, files: len(files)}
		for i, o := range im.importFiles(cmd.Context(), files) {
			f, r, err := files[i], o.report, o.err
			if f.special {
				all.special = append(all.special, f.name)
				all.files--
				continue
			}
			_ = bar.Clear()
			var unknown unknownFormat
			switch {
			case cmd.Context().Err() != nil, coded(err, api.Unavailable) && len(files) > 1:
				e.say("stopped after %s of %s; the same command goes on from here", grouped(uint64(i)), plural(uint64(len(files)), "file"))
				return err
			case f.searched && errors.As(err, &unknown):
				all.unrecognized, err = append(all.unrecognized, f.name), nil
			case err != nil:
				err = all.fail(f.name, r, err, plainly(cmd, err))
			default:
				err = all.add(r, im.final || im.isSettled(f.name))
			}
			if err != nil {
				return err
			}
		}
		return all.end()
	})
	c.Flags().BoolVar(&im.final, "final", false, "the files will not grow: take the turns at their ends too")
	c.Flags().BoolVar(&losses, "losses", false, "list each loss")
	c.Flags().StringVar(&im.format, "format", "auto", formatNames())
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(strings.Split(formatNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// inputFile is a file to import. searched says that it was found in a folder; special,
// that it is one of a folder which is not to be read: a pipe, a socket, a device, or a
// link to one or to a folder. To open a pipe that nobody writes to would take for ever.
type inputFile struct {
	name              string
	searched, special bool
}

// findTranscripts returns the files that args name, those in folders included, and their
// size in bytes. A file that args name itself is never special.
func findTranscripts(args []string) (files []inputFile, size int64, err error) {
	for _, a := range args {
		if a == "-" {
			files = append(files, inputFile{name: a})
			continue
		}
		st, err := os.Stat(a)
		if err != nil {
			return nil, 0, usageError{err}
		}
		if !st.IsDir() {
			files, size = append(files, inputFile{name: a}), size+st.Size()
			continue
		}
		n := len(files)
		err = filepath.WalkDir(a, func(name string, d fs.DirEntry, err error) error {
			if err != nil { // it is among those that fail
				files = append(files, inputFile{name: name, searched: true})
				return nil
			}
			if d.IsDir() || !slices.Contains([]string{".jsonl", ".json"}, filepath.Ext(name)) {
				return nil
			}
			f := inputFile{name: name, searched: true}
			if st, err := os.Stat(name); err == nil { // else the import of it says why
				if f.special = !st.Mode().IsRegular(); !f.special {
					size += st.Size()
				}
			}
			files = append(files, f)
			return nil
		})
		if err != nil {
			return nil, 0, usageError{err}
		}
		if len(files) == n {
			return nil, 0, usageError{fmt.Errorf("%s holds no .jsonl or .json file", a)}
		}
	}
	return files, size, nil
}

type unknownFormat struct{}

func (unknownFormat) Error() string {
	return "the format is none of " + strings.TrimPrefix(formatNames(), "auto, ")
}

// file imports one file. It reads a fork of a session that the ledger lacks again, with
// the history that the fork copied, and an export of this ledger that another program
// continued as any transcript.
func (im *importer) file(ctx context.Context, name string) (*report, error) {
	how := transcriptSource{name: name, final: im.final || im.isSettled(name)}
	r, err := im.once(ctx, how)
	for !isStream(name) && (errors.Is(err, errNoParent) && !how.copied || errors.Is(err, errGrown) && !how.grown) {
		how.copied, how.grown = how.copied || errors.Is(err, errNoParent), how.grown || errors.Is(err, errGrown)
		r, err = im.once(ctx, how)
	}
	return r, err
}

// settleTime is how long a file that will not grow has been left alone. An agent that
// waits for its model or for a tool writes sooner.
const settleTime = time.Hour

// isStream reports whether a file can be read once only, like standard input or a pipe.
func isStream(name string) bool {
	if name == "-" {
		return true
	}
	st, err := os.Stat(name)
	return err == nil && !st.Mode().IsRegular()
}

// isSettled reports whether nobody has written to a file for a while.
func (im *importer) isSettled(name string) bool {
	st, err := os.Stat(name)
	return im.settle > 0 && err == nil && st.Mode().IsRegular() && time.Since(st.ModTime()) > im.settle
}

func (im *importer) once(ctx context.Context, how transcriptSource) (*report, error) {
	in, err := openTranscript(how.name, im.stdin, im.format, im.read)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r := &report{File: how.name, Format: in.format.Name, Sessions: []turns.ID{}, Losses: []interchange.Loss{}}
	if in.format.Open == nil {
		return r, importExport(ctx, im.c, in.Reader, r)
	}
	return r, im.steps(ctx, in.format.Open(in, interchange.Options{Final: how.final, Copied: how.copied}), how.grown || isStream(how.name), r)
}

// transcript is an open file, and the format that it is in.
type transcript struct {
	*bufio.Reader
	format interchange.Format
	file   *os.File // nil: standard input
}

// Close closes the file; standard input stays open.
func (t *transcript) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// openTranscript opens a file, - for stdin, and detects its format. read is called with
// the number of bytes that were read; it may be nil.
func openTranscript(name string, stdin io.Reader, form string, read func(int)) (*transcript, error) {
	t := new(transcript)
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		in, t.file = f, f
	}
	t.Reader = bufio.NewReaderSize(backup.Counted{Reader: in, Count: read}, 1<<20)
	var err error
	if t.Reader, err = gunzipped(t.Reader); err != nil {
		return nil, errors.Join(usageError{fmt.Errorf("%s: %w", name, err)}, t.Close())
	}
	if t.format, err = detect(t.Reader, form); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// gunzipped returns the content of r, without gzip's compression if it has that.
func gunzipped(r *bufio.Reader) (*bufio.Reader, error) {
	if head, err := r.Peek(2); err != nil || string(head) != gzipPrefix {
		return r, nil // its reader tells what is wrong
	}
	z, err := gzip.NewReader(r)
	return bufio.NewReaderSize(z, 1<<20), err
}

// detect returns the format of the name, and for auto the first that recognizes the
// beginning of br. The format jsonl has no Open: an export holds events, not steps.
func detect(br *bufio.Reader, name string) (interchange.Format, error) {
	head, err := br.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return interchange.Format{}, err
	}
	if strings.HasPrefix(string(head), archivePrefix) {
		return interchange.Format{}, usageError{errors.New("the archive of a compaction has a part of a session; import the archive of the whole session, or an export")}
	}
	auto := name == "auto"
	if name == "jsonl" || auto && strings.HasPrefix(string(head), exportPrefix) {
		return interchange.Format{Name: "jsonl"}, nil
	}
	for _, f := range interchange.Formats() {
		if f.Name == name || auto && f.Sniff(head) {
			return f, nil
		}
	}
	if !auto {
		return interchange.Format{}, usageError{fmt.Errorf("format %q is none of %s", name, formatNames())}
	}
	return interchange.Format{}, usageError{unknownFormat{}}
}

// errNoParent: the session that a transcript was forked from is not in the ledger.
var errNoParent = errors.New("the session that it was forked from is not in the ledger")

// errGrown: an export of ours holds what is not in the ledger.
var errGrown = errors.New("an export of this ledger, with more in it")

// steps does the steps of a transcript in order. Those before an error stay; doing them
// again stores nothing. all says to store an export of this ledger too, which otherwise is
// not stored a second time.
func (im *importer) steps(ctx context.Context, r *interchange.Reader, all bool, rep *report) error {
	var own turns.ID
	for st, err := range r.Steps() {
		if err != nil {
			return err
		}
		if first := len(rep.Sessions) == 0 && own.IsZero(); first && !all && st.Open != nil {
			if own, err = im.exportedSession(ctx, st.Open.Meta); err != nil {
				return err
			}
		}
		if !own.IsZero() {
			if !isOwnStep(st) {
				return errGrown
			}
			rep.Existing++
			continue
		}
		dup, err := im.step(ctx, st, rep)
		switch {
		case errors.As(err, new(otherAgentError)):
			return err
		case coded(err, api.TooLarge) && st.Append != nil:
			return tooLargeTurn(st.Append, rep.Turns, err)
		case coded(err, api.IDReused):
			rep.KeptFirst++
			rep.Losses = append(rep.Losses, interchange.Loss{Kind: "kept_first", Reason: "an earlier import stored this record with other content; that one stays", Record: st.ID().String()})
		case err != nil:
			return err
		case dup:
			rep.Existing++
		default:
			rep.Stored++
		}
	}
	if !own.IsZero() {
		rep.Sessions = append(rep.Sessions, own)
		rep.Losses = append(rep.Losses, interchange.Loss{Kind: "skipped", Reason: "an export of a session of this ledger, which holds all of it", Record: own.String()})
		return nil
	}
	rep.Losses = append(rep.Losses, r.Losses()...)
	return im.titles(ctx, r.Titles(), rep)
}

// tooLargeTurn says which turn of a file is larger than a turn may be. What follows it in
// the file is not stored either, since it would follow another turn. n counts from 1.
func tooLargeTurn(a *interchange.Append, n int, err error) error {
	largest := 0
	messages := a.Messages
	if a.Response != nil {
		messages = append(slices.Clip(messages), *a.Response)
	}
	for _, m := range messages {
		for _, p := range m.Parts {
			largest = max(largest, len(p.ContentBytes()))
		}
	}
	at := ""
	if !a.Time.IsZero() {
		at = " (" + a.Time.UTC().Format(time.RFC3339) + ")"
	}
	err = fmt.Errorf("turn %d of the file%s, with a part of %s bytes, and what follows it are not stored: %w", n, at, grouped(uint64(largest)), err)
	if largest > turns.MaxPart {
		return err
	}
	return hinted{err, "a NATS server with a larger max_payload takes more beside the content of large parts"}
}

// writerMeta is the part of a step's meta that names its writer.
type writerMeta struct {
	Session string `json:"session_id"`
	Version string `json:"version"` // if it differs from that of the step before
}

// exportedSession returns the session of this ledger that export --format claude-code
// wrote the transcript from; zero for any other transcript.
func (im *importer) exportedSession(ctx context.Context, meta turns.Raw) (turns.ID, error) {
	var by writerMeta
	if err := json.Unmarshal(meta, &by); err != nil || by.Version != interchange.Writer {
		return turns.ID{}, nil
	}
	u, err := uuid.Parse(by.Session)
	if err != nil {
		return turns.ID{}, nil
	}
	if had, err := im.has(ctx, turns.ID(u)); !had || err != nil {
		return turns.ID{}, err
	}
	return turns.ID(u), nil
}

// isOwnStep reports whether export wrote a step, not another program.
func isOwnStep(st interchange.Step) bool {
	var meta turns.Raw
	switch {
	case st.Append != nil:
		meta = st.Append.Meta
	case st.Open != nil:
		meta = st.Open.Meta
	case st.Fork != nil:
		return false // an export is one path
	}
	var by writerMeta
	err := json.Unmarshal(meta, &by)
	return len(meta) == 0 || err == nil && (by.Version == "" || by.Version == interchange.Writer)
}

// titles stores the titles of sessions in their meta, at the end: a transcript states
// them late and changes them. Each title is stored once, so that one which was set by
// hand later stays.
func (im *importer) titles(ctx context.Context, titles map[turns.ID]string, rep *report) error {
	for _, id := range slices.Compact(slices.SortedFunc(slices.Values(rep.Sessions), turns.ID.Compare)) {
		title := titles[id]
		if title == "" {
			continue
		}
		s, err := im.c.Session(ctx, id)
		if err != nil {
			return err
		}
		meta := make(map[string]turns.Raw)
		if err := json.Unmarshal(s.Meta, &meta); len(s.Meta) > 0 && err != nil {
			return err
		}
		if was, _ := meta["title"].Text(); was == title || s.State != "open" {
			continue
		}
		meta["title"] = turns.RawText(title)
		r := api.SetSession{ID: turns.DeriveID(id.Time(), "import", "title", id.String(), title)}
		if r.Meta, err = turns.EncodeJSON(meta); err != nil {
			return err
		}
		now, err := im.c.Set(ctx, id, r)
		switch {
		case coded(err, api.IDReused): // this title was there, and meta is another since
		case err != nil:
			return err
		case now.Hash != s.Hash:
			rep.Stored++
		}
	}
	return nil
}

// step does one step. dup says that it was done before.
func (im *importer) step(ctx context.Context, st interchange.Step, rep *report) (dup bool, err error) {
	switch {
	case st.Open != nil:
		rep.Sessions = append(rep.Sessions, st.Open.ID)
		had, err := im.has(ctx, st.Open.ID)
		if err == nil {
			err = im.ownID(ctx, st.Open.ID, im.open(ctx, st.Open, rep))
		}
		return had, err
	case st.Fork != nil:
		rep.Forks++
		rep.Sessions = append(rep.Sessions, st.Fork.ID)
		had, err := im.has(ctx, st.Fork.ID)
		if err != nil {
			return false, err
		}
		_, err = im.c.Fork(ctx, st.Fork.At.Session, api.CreateFork{ID: st.Fork.ID, Turn: im.splits.last(st.Fork.At.Turn), Meta: st.Fork.Meta})
		if coded(err, api.NotFound) {
			err = fmt.Errorf("%w: %w", errNoParent, err)
		}
		return had, im.ownID(ctx, st.Fork.ID, err)
	case st.Append != nil:
		rep.Turns++
		dup, err := im.append(ctx, st.Append, rep)
		if p, split := im.splits[st.Append.ID]; split && p.first != p.last {
			rep.Split++
		}
		return dup, err
	default:
		rep.Compactions++
		return im.compaction(ctx, st.Compaction, rep)
	}
}

// otherAgentError says that another agent of the ledger has a session of a transcript.
// The ids of a transcript are the same for all agents, so only the first agent of
// the ledger that imports it, of any tenant, can have them.
type otherAgentError struct{ refused *api.Error }

func (e otherAgentError) Error() string { return e.refused.Error() }

func (e otherAgentError) Unwrap() error {
	return hinted{e.refused, "import it as that agent (--tenant and --agent), or into another ledger (--server)"}
}

// ownID returns err, or an otherAgentError if err says that the id of a session is used
// and the agent has no such session.
func (im *importer) ownID(ctx context.Context, session turns.ID, err error) error {
	if !coded(err, api.IDReused) {
		return err
	}
	switch own, lookup := im.has(ctx, session); {
	case lookup != nil:
		return lookup
	case own:
		return err
	}
	return otherAgentError{api.Errorf(api.IDReused, nil, "session %s of this transcript belongs to another agent of the ledger", session)}
}

// has reports whether the agent has a session.
func (im *importer) has(ctx context.Context, id turns.ID) (bool, error) {
	_, err := im.c.Session(ctx, id)
	if coded(err, api.NotFound) {
		return false, nil
	}
	return err == nil, err
}

func (im *importer) open(ctx context.Context, o *interchange.Open, rep *report) error {
	r := api.CreateSession{ID: o.ID}
	r.Meta, r.Model = o.Meta, &o.Model
	if len(o.System) > 0 {
		r.System = (*api.System)(&o.System)
	}
	if len(o.Tools) > 0 {
		r.Tools = &o.Tools
	}
	if im.window > 0 {
		r.Limits = &turns.Limits{ContextWindow: im.window}
	}
	if sp := o.SpawnedBy; !sp.IsZero() {
		r.SpawnedBy = &api.SpawnedBy{Session: sp.Session, Turn: sp.Turn}
	}
	_, err := im.c.Create(ctx, r)
	if coded(err, api.NotFound) && r.SpawnedBy != nil {
		rep.Losses = append(rep.Losses, interchange.Loss{Kind: "repaired", Reason: "the session that spawned it is not in the ledger; meta names it", Record: o.ID.String()})
		r.SpawnedBy = nil
		_, err = im.c.Create(ctx, r)
	}
	return err
}

// claimedTime returns a time that a source states, nil if an event can't hold it.
func claimedTime(t time.Time) *api.Time {
	if _, ok := api.Time(t).UnixNano(); !ok {
		return nil
	}
	return (*api.Time)(&t)
}

func (im *importer) compaction(ctx context.Context, k *interchange.Compaction, rep *report) (dup bool, err error) {
	r := api.RecordCompaction{ID: k.ID, Parent: im.splits.last(k.Parent), Time: claimedTime(k.Time), Trigger: k.Trigger, Replacement: k.Replacement, Summary: k.Summary,
		FirstKept: im.splits.first(k.FirstKept), TokensBefore: k.TokensBefore, Dropped: k.Dropped, Meta: k.Meta}
	for _, x := range k.Cleared {
		at, err := im.turnOfResult(ctx, k.Session, x)
		if err != nil {
			return false, err
		}
		r.Cleared = append(r.Cleared, api.ClearedResult{Turn: at, Call: x.Call})
	}
	t, err := im.c.Record(ctx, k.Session, r)
	reason := ""
	switch {
	case err == nil:
		return t.Duplicate, nil
	case errors.Is(err, api.ErrNothing):
		reason = "a recorded compaction that covers nothing"
	case coded(err, api.Conflict): // an earlier import skipped it, and went on
		reason = "a recorded compaction, after which something else follows in the ledger"
	default:
		return false, err
	}
	im.addSplit(k.ID, r.Parent, r.Parent) // what follows it follows its parent
	rep.Losses = append(rep.Losses, interchange.Loss{Kind: "skipped", Reason: reason, Record: k.ID.String()})
	return true, nil
}

// archiveLine is a line of an export, or of an archive: there a turn comes with what a
// person can read of it.
type archiveLine struct {
	Archive *archiveHeader `json:"nexus_archive,omitempty,omitzero"`
	api.ExportRecord
	Turn turns.Raw `json:"turn,omitzero"`
}

// archiveHeader opens the archive of a compaction.
type archiveHeader struct {
	Version    int      `json:"version"`
	Ledger     string   `json:"ledger"`
	Session    turns.ID `json:"session"`
	Compaction turns.ID `json:"compaction"`
}

// importExport imports an export of raw events.
func importExport(ctx context.Context, c *api.Client, r *bufio.Reader, rep *report) error {
	b := batches{c: c, rep: rep}
	first := 1 // line of the first record that is not sent yet
	for line := 1; ; line++ {
		text, err := r.ReadBytes('\n')
		if len(text) > 1 {
			var x archiveLine
			if err := turns.DecodeJSON(text, &x); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			if x.Ledger != nil {
				rep.Sessions = append(rep.Sessions, x.Ledger.Session)
			}
			if err := b.add(ctx, x.ExportRecord, len(text)); err != nil {
				return fmt.Errorf("lines %d to %d: %w", first, line-1, err)
			}
			if len(b.records) == 1 {
				first = line
			}
		}
		if err == io.EOF {
			if err := b.send(ctx); err != nil {
				return fmt.Errorf("lines from %d on: %w", first, err)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// batches sends the records of exports to a ledger, several in a request.
type batches struct {
	c       *api.Client
	rep     *report
	records []api.ExportRecord
	size    int // bytes
}

// batchBytes is how large a request of several records is, in bytes. NATS servers take
// messages of 1 MiB by default.
const batchBytes = 256 << 10

// add adds a record whose JSON has size bytes. It sends the records before it if a request
// has no room for all.
func (b *batches) add(ctx context.Context, r api.ExportRecord, size int) error {
	if b.size > 0 && b.size+size > batchBytes {
		if err := b.send(ctx); err != nil {
			return err
		}
	}
	b.records, b.size = append(b.records, r), b.size+size
	return nil
}

// send sends the records that are not sent yet.
func (b *batches) send(ctx context.Context) error {
	if len(b.records) == 0 {
		return nil
	}
	got, err := b.c.Import(ctx, b.records)
	if err == nil {
		b.rep.Stored += int(got.Stored)
		b.rep.Existing += int(got.Existing)
	}
	b.records, b.size = nil, 0
	return err
}
