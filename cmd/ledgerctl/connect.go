package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

func natsContextCmd(e *env) *cobra.Command {
	return verb("nats-context [NAME]", "print the command that creates a context of the nats command", 0, 1, func(_ *cobra.Command, args []string) error {
		name := "nexus"
		if len(args) == 1 {
			name = args[0]
		}
		creds, trusted := e.Creds, e.TLSCA
		c, err := client.FindServerContext(e.Server)
		if err == nil {
			trusted = cmp.Or(trusted, c.CA)
		}
		if creds == "" {
			if errors.Is(err, fs.ErrNotExist) {
				return fault.WithHint(api.Errorf(api.NotFound, nil, "no nexusd of this user wrote the credentials for %s", connect.PlainURL(e.Server)), "--creds FILE names them; nexusd prints the files when it starts")
			}
			if err != nil {
				return err
			}
			creds = c.Agent
		}
		line := fmt.Sprintf("nats context save %s --server %s --nkey %s", prose.ShellWord(name), prose.ShellWord(connect.PlainURL(e.Server)), prose.ShellWord(creds))
		if trusted != "" {
			line += " --tlsca " + prose.ShellWord(trusted)
		}
		line += " --select"
		if e.JSON {
			out := map[string]string{"name": name, "url": connect.PlainURL(e.Server), "nkey": creds, "command": line}
			if trusted != "" {
				out["ca"] = trusted
			}
			return e.Print(out)
		}
		_, err = fmt.Fprintln(e.Out, line) // one line, however wide: it is for a shell
		return err
	})
}
