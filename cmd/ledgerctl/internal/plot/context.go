package plot

import (
	"fmt"
	"io"

	"nexus/cmd/internal/kinds"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/contextview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// The sizes of the picture of a context, in pixels.
const (
	contextLeft, contextRight = 16, Width - 16
	contextTop, contextBottom = 102, 142 // of the bar
	contextLegend, contextRow = contextBottom + 58, 24
)

// total is what a context shows in one kind.
type total struct {
	tokens uint64
	turns  int
	last   turns.ID
}

// Context draws a context as a bar: what the model reads, oldest first, and
// the room up to the budget. name is that of the session.
func Context(w io.Writer, name string, cx *api.Context) error {
	var p Picture
	used, by := cx.Tokens+cx.Overhead, "estimated by the ledger"
	if cx.Reported > 0 {
		used, by = cx.Reported, "as the provider counted the last call, with an estimate of what came since"
	}
	full := max(used, cx.Budget, 1)
	at := func(tokens uint64) float64 {
		return contextLeft + float64(contextRight-contextLeft)*float64(min(tokens, full))/float64(full)
	}
	p.Text("ink bold", "start", contextLeft, 28, "What the model reads: "+terminal.Cut(name, 70))
	about := fmt.Sprintf("%s of %s tokens, %s of the budget%s", prose.Grouped(used), prose.Grouped(cx.Budget), shareOf(used, cx.Budget), contextview.Guessed(cx.WindowGuess))
	if n := contextview.Counter(cx.Recipe); n != contextview.DefaultCounter {
		by += ", by the counter " + terminal.Cut(n, 20)
	}
	p.Text("soft small", "start", contextLeft, 48, about)
	p.Text("soft small", "start", contextLeft, 66, by)
	p.Text("soft small", "start", contextLeft, contextTop-8, "read first")
	p.Add(`<rect class="room" x="%d" y="%d" width="%d" height="%d"/>`, contextLeft, contextTop, contextRight-contextLeft, contextBottom-contextTop)
	var sums [len(kinds.All)]total
	begin := uint64(0)
	for _, s := range kinds.Spans(cx) {
		left, right := at(begin), at(begin+s.Tokens)
		begin += s.Tokens
		sum := &sums[s.Kind]
		sum.tokens += s.Tokens
		if sum.turns == 0 || sum.last != s.Turn {
			sum.turns, sum.last = sum.turns+1, s.Turn
		}
		p.Add(`<rect fill="%s" x="%.2f" y="%d" width="%.2f" height="%d"/>`, s.Kind.Look().Colour, left, contextTop, right-left, contextBottom-contextTop)
		if right-left > 4 {
			p.Add(`<line class="cut" x1="%.2f" x2="%.2f" y1="%d" y2="%d"/>`, right, right, contextTop, contextBottom)
		}
	}
	if left := at(begin); cx.Budget > used && contextRight-left > 90 {
		p.Text("soft small", "middle", (left+contextRight)/2, (contextTop+contextBottom)/2+4, "room")
	}
	plotTokens(&p, cx.Budget, full, at)
	rows := plotKinds(&p, &sums, used, cx.Budget)
	return p.Encode(w, Width, contextLegend+contextRow*rows, fmt.Sprintf("The context of %s: %s", name, about))
}

// plotTokens draws the axis below the bar, and where the budget ends.
func plotTokens(p *Picture, budget, full uint64, at func(uint64) float64) {
	step := max(1, uint64(NiceStep(float64(full)/6)))
	end := at(budget)
	for v := uint64(0); v <= full; v += step {
		if x := at(v); x < end-125 || v == 0 {
			p.Add(`<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, x, x, contextBottom, contextBottom+5)
			anchor := "middle"
			if v == 0 {
				anchor = "start"
			}
			p.Text("soft small", anchor, x, contextBottom+20, prose.Grouped(v))
		}
	}
	p.Add(`<line class="limit" stroke-width="2.5" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, end, end, contextTop-6, contextBottom+6)
	p.Text("ink small", "end", end+4, contextBottom+20, "budget "+prose.Grouped(budget))
}

// plotKinds draws the legend: what is in the context by kind, and the room up to the budget.
// It returns its rows.
func plotKinds(p *Picture, sums *[len(kinds.All)]total, used, budget uint64) (rows int) {
	row := func(dress, name string, tokens uint64, note string) {
		y := float64(contextLegend + contextRow*rows)
		rows++
		p.Add(`<rect %s x="%d" y="%.1f" width="14" height="14"/>`, dress, contextLeft, y-11)
		p.Text("ink", "start", contextLeft+24, y, name)
		p.Text("ink", "end", contextLeft+280, y, prose.Grouped(tokens)+" tokens")
		p.Text("soft", "end", contextLeft+340, y, shareOf(tokens, budget))
		p.Text("soft small", "start", contextLeft+364, y, note)
	}
	for i, s := range sums {
		if s.turns == 0 {
			continue
		}
		note := ""
		switch i {
		case 0:
		case 1:
			note = "stands for older turns, which stay stored"
		case int(kinds.Uncounted):
			note = "counted by the provider; often a system part or tools"
		default:
			note = "of " + prose.Plural(uint64(s.turns), "turn")
		}
		row(fmt.Sprintf(`fill="%s"`, kinds.All[i].Colour), kinds.All[i].Name, s.tokens, note)
	}
	if used > budget {
		row(fmt.Sprintf(`fill="none" stroke="%s"`, Red), "over the budget", used-budget, "the context does not fit as it is")
	} else {
		row(`class="room"`, "room", budget-used, "left up to the budget")
	}
	return rows
}

// shareOf is n of all in percent; what is there and less than half of one is so named.
func shareOf(n, all uint64) string {
	v := 100 * float64(n) / float64(max(all, 1))
	if n > 0 && v < 0.5 {
		return "< 1 %"
	}
	return fmt.Sprintf("%.0f %%", v)
}
