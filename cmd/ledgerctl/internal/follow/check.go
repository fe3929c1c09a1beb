package follow

import (
	"fmt"
	"os"
	"strings"

	"github.com/dustin/go-humanize"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/doctor"
)

// Check adds what is wrong with a watch; ofService is the command of the installed service, if there is one.
func Check(d *doctor.Doctor, cfg watch.Config, ofService []string) error {
	s, err := watch.ReadStatus(cfg.State, cfg.Sources)
	if err != nil {
		return err
	}
	switch {
	case s.Running:
		d.Add("watch", doctor.OK, fmt.Sprintf("running (process %d)", s.Process), "")
	case s.Saved.IsZero():
		d.Fail("watch", 1, "it never ran", "start it: ledgerctl watch, or ledgerctl service install watch")
	default:
		d.Fail("watch", 1, "not running; it ran until "+humanize.Time(s.Saved), "start it: ledgerctl watch, or ledgerctl service install watch")
	}
	if ofService != nil {
		d.Add("service", doctor.OK, "installed: "+prose.Printable(strings.Join(ofService, " ")), "")
		if _, err := os.Stat(ofService[0]); err != nil {
			d.Fail("service", 1, "its program is gone: "+prose.Printable(ofService[0]), "ledgerctl service install watch, with the flags above, writes it again")
		}
	}
	if s.Waiting != "" {
		d.Fail("ledger", 5, "not reached: "+s.Waiting, "is nexusd running? ledgerctl doctor looks further")
	}
	if s.Limited != "" {
		d.Add("notifications", doctor.Warn, s.Limited, "raise fs.inotify.max_user_watches; files are read at each rescan meanwhile")
	}
	for _, x := range s.Sources {
		name := x.Agent + " " + x.Folder
		switch {
		case x.Missing || x.Files == 0:
			d.Add(name, doctor.Skipped, "no transcripts there", "")
		case x.Failed > 0:
			d.Fail(name, 1, fmt.Sprintf("%s of %s not in the ledger", prose.Grouped(uint64(x.Failed)), prose.Plural(uint64(x.Files), "file")), "ledgerctl watch status names them, and why")
		case x.Behind > 0 && !s.Running:
			d.Add(name, doctor.Warn, fmt.Sprintf("%s behind (%s bytes)", prose.Plural(uint64(x.Behind), "file"), prose.Grouped(uint64(x.Bytes))), "")
		case x.Behind > 0:
			d.Add(name, doctor.OK, fmt.Sprintf("%s behind (%s bytes), being read", prose.Plural(uint64(x.Behind), "file"), prose.Grouped(uint64(x.Bytes))), "")
		default:
			d.Add(name, doctor.OK, fmt.Sprintf("%s, delivered last %s", prose.Plural(uint64(x.Files), "file"), humanize.Time(x.Delivered)), "")
		}
	}
	return nil
}
