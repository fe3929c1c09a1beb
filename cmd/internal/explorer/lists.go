package explorer

import (
	"fmt"
	"slices"
	"time"

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

func (v *visit) memory() error {
	q := v.r.URL.Query()
	p := &memoryPage{State: q.Get("state"), Kind: q.Get("kind"), Hidden: q.Get("hidden") != ""}
	list, err := v.c.MemoryPage(v.r.Context(), api.ListMemories{State: p.State, Kind: p.Kind, Hidden: p.Hidden, Page: api.Page{After: q.Get("after"), Limit: 50}})
	if err != nil {
		return err
	}
	for _, m := range list.Memories {
		r := memoryRow{ID: m.ID, Agent: m.Agent, Kind: m.Kind, State: m.State, Trust: m.Trust, Sees: m.Visibility, Text: pages.Text(clip(m.Text, 3000)), When: prose.At(time.Time(m.Time), "", "2006-01-02 15:04")}
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
			r.Sources = append(r.Sources, sourceRow{URL: v.turnURL(s.Session, s.Turn), Excerpt: prose.Short(s.Turn)})
		}
		p.Rows = append(p.Rows, r)
	}
	if list.Next != "" {
		p.Next = link("/ui/memory", "state", p.State, "kind", p.Kind, "hidden", q.Get("hidden"), "after", list.Next)
	}
	v.page("memory", "Memory", "memory", p)
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

func (v *visit) events() error {
	q := v.r.URL.Query()
	p := &eventsPage{Channel: q.Get("channel")}
	for c, err := range v.c.Channels(v.r.Context()) {
		if err != nil {
			return err
		}
		if len(p.Channels) == channelsShown {
			p.More = true
			break
		}
		r := channelRow{Name: pages.Line(c.Channel, 120), Agent: c.Agent, Count: c.Count, Ago: ago(v.Now(), time.Time(c.Updated)), URL: link("/ui/events", "channel", c.Channel, "of", c.Agent)}
		if c.Error != "" {
			r.Name, r.Error = prose.Clip(c.ID, 12), prose.Unreadable("channel", c.Error, c.MissingKey)
		}
		p.Channels = append(p.Channels, r)
	}
	if p.Channel != "" {
		c := v.c
		if of := q.Get("of"); of != "" && v.who.Agent == api.Operator && turns.ValidName(of) {
			c = c.As(of) // a channel is of an agent; the operator reads all of them
		}
		list, err := c.EventPage(v.r.Context(), api.ListEvents{Channel: p.Channel, Order: "desc", Page: api.Page{After: q.Get("after"), Limit: 50}})
		if err != nil {
			return err
		}
		for _, x := range list.Events {
			r := eventRow{ID: x.ID, Kind: pages.Line(x.Kind, 60), When: time.Time(x.Recorded).Local().Format("2006-01-02 15:04:05"), Text: pages.Text(clip(string(x.Body), 4000))}
			switch {
			case x.Error != "":
				r.Note = prose.Unreadable("event", x.Error, x.MissingKey)
			case x.Ref != nil:
				r.Note = fmt.Sprintf("%s bytes, not shown", prose.Grouped(x.Ref.Size))
			}
			p.Rows = append(p.Rows, r)
		}
		if list.Next != "" {
			p.Next = link("/ui/events", "channel", p.Channel, "of", q.Get("of"), "after", list.Next)
		}
	}
	v.page("events", "Events", "events", p)
	return nil
}

type healthPage struct {
	Facts    []Fact
	Who      string
	Pages    int
	Sound    bool
	MayProve bool
}

func (v *visit) health() error {
	p := &healthPage{Facts: v.Health(), Pages: v.live.count(), Sound: true, MayProve: v.mayProve() == nil}
	for _, f := range p.Facts {
		p.Sound = p.Sound && f.OK
	}
	if p.Who = "reads and changes"; v.who.ReadOnly {
		p.Who = "reads only"
	}
	v.page("health", "Health", "health", p)
	return nil
}

func (v *visit) keys() error {
	v.page("keys", "Keys", "", nil)
	return nil
}

type vanishedPage struct {
	Rows    []vanishedRow
	More    int
	Watched bool
}

type vanishedRow struct {
	Gone
	Since string
	URL   string
}

// KeptBytes and LostBytes are what humans read of the numbers.
func (r vanishedRow) KeptBytes() uint64 { return uint64(max(0, r.Kept)) }
func (r vanishedRow) LostBytes() uint64 { return uint64(max(0, r.Lost)) }

// vanishedShown is how many transcripts a page lists, the newest of them.
const vanishedShown = 500

// vanished lists the transcripts that are gone from the folders of their agents, and kept here.
func (v *visit) vanished() error {
	if v.who.Agent != api.Operator {
		return api.Errorf(api.Denied, nil, "the list names files of the ledger's machine: only the operator sees it")
	}
	p := &vanishedPage{Watched: v.Vanished != nil}
	if p.Watched {
		list, err := v.Vanished()
		if err != nil {
			return api.Errorf(api.Unavailable, nil, "the state of the watch can't be read")
		}
		for _, g := range slices.Backward(list) {
			if len(p.Rows) == vanishedShown {
				p.More = len(list) - vanishedShown
				break
			}
			r := vanishedRow{Gone: g}
			if r.File = pages.Line(g.File, 400); !g.Gone.IsZero() {
				r.Since = ago(v.Now(), g.Gone)
			}
			if !g.Session.IsZero() {
				r.URL = "/ui/s/" + g.Session.String()
			}
			p.Rows = append(p.Rows, r)
		}
	}
	v.page("vanished", "Vanished transcripts", "sessions", p)
	return nil
}
