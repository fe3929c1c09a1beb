package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/edits"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/secrets"
)

const codeManual = `ledgerctl code SESSION|TURN [--show PATH] [--repo DIR] [--base COMMIT]
               [--folder DIR] [--transcript FILE]

What is known of the files after a turn. It writes nothing. Where watch --code
or a hook recorded them, it names the recording. Else the files are rebuilt from
the edits and reads of the transcript (of Claude Code, Codex, pi, Gemini CLI):

  exact     the transcript shows the whole content, and nothing came since that
            may have changed it
  recorded  as last recorded: a command, a user's message or another agent came
            since, or one step is likely and not certain
  unknown   the session changed it, and what is in it is not known

Files that the session did not name are those of the commit that it began with,
if that is known and the repository has it. An editor beside the agent, or a
hook that formats files, is in no transcript, and is not seen.

  --show PATH    print the content of one file, as far as it is known; with
                 credentials masked on a terminal
  --repo DIR     the git repository (else: the one that the agent worked in)
  --base COMMIT  the commit that the session began with (else: as Codex states)
  --folder DIR   where the agent worked, as the transcript writes it (else: as
                 the session states it)
  --transcript FILE
                 the file that was imported, of Claude Code: it has what files
                 held before each edit, and more is exact

Examples
  ledgerctl code support-42@30
  ledgerctl code support-42@30 --show main.txt
  ledgerctl code support-42 --repo ~/src/shop --base main~3 --json
`

// codeResult is what code says as JSON.
type codeResult struct {
	Turn     turns.ID           `json:"turn"`
	Depth    uint64             `json:"depth"`
	Recorded *codetree.Recorded `json:"recorded,omitempty"` // then the rest is empty
	Folder   string             `json:"folder,omitempty"`
	Base     string             `json:"base,omitempty"`
	Others   edits.Reason       `json:"others,omitempty"` // what may have changed files that the session did not name
	Since    uint64             `json:"others_since,omitempty"`
	Files    []edits.File       `json:"files,omitempty"`
	Refused  []edits.Refused    `json:"refused,omitempty"`
	RefusedN int                `json:"refused_count,omitempty"`
}

func codeCmd(e *env) *cobra.Command {
	var show string
	var w codetree.Where
	c := verb("code SESSION|TURN", "what is known of the files after a turn", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		path, err := codetree.Path(ctx, p.Client, p.Session.ID, p.Turn)
		if err != nil {
			return err
		}
		if n := len(path); n > 0 && path[n-1].Files != nil {
			if show != "" {
				return fault.Usage(errors.New("--show is for files that are rebuilt; these were recorded: git show TREE:PATH prints them"))
			}
			rec := path[n-1].Files
			return e.Result(codeResult{Turn: path[n-1].ID, Depth: path[n-1].Depth, Recorded: rec}, "@%d: %s recorded, tree %s in %s", path[n-1].Depth, prose.Plural(uint64(rec.Files), "file"), rec.Tree, prose.Printable(rec.Folder))
		}
		src, err := codetree.NewSource(ctx, p.Client, p.Session.ID, p.Turn, w)
		if err != nil {
			return codeHint(err)
		}
		st, err := src.At(ctx)
		if err != nil {
			return codeHint(err)
		}
		files := st.Files()
		if show != "" {
			return e.showFile(files, show)
		}
		if e.JSON {
			return e.Print(codeResult{Turn: st.Turn.ID, Depth: st.Turn.Depth, Folder: src.Folder, Base: src.Base, Others: st.Others, Since: st.OthersSince, Files: files, Refused: st.Refused, RefusedN: st.RefusedAll})
		}
		e.Tell("@%d: %s in %s", st.Turn.Depth, knownCount(st), prose.Printable(src.Folder))
		var rows [][]string
		for _, f := range files {
			size := strconv.Itoa(len(f.Content))
			if f.Deleted || f.Status == edits.Unknown {
				size = "-"
			}
			what := prose.Printable(f.Path)
			if f.Deleted {
				what += " (deleted)"
			}
			if f.Why != "" {
				what += ": " + f.Why.Text()
			}
			rows = append(rows, []string{string(f.Status), fmt.Sprintf("@%d", f.Since), size, what})
		}
		if len(rows) > 0 {
			if _, err := io.WriteString(e.Out, e.Table([]terminal.Column{{Head: "known"}, {Head: "since", Right: true}, {Head: "bytes", Right: true}, {Head: "file", Wraps: true}}, rows)); err != nil {
				return err
			}
		}
		e.Tell("%s", othersOf(src, st))
		if st.RefusedAll > 0 {
			e.Tell("%s of calls not followed, such as %s: %s", prose.Plural(uint64(st.RefusedAll), "path"), prose.Printable(st.Refused[0].Path), st.Refused[0].Why.Text())
		}
		return nil
	})
	c.Flags().StringVar(&show, "show", "", "print the content of one file")
	whereFlags(c, &w)
	c.Flags().StringVar(&w.Repo, "repo", "", "the git repository")
	return c
}

// whereFlags are the flags of what a user states of an imported session.
func whereFlags(c *cobra.Command, w *codetree.Where) {
	c.Flags().StringVar(&w.Base, "base", "", "the commit that the session began with")
	c.Flags().StringVar(&w.Transcript, "transcript", "", "the file of Claude Code that was imported")
	c.Flags().StringVar(&w.Folder, "folder", "", "where the agent worked, as the transcript writes it")
}

// showFile prints a file as it is known: byte for byte where out is a file or a pipe, with
// credentials masked on a terminal.
func (e *env) showFile(files []edits.File, name string) error {
	for _, f := range files {
		switch {
		case f.Path != name:
		case f.Status == edits.Unknown:
			return fmt.Errorf("%s is not known: %s (since @%d)", prose.Printable(name), f.Why.Text(), f.Since)
		case f.Deleted:
			return fmt.Errorf("%s was deleted (@%d)", prose.Printable(name), f.Since)
		default:
			if f.Status != edits.Exact {
				e.Say("%s is as last recorded: %s (since @%d)", prose.Printable(name), f.Why.Text(), f.Since)
			}
			if e.JSON {
				return e.Print(map[string]any{"file": f, "content": f.Content})
			}
			if e.OutIsTerminal {
				_, err := io.WriteString(e.Out, prose.Printable(secrets.Mask(f.Content)))
				return err
			}
			_, err := io.WriteString(e.Raw, f.Content)
			return err
		}
	}
	return fault.WithHint(api.Errorf(api.NotFound, nil, "the session named no file %s", name), "ledgerctl code SESSION lists them")
}

// knownCount says how many files have each status.
func knownCount(st *edits.State) string {
	n := st.Count()
	return fmt.Sprintf("%s exact, %d as last recorded, %d not known", prose.Plural(uint64(n[edits.Exact]), "file"), n[edits.Recorded], n[edits.Unknown])
}

// othersOf says in which sense the files that the session did not name are known.
func othersOf(src *codetree.Source, st *edits.State) string {
	if src.Base == "" {
		return "Files that the session did not name are not known: it states no commit that the repository has (--base COMMIT, --repo DIR)."
	}
	text := fmt.Sprintf("Files that the session did not name are those of commit %.12s; whether the folder was as committed when it began is not known", src.Base)
	if st.Others != "" {
		text += fmt.Sprintf(", and from @%d on something may have changed them", st.OthersSince)
	}
	return text + "."
}

// codeHint adds what to type next to an error of rebuilt files.
func codeHint(err error) error {
	switch {
	case errors.Is(err, codetree.ErrNoFolder):
		return fault.WithHint(fault.Usage(err), "--folder DIR is the folder, as the transcript writes it")
	case errors.Is(err, codetree.ErrPartlyKnown):
		return fault.WithHint(err, "ledgerctl code TURN lists what is known; --base COMMIT is the commit that the session began with; --partial takes what there is")
	case errors.Is(err, codetree.ErrNothingKnown):
		return fault.WithHint(err, "ledgerctl watch --code records them from now on; --base COMMIT is the commit that the session began with")
	case errors.Is(err, codetree.ErrNoBase):
		return fault.WithHint(fault.Usage(err), "--base COMMIT is one of the repository that --repo DIR names")
	case errors.Is(err, codetree.ErrNoRepository):
		return fault.WithHint(fault.Usage(err), "--repo DIR is the repository that the files go into")
	}
	return err
}
