package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

// openCmd opens the explorer in a browser.
func openCmd(e *env) *cobra.Command {
	var printed, readOnly bool
	c := verb("open [SESSION|TURN]", "look at the ledger in a browser", 0, 1, func(cmd *cobra.Command, args []string) error {
		r := api.OpenPages{ReadOnly: readOnly}
		if len(args) == 1 {
			p, err := e.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			r.Session, r.Turn = p.Session.ID, p.Turn
		}
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		link, err := c.OpenPages(cmd.Context(), r)
		if api.HasCode(err, api.Unsupported) {
			return fault.WithHint(err, "nexusd serves the pages at the address of --http; --http off has none")
		}
		if err != nil {
			return err
		}
		switch {
		case e.JSON:
			return e.Print(link)
		case !printed && browse(link.URL):
			e.Say("a browser opens the ledger; the link is good for one login, within a minute")
			return nil
		}
		_, err = fmt.Fprintln(e.Raw, link.URL)
		return err
	})
	c.Flags().BoolVarP(&printed, "print", "p", false, "print the link, and open no browser")
	c.Flags().BoolVar(&readOnly, "read-only", false, "the browser may change nothing")
	return c
}

// browse has the browser of this user's desktop show a page. It reports whether there is one.
func browse(url string) bool {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return false
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return false
	}
	return exec.Command(path, url).Run() == nil
}
