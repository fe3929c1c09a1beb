package export

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// allExported is what export --all did.
type allExported struct {
	Folder    string        `json:"folder"`
	Sessions  int           `json:"sessions"`
	Channels  int           `json:"channels"`
	Memories  int           `json:"memories"`
	Policies  int           `json:"policies"`
	Unchanged int           `json:"unchanged"` // sessions and channels whose files had all of them already
	Failed    []failedChain `json:"failed"`    // what could not be exported
	Erased    []failedChain `json:"erased"`    // what nobody can read any more, as somebody asked for
}

// failedChain is a session, channel or agent that could not be exported.
type failedChain struct {
	What  string   `json:"what"`
	Code  api.Code `json:"code"`
	Error string   `json:"error"`
}

// allExport takes everything of a tenant out, into a folder. A file is written whole or
// not at all. So an export that was interrupted goes on: a file whose last event is the
// last of its chain is left as it is.
type allExport struct {
	c      *client.Client // of the operator
	dir    string
	agents map[string]bool // that have sessions or channels
	out    allExported
}

// All exports all sessions, channels of external events, memories and policies of
// the client's tenant. What fails is in the result, and stops nothing else.
func All(ctx context.Context, c *client.Client, dir string) (*allExported, error) {
	x := &allExport{c: c, dir: dir, agents: make(map[string]bool), out: allExported{Folder: dir, Failed: []failedChain{}, Erased: []failedChain{}}}
	for _, step := range []func(context.Context) error{x.sessions, x.channels, x.memories, x.policies} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return &x.out, nil
}

// chain writes the file of a chain, unless it ends with the event that has the hash.
func (x *allExport) chain(ctx context.Context, what, name string, hash turns.Hash, count *int, write func(io.Writer) error) error {
	name = filepath.Join(x.dir, name)
	if last, err := lastHash(name); err == nil && last == hash {
		*count++
		x.out.Unchanged++
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fault.Usage(err)
	}
	err := WriteFile(name, write)
	switch {
	case err == nil:
		*count++
	case x.ends(ctx, err):
		return err
	default:
		x.fail(what, err)
	}
	return nil
}

// ends reports whether an error is that of the whole export.
func (x *allExport) ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || api.HasCode(err, api.Unavailable) || api.HasCode(err, api.Denied) || errors.Is(err, fs.ErrPermission)
}

// fail lists what could not be exported. What was erased or redacted is no failure.
func (x *allExport) fail(what string, err error) {
	e := api.FromError(err)
	list := &x.out.Failed
	if e.Code == api.Erased {
		list = &x.out.Erased
	}
	*list = append(*list, failedChain{what, e.Code, e.Message})
}

func (x *allExport) sessions(ctx context.Context) error {
	for s, err := range x.c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil {
			return err
		}
		x.agents[s.Agent] = true
		name := filepath.Join("sessions", s.Agent, s.ID.String()+".jsonl")
		err := x.chain(ctx, "session "+s.ID.String(), name, s.Hash, &x.out.Sessions, func(w io.Writer) error { return Events(x.c.Export(ctx, s.ID), w) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *allExport) channels(ctx context.Context) error {
	for ch, err := range x.c.Channels(ctx) {
		if err != nil {
			return err
		}
		x.agents[ch.Agent] = true
		if ch.Error != "" {
			x.fail("channel "+ch.ID, &api.Error{Code: ch.Error, Message: "its name can't be read"})
			continue
		}
		name := filepath.Join("events", ch.Agent, ch.ID+".jsonl")
		var lost []api.Event // that have no content
		err := x.chain(ctx, "channel "+ch.ID, name, ch.Hash, &x.out.Channels, func(w io.Writer) error {
			var err error
			lost, err = writeEvents(w, x.c.As(ch.Agent).Events(ctx, api.ListEvents{Channel: ch.Channel, Raw: true}))
			return err
		})
		if err != nil {
			return err
		}
		for _, v := range lost {
			x.fail(fmt.Sprintf("event %s of channel %s", v.ID, ch.ID), noContent(v.Error))
		}
	}
	return nil
}

// memories writes the memories and the document of each agent. They are small, and
// written anew each time, of one pass over all of them.
func (x *allExport) memories(ctx context.Context) error {
	all := make(map[string][]api.Memory)
	for m, err := range x.c.Memories(ctx, api.ListMemories{Hidden: true}) {
		if err != nil {
			return err
		}
		x.agents[m.Agent] = true
		all[m.Agent] = append(all[m.Agent], m)
	}
	for _, agent := range slices.Sorted(maps.Keys(x.agents)) {
		err := x.file(filepath.Join("memories", agent+".jsonl"), func(w io.Writer) error {
			for _, m := range all[agent] {
				if err := WriteJSON(w, m); err != nil {
					return err
				}
			}
			return nil
		})
		var d *api.Document
		if err == nil {
			for _, m := range all[agent] {
				x.count(&x.out.Memories, "memory "+m.ID.String()+" of "+agent, m.Error)
			}
			d, err = x.c.Document(ctx, api.MemoryDocument{Agent: agent})
		}
		if err == nil && d.Text != "" {
			err = x.file(filepath.Join("memories", agent+".document.json"), func(w io.Writer) error { return WriteJSON(w, d) })
		}
		if err != nil && x.ends(ctx, err) {
			return err
		} else if err != nil {
			x.fail("memories of "+agent, err)
		}
	}
	return nil
}

// count counts what is exported, and lists what has an error in place of its content.
func (x *allExport) count(n *int, what string, code api.Code) {
	if code == "" {
		*n++
		return
	}
	x.fail(what, noContent(code))
}

func noContent(code api.Code) error {
	return &api.Error{Code: code, Message: "its content can't be read"}
}

// writeEvents writes each event as a line, and returns those without content.
func writeEvents(w io.Writer, all iter.Seq2[api.Event, error]) (lost []api.Event, err error) {
	for v, err := range all {
		if err != nil {
			return lost, err
		}
		if v.Error != "" {
			lost = append(lost, v)
		}
		if err := WriteJSON(w, v); err != nil {
			return lost, err
		}
	}
	return lost, nil
}

func (x *allExport) policies(ctx context.Context) error {
	all, err := x.c.Policies(ctx)
	if err != nil {
		return err
	}
	return x.file("policies.jsonl", func(w io.Writer) error {
		x.out.Policies = 0
		for _, p := range all {
			whole, err := x.c.Policy(ctx, api.GetPolicy{Name: p.Name, Version: p.Version})
			if err != nil {
				return err
			}
			x.out.Policies++
			if err := WriteJSON(w, whole); err != nil {
				return err
			}
		}
		return nil
	})
}

func (x *allExport) file(name string, write func(io.Writer) error) error {
	name = filepath.Join(x.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fault.Usage(err)
	}
	return WriteFile(name, write)
}

// lastHash returns the hash of the event on the last line of an exported chain. An event
// without content is an error: the next export reads the chain again.
func lastHash(name string) (turns.Hash, error) {
	f, err := os.Open(name)
	if err != nil {
		return turns.Hash{}, err
	}
	defer f.Close()
	var line, last []byte
	for r := bufio.NewReaderSize(f, 1<<20); ; {
		if line, err = r.ReadBytes('\n'); err == nil {
			last = append(last[:0], line...)
			if hasError(line) {
				return turns.Hash{}, fmt.Errorf("%s has an event without content", name)
			}
		} else if err == io.EOF && len(line) == 0 {
			break
		} else {
			return turns.Hash{}, errors.Join(err, fmt.Errorf("%s is cut off", name))
		}
	}
	var row struct {
		Event map[string]turns.Raw `json:"event"`
		Hash  turns.Raw            `json:"hash"`
	}
	var members map[string]turns.Raw
	if err := turns.DecodeJSON(bytes.TrimSpace(last), &members); err != nil {
		return turns.Hash{}, err
	}
	if row.Hash = members["hash"]; members["event"] != nil {
		if err := turns.DecodeJSON(members["event"], &row.Event); err != nil {
			return turns.Hash{}, err
		}
		row.Hash = row.Event["hash"]
	}
	text, _ := row.Hash.Text()
	return turns.ParseHash(text)
}

// hasError reports whether a line is an event with an error in place of its content.
func hasError(line []byte) bool {
	if !bytes.Contains(line, []byte(`"error"`)) {
		return false
	}
	var members map[string]turns.Raw
	return turns.DecodeJSON(bytes.TrimSpace(line), &members) == nil && members["error"] != nil
}

// manyOf is a number of things whose plural is many.
func manyOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return prose.Grouped(uint64(n)) + " " + many
}

// PrintAll prints what export --all did, and returns the error of what failed.
func PrintAll(term *terminal.Terminal, out *allExported) error {
	if term.JSON {
		if err := term.Print(out); err != nil {
			return err
		}
	} else {
		term.Tell("%s: %s, %s of events, %s, %s; %s unchanged", out.Folder, prose.Plural(uint64(out.Sessions), "session"), prose.Plural(uint64(out.Channels), "channel"),
			manyOf(out.Memories, "memory", "memories"), manyOf(out.Policies, "policy", "policies"), prose.Grouped(uint64(out.Unchanged)))
	}
	return printFailed(term, out)
}

// PrintPages prints what [AllPages] did.
func PrintPages(term *terminal.Terminal, out *allExported) error {
	if term.JSON {
		if err := term.Print(out); err != nil {
			return err
		}
	} else {
		term.Tell("%s: %s, and the index.html", out.Folder, prose.Plural(uint64(out.Sessions), "page"))
	}
	return printFailed(term, out)
}

// printFailed lists what failed, and returns the error of the first. What was erased is listed too.
func printFailed(term *terminal.Terminal, out *allExported) error {
	if n := len(out.Erased); n > 0 && !term.JSON {
		term.Tell("  %s of what there is was erased or redacted, which is no problem", prose.Grouped(uint64(n)))
		for _, f := range out.Erased {
			fmt.Fprintf(term.Out, "  %s: %s\n", f.What, prose.Printable(f.Error))
		}
	}
	for _, f := range out.Failed {
		if term.JSON {
			break
		}
		fmt.Fprintf(term.Out, "  %s %s: %s\n", terminal.Bad.Render(string(f.Code)), f.What, prose.Printable(f.Error))
	}
	if len(out.Failed) > 0 {
		return &api.Error{Code: out.Failed[0].Code, Message: fmt.Sprintf("%d of what there is could not be exported; the rest is in %s", len(out.Failed), out.Folder)}
	}
	return nil
}
