package mcp

import (
	"context"
	"fmt"

	"nexus/ledger/api/client"
)

// BriefText returns what the tool brief says of a folder and of the repository that it is in ("":
// none), for a hook of an agent that starts there. c speaks for the caller's agent.
func BriefText(ctx context.Context, c *client.Client, caller Caller, dir, project string) (string, error) {
	out, err := brief(ctx, &call{Client: c, caller: caller}, briefInput{Cwd: dir, Project: project})
	if err != nil {
		return "", err
	}
	f := newFrame()
	out.text(f)
	return f.String(), nil
}

// plural returns "1 turn", "2 turns".
func plural(n uint64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
