package daemon

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/engine/erasure"
	"nexus/cmd/internal/files"
	"nexus/cmd/internal/responses"
	"nexus/ledger"
	"nexus/turns"
)

// reachErasures connects the erasure of sessions with the stores beside the log. x writes the files; nil: nobody does.
func (d *Daemon) reachErasures(x *files.Exporter) {
	er := d.engine.Erasure
	if d.server == nil {
		er.Why = "on a NATS server of others each daemon keeps its own keys: a session can't be erased for all of them yet"
		return
	}
	list := folder.NewErasures(d.cfg.Data, d.storage.Log.Ledger(), d.signer, d.cfg.Checkpoint.Out, d.logger)
	er.Publish, er.Listed = list.Publish, list.Listed
	if unfollow := d.cfg.Unfollow; unfollow != nil {
		er.Add(erasure.Store{Name: "watch", Note: "in the state of the folders that nexusd follows; a transcript that holds nothing else is not read any more", Erase: func(_ context.Context, s *ledger.Session) (uint64, bool, error) {
			done, err := unfollow(s.ID)
			return 0, done, err
		}})
	}
	files := erasure.Store{Name: "files", Note: "beside the ledger, of the designs; a file that a person changed is left as it is"}
	files.Erase = func(_ context.Context, s *ledger.Session) (uint64, bool, error) {
		return 0, x != nil && x.Reached(s.ID, s.Tail.Seq), nil
	}
	files.Redact = func(ctx context.Context, s *ledger.Session, _ uint64) (uint64, bool, error) {
		return files.Erase(ctx, s)
	}
	if x == nil {
		dir := filepath.Join(d.cfg.Data, "files")
		if _, err := os.Stat(dir); err != nil { // none were written here
			return
		}
		files.Note = "beside the ledger, of the designs: nexusd runs with --files off, so those that it wrote before stay until it runs with them on"
	}
	er.Add(files)
}

// eraseAnswers connects it with the answers of /v1 that are not stored, and removes what earlier erasures left of them.
func (d *Daemon) eraseAnswers() error {
	if d.server == nil {
		return nil
	}
	erase := func(session turns.ID) (n int, done bool, err error) { // of a daemon that answered /v1 before, and does not now
		n, err = responses.EraseFiles(filepath.Join(d.cfg.Data, "spool"), session)
		return n, err == nil, err
	}
	if d.door != nil {
		erase = d.door.Erase
	}
	answers := erasure.Store{Name: "answers", Note: "events of answers of /v1 that are not stored"}
	answers.Erase = func(_ context.Context, s *ledger.Session) (uint64, bool, error) {
		n, done, err := erase(s.ID)
		return uint64(n), done, err
	}
	answers.Redact = func(ctx context.Context, s *ledger.Session, _ uint64) (uint64, bool, error) {
		return answers.Erase(ctx, s)
	}
	d.engine.Erasure.Add(answers)
	for s, err := range d.storage.Projections.Erased() {
		if err == nil {
			_, _, err = erase(s.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finishErasures does what earlier erasures left, before anybody is served.
func (d *Daemon) finishErasures(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return d.engine.Erasure.Finish(ctx)
}
