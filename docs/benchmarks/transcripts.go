package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"
)

// stored is what a store takes on the disk for the real transcripts.
type stored struct {
	What  string
	Bytes int64
	Of    float64 // of the clean JSONL copy
}

// cleanTurn is a line of the clean copy: all that a turn says, once.
type cleanTurn struct {
	ID       turns.ID        `json:"id"`
	Session  turns.ID        `json:"session"`
	Parent   turns.ID        `json:"parent,omitzero"`
	Time     time.Time       `json:"time,omitzero"`
	Model    string          `json:"model,omitempty"`
	Messages []turns.Message `json:"messages"`
	Response *turns.Message  `json:"response,omitempty"`
	Usage    *turns.Usage    `json:"usage,omitempty"`
}

// transcripts imports real transcripts, and compares the bytes on the disk with one
// clean copy: a line of JSON for each turn that the import stored.
func (r *run) transcripts(ctx context.Context, res *results) (err error) {
	if _, err := os.Stat(r.data); err != nil {
		return skipped("there are no transcripts at " + r.data + " (--data)")
	}
	r.say("disk of the transcripts in %s", r.data)
	bin, err := r.bin.build(ctx, ledgerctlCommand)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.dir, "transcripts-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := r.startNexusd(ctx, filepath.Join(dir, "nexus"), "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	running := true
	defer func() {
		if running {
			err = errors.Join(err, d.close())
		}
	}()
	cmd := exec.CommandContext(ctx, bin, "import", "--json", "--final", "--quiet", "--server", d.url, "--creds", d.agent, r.data)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	var errs tail
	cmd.Stderr = &errs
	out, err := cmd.Output() // files that are no transcripts make it fail; its lines say what was stored
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	clean, source, files, err := cleanCopy(out)
	if err != nil {
		return err
	}
	if files == 0 {
		return fmt.Errorf("nothing in %s was imported: %s", r.data, &errs)
	}
	if err := d.close(); err != nil {
		return err
	}
	running = false
	var all bytes.Buffer
	for _, c := range clean {
		all.Write(c.line)
	}
	one := int64(all.Len())
	add := func(what string, n int64) {
		res.Transcripts = append(res.Transcripts, stored{what, n, float64(n) / float64(one)})
	}
	res.Imported = fmt.Sprintf("%d files, %d turns", files, len(clean))
	add("one clean JSONL copy: a line for each turn", one)
	add("the transcripts as their agents wrote them", source)
	zipped, err := zstdSize(all.Bytes())
	if err != nil {
		return err
	}
	add("the clean copy as one zstd stream, which can't be appended to or read by turn", zipped)
	parts := map[string]int64{}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	blocks, whole, err := allotted(d.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, err := diskOf(filepath.Join(d.dir, e.Name()))
		if err != nil {
			return err
		}
		parts[e.Name()] = n
	}
	add("nexusd's data folder", whole)
	add("… of which the stream (jetstream), the truth", parts["jetstream"])
	add("… of which the projections, which hold a second copy of each event", parts["projections"])
	add("nexusd's data folder with the blocks that Pebble sets aside for its log", blocks)
	n, err := sqliteSize(ctx, filepath.Join(dir, "sqlite"), clean)
	if err != nil {
		return err
	}
	add("SQLite, the design's schema with the lines of the clean copy as payload", n)
	return nil
}

type cleanLine struct {
	turn cleanTurn
	line []byte
}

// cleanCopy reads the files again that an import names as imported without a fault.
func cleanCopy(report []byte) (lines []cleanLine, source int64, files int, err error) {
	seen := make(map[turns.ID]bool)
	for text := range strings.Lines(string(report)) {
		var got struct{ File, Format, Error string }
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			return nil, 0, 0, err
		}
		format, ok := formatOf(got.Format)
		if got.Error != "" || !ok {
			continue
		}
		f, err := os.Open(got.File)
		if err != nil {
			return nil, 0, 0, err
		}
		err = func() error {
			for step, err := range format.Open(f, transcript.Options{Final: true}).Steps() {
				if err != nil {
					return err
				}
				a := step.Append
				if a == nil || seen[a.ID] {
					continue
				}
				seen[a.ID] = true
				t := cleanTurn{a.ID, a.Session, a.Parent, a.Time, a.Model, a.Messages, a.Response, a.Usage}
				b, err := turns.EncodeJSON(t)
				if err != nil {
					return err
				}
				lines = append(lines, cleanLine{t, append(b, '\n')})
			}
			return nil
		}()
		info, err2 := f.Stat()
		if err := errors.Join(err, err2, f.Close()); err != nil {
			return nil, 0, 0, fmt.Errorf("%s: %w", got.File, err)
		}
		source += info.Size()
		files++
	}
	return lines, source, files, nil
}

func formatOf(name string) (transcript.Format, bool) {
	for _, f := range formats.All() {
		if f.Name == name {
			return f, true
		}
	}
	return transcript.Format{}, false
}

func zstdSize(b []byte) (int64, error) {
	var n counting
	w, err := zstd.NewWriter(&n)
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(w, bytes.NewReader(b)); err != nil {
		return 0, err
	}
	err = w.Close() // it writes what it has gathered
	return int64(n), err
}

type counting int64

func (c *counting) Write(b []byte) (int, error) {
	*c += counting(len(b))
	return len(b), nil
}

func sqliteSize(ctx context.Context, dir string, lines []cleanLine) (n int64, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	db, err := sql.Open(sqliteDriver, sqliteDSN(filepath.Join(dir, "ledger.db")))
	if err != nil {
		return 0, err
	}
	db.SetMaxOpenConns(1)
	err = func() error {
		if _, err := db.ExecContext(ctx, sqliteSchema); err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for i, l := range lines {
			if _, err := tx.ExecContext(ctx, "INSERT INTO agent_turns (id, session_id, parent_turn_id, depth, timestamp, hash, payload) VALUES (?, ?, ?, ?, ?, ?, ?)",
				l.turn.ID.String(), l.turn.Session.String(), l.turn.Parent.String(), i, l.turn.Time.UnixMilli(), chain(nil, l.line), l.line); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	}()
	if err := errors.Join(err, db.Close()); err != nil {
		return 0, err
	}
	return diskOf(dir)
}
