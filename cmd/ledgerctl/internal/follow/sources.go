package follow

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/fault"
)

// Prepare completes the sources, the state and the ledger of a watch: those of the flags, else
// of the service, else the default ones.
func Prepare(e *cli.Env, cfg *watch.Config, from, ofService []string) error {
	if len(from) == 0 && cfg.State == "" {
		from, cfg.State = flagsOf(ofService)
	}
	sources, err := Sources(from)
	if err != nil {
		return err
	}
	cfg.Sources = sources
	if cfg.State == "" {
		cfg.State, err = StateFolder("watch")
	}
	cfg.Ledger = fmt.Sprintf("%s %s/%s", connect.PlainURL(e.Server), e.Tenant, cmp.Or(e.Agent, "main"))
	return err
}

// flagsOf returns the folders and the state of a watch's command.
func flagsOf(command []string) (from []string, state string) {
	for i := 1; i < len(command); i++ {
		switch command[i-1] {
		case "--from":
			from = append(from, command[i])
		case "--state":
			state = command[i]
		}
	}
	return from, state
}

// NoteImported notes for the watch what an import stored. The state of a watch is a cache:
// without it files are offered to the ledger again, so an error is no failure of the import.
func NoteImported(e *cli.Env, ofService []string, files map[string]watch.Imported) {
	var cfg watch.Config
	if len(files) == 0 || Prepare(e, &cfg, nil, ofService) != nil {
		return
	}
	_ = watch.NoteImported(cfg, files)
}

// StateFolder returns the folder in which a command keeps its state.
func StateFolder(name string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "nexus", name), nil
}

// Sources returns the folders that --from names, else those that the agents use.
func Sources(from []string) (out []watch.Source, err error) {
	for _, s := range from {
		agent, dir, ok := strings.Cut(s, "=")
		if !ok || dir == "" {
			return nil, fault.Usage(fmt.Errorf("--from takes AGENT=DIR, not %q", s))
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		out = append(out, watch.Source{Agent: agent, Root: dir})
	}
	if len(out) > 0 {
		return out, nil
	}
	home, err := agents.OfUser()
	return watch.DefaultSources(home), err
}
