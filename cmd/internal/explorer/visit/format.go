package visit

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/turns"
)

// Dollars is an amount for people. Each is by list prices, so none is certain.
func Dollars(v float64, least bool) string {
	mark := "≈ "
	if least {
		mark = "≥ "
	}
	switch {
	case v == 0:
		return ""
	case v < 0.005:
		return "< $0.01"
	case v < 100:
		return mark + "$" + humanize.FormatFloat("#,###.##", v)
	}
	return mark + "$" + humanize.FormatFloat("#,###.", v)
}

// Ago is how long before now a time is, in a few characters.
func Ago(now, t time.Time) string {
	if !turns.IsTimeKnown(t) {
		return "unknown"
	}
	switch d := now.Sub(t); {
	case d < 0:
		return t.Local().Format("2006-01-02")
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return humanize.Comma(int64(d.Minutes())) + " min"
	case d < 24*time.Hour:
		return humanize.Comma(int64(d.Hours())) + " h"
	case d < 30*24*time.Hour:
		return humanize.Comma(int64(d.Hours()/24)) + " d"
	}
	return t.Local().Format("2 Jan 2006")
}

// Share is n of all in percent; what is there and less than half of one is so named.
func Share(n, all uint64) string {
	v := 100 * float64(n) / float64(max(all, 1))
	if n > 0 && v < 0.5 {
		return "< 1 %"
	}
	return fmt.Sprintf("%.0f %%", v)
}

// Link is a path of the explorer with a query.
func Link(path string, kv ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i+1] != "" {
			q.Set(kv[i], kv[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// NameOf is what a session is called where there is room for little.
func NameOf(label string, id turns.ID) string { return cmp.Or(pages.Line(label, 40), prose.Short(id)) }

// Clip is the beginning of a text of at most n bytes, which ends with a whole line if it has
// several.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = strings.ToValidUTF8(s[:n], "")
	if i := strings.LastIndexByte(s, '\n'); i > n/2 {
		s = s[:i]
	}
	return s
}

func toUint(n any) uint64 {
	switch n := n.(type) {
	case uint64:
		return n
	case int:
		return uint64(max(n, 0))
	}
	return 0
}
