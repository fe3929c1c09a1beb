package views

import (
	"fmt"
	"time"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

type memoryPage struct {
	Rows  []memoryRow
	Next  string
	State string
	Kind  string
	// Hidden shows those of hidden sessions too.
	Hidden bool
}

type memoryRow struct {
	ID      turns.ID
	Agent   string
	Kind    string
	State   string
	Trust   string
	Sees    string
	Text    pages.Prose
	When    string
	Sources []sourceRow
	Error   string
	Note    string
}

func (v *visitor) memory() error {
	q := v.R.URL.Query()
	p := &memoryPage{State: q.Get("state"), Kind: q.Get("kind"), Hidden: q.Get("hidden") != ""}
	list, err := v.C.MemoryPage(v.R.Context(), api.ListMemories{State: p.State, Kind: p.Kind, Hidden: p.Hidden, Page: api.Page{After: q.Get("after"), Limit: 50}})
	if err != nil {
		return err
	}
	for _, m := range list.Memories {
		r := memoryRow{ID: m.ID, Agent: m.Agent, Kind: m.Kind, State: m.State, Trust: m.Trust, Sees: m.Visibility, Text: pages.Text(visit.Clip(m.Text, 3000)), When: prose.At(time.Time(m.Time), "", "2006-01-02 15:04")}
		if m.Error != "" {
			r.Error = prose.Unreadable("memory", m.Error, m.MissingKey)
		}
		if m.Reason != "" {
			r.Note = pages.Line(m.Reason, 200)
		}
		for i, s := range m.Sources {
			if i == 4 {
				break
			}
			r.Sources = append(r.Sources, sourceRow{URL: visit.TurnURL(s.Session, s.Turn), Excerpt: prose.Short(s.Turn)})
		}
		p.Rows = append(p.Rows, r)
	}
	if list.Next != "" {
		p.Next = visit.Link("/ui/memory", "state", p.State, "kind", p.Kind, "hidden", q.Get("hidden"), "after", list.Next)
	}
	v.Render("memory", "Memory", "memory", p)
	return nil
}

type eventsPage struct {
	Channels []channelRow
	Channel  string
	Rows     []eventRow
	Next     string
	More     bool
}

type channelRow struct {
	Name, Agent, Ago, Error string
	Count                   uint64
	URL                     string
}

type eventRow struct {
	ID   turns.ID
	Kind string
	When string
	Text pages.Prose
	Note string
}

// channelsShown is how many channels the page of events lists.
const channelsShown = 200

func (v *visitor) events() error {
	q := v.R.URL.Query()
	p := &eventsPage{Channel: q.Get("channel")}
	for c, err := range v.C.Channels(v.R.Context()) {
		if err != nil {
			return err
		}
		if len(p.Channels) == channelsShown {
			p.More = true
			break
		}
		r := channelRow{Name: pages.Line(c.Channel, 120), Agent: c.Agent, Count: c.Count, Ago: visit.Ago(v.Now(), time.Time(c.Updated)), URL: visit.Link("/ui/events", "channel", c.Channel, "of", c.Agent)}
		if c.Error != "" {
			r.Name, r.Error = prose.Clip(c.ID, 12), prose.Unreadable("channel", c.Error, c.MissingKey)
		}
		p.Channels = append(p.Channels, r)
	}
	if p.Channel != "" {
		c := v.C
		if of := q.Get("of"); of != "" && v.Who.Agent == api.Operator && turns.ValidName(of) {
			c = c.As(of) // a channel is of an agent; the operator reads all of them
		}
		list, err := c.EventPage(v.R.Context(), api.ListEvents{Channel: p.Channel, Order: "desc", Page: api.Page{After: q.Get("after"), Limit: 50}})
		if err != nil {
			return err
		}
		for _, x := range list.Events {
			r := eventRow{ID: x.ID, Kind: pages.Line(x.Kind, 60), When: time.Time(x.Recorded).Local().Format("2006-01-02 15:04:05"), Text: pages.Text(visit.Clip(string(x.Body), 4000))}
			switch {
			case x.Error != "":
				r.Note = prose.Unreadable("event", x.Error, x.MissingKey)
			case x.Ref != nil:
				r.Note = fmt.Sprintf("%s bytes, not shown", prose.Grouped(x.Ref.Size))
			}
			p.Rows = append(p.Rows, r)
		}
		if list.Next != "" {
			p.Next = visit.Link("/ui/events", "channel", p.Channel, "of", q.Get("of"), "after", list.Next)
		}
	}
	v.Render("events", "Events", "events", p)
	return nil
}
