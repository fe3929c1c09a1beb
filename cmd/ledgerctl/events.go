package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/cmd/ledgerctl/internal/eventview"
	"nexus/cmd/ledgerctl/internal/names"
)

// The agent of these verbs is main unless one is named: a channel belongs to an agent.

func eventsCmd(e *env) *cobra.Command {
	c := verb("event", "channels of external events: mails, webhook calls", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.Aliases = []string{"events"}
	get := verb("get CHANNEL EVENT", "one event, and the turns that name it", 2, 2, func(cmd *cobra.Command, args []string) error {
		return eventview.Get(cmd.Context(), e.Env, args[0], args[1])
	})
	channels := verb("channels", "the channels of an agent, or of all agents", 0, 0, func(cmd *cobra.Command, _ []string) error {
		return eventview.Channels(cmd.Context(), e.Env)
	})
	c.AddCommand(appendEventCmd(e), listEventsCmd(e), get, channels, tailEventsCmd(e), exportEventsCmd(e))
	return c
}

func appendEventCmd(e *env) *cobra.Command {
	var o eventview.Appending
	c := verb("append CHANNEL", "store an external event", 1, 1, func(cmd *cobra.Command, args []string) error {
		return eventview.Append(cmd.Context(), e.Env, args[0], o)
	})
	c.Flags().StringVar(&o.Kind, "kind", "", "what the event is, such as mail.received")
	c.Flags().StringVar(&o.Body, "body", "", "the body, JSON (else: stdin)")
	c.Flags().StringVar(&o.Meta, "meta", "", "a JSON object")
	c.Flags().StringVar(&o.Time, "time", "", "when it happened: a day or a time")
	c.Flags().StringVar(&o.ID, "id", "", "id of the event: the same one stores it once")
	return c
}

// eventFlags are the flags that choose events.
func eventFlags(flags *pflag.FlagSet, f *eventview.Filter) {
	flags.StringVar(&f.Kind, "kind", "", "events of this kind")
	flags.StringVar(&f.Since, "since", "", "from a time on: "+names.DayHelp)
	flags.StringVar(&f.Until, "until", "", names.UntilHelp)
	flags.StringVar(&f.Since, "from", "", "as --since")
	flags.StringVar(&f.Until, "to", "", "as --until")
	_, _ = flags.MarkHidden("from"), flags.MarkHidden("to") // what these were called
}

func listEventsCmd(e *env) *cobra.Command {
	var f eventview.Filter
	var n int
	var desc bool
	c := verb("list CHANNEL", "the events of a channel", 1, 1, func(cmd *cobra.Command, args []string) error {
		return eventview.List(cmd.Context(), e.Env, args[0], f, n, desc)
	})
	eventFlags(c.Flags(), &f)
	c.Flags().IntVarP(&n, "limit", "n", 0, "at most N events")
	c.Flags().BoolVar(&desc, "newest-first", false, "the newest events first")
	return c
}

func tailEventsCmd(e *env) *cobra.Command {
	var o eventview.Tailing
	c := verb("tail CHANNEL", "the newest events; -f waits for more", 1, 1, func(cmd *cobra.Command, args []string) error {
		return eventview.Tail(cmd.Context(), e.Env, args[0], o)
	})
	eventFlags(c.Flags(), &o.Filter)
	c.Flags().StringVar(&o.After, "after", "", "begin after this event")
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "continue until interrupted")
	c.Flags().IntVarP(&o.Lines, "lines", "n", 10, "how many events to begin with")
	return c
}

func exportEventsCmd(e *env) *cobra.Command {
	var f eventview.Filter
	var file string
	c := verb("export CHANNEL", "the events with stored bytes and hashes, as JSON lines", 1, 1, func(cmd *cobra.Command, args []string) error {
		return eventview.Export(cmd.Context(), e.Env, args[0], f, file)
	})
	eventFlags(c.Flags(), &f)
	c.Flags().StringVarP(&file, "output", "o", "", "file to write")
	return c
}
