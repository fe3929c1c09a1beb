package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"nexus/ledger"
	"nexus/turns"
)

// Verify checks a file as [Check] does, and of one that is not complete it says what can be
// restored. progress is called with the bytes that were read; it may be nil.
func Verify(ctx context.Context, file io.ReaderAt, size int64, progress func(int)) (Report, error) {
	report, _, err := Check(ctx, Counted{io.NewSectionReader(file, 0, size), progress}, nil)
	if err == nil && report.State == Complete {
		return report, nil
	}
	if err != nil && !errors.Is(err, ledger.ErrUnsupported) {
		return report, err
	}
	plan, _, damage := ReadDamaged(ctx, file, size, nil, nil)
	if errors.Is(damage, ledger.ErrUnsupported) {
		return report, err // what is too short for a backup is one that is empty
	}
	if damage != nil {
		return report, damage
	}
	if err != nil { // the first bytes alone are damaged
		report = Report{State: Damaged, Ledger: plan.Begin.Ledger, Problem: "its first bytes are damaged"}
	}
	report.Salvage = &plan.Salvage
	return report, nil
}

// Through returns the last position of the log that is restored, lost ones included.
func (s *Salvage) Through() uint64 {
	last := uint64(0)
	for _, r := range s.Runs {
		if r.State != Unfinished || len(s.Runs) == 1 {
			last = max(last, r.Last)
		}
	}
	return last
}

// maxLines bounds how many runs, losses and chains a text lists, each.
const maxLines = 20

// Text says what is damaged and what is lost, in lines, for a person.
func (s *Salvage) Text() string {
	var b strings.Builder
	if len(s.Runs) > 0 {
		b.WriteString("runs:\n")
	}
	whole := 0
	for _, r := range s.Runs {
		if r.State == Whole && len(s.Runs) > maxLines {
			whole++
			continue
		}
		fmt.Fprintf(&b, "  run %d: %s", r.Run, r.State)
		if r.First > 0 {
			fmt.Fprintf(&b, ", %s", positions(r.First, r.Last))
		}
		if !r.Began.IsZero() {
			fmt.Fprintf(&b, ", of %s", instant(r.Began))
		}
		if r.LostEvents+r.LostChunks > 0 {
			fmt.Fprintf(&b, "; lost: %s", lost(r.LostEvents, r.LostChunks))
		} else if r.State == Damaged {
			b.WriteString("; no record of it is known to be lost")
		}
		if r.Problem != "" {
			fmt.Fprintf(&b, " (%s)", r.Problem)
		}
		b.WriteByte('\n')
	}
	if whole > 0 {
		fmt.Fprintf(&b, "  %d other runs: %s\n", whole, Whole)
	}
	for i, l := range s.Lost {
		if i == 0 {
			b.WriteString("lost:\n")
		}
		if i == maxLines {
			fmt.Fprintf(&b, "  and %d others\n", len(s.Lost)-i)
			break
		}
		what := "event at "
		switch {
		case l.Blobs:
			what = "chunk of blobs at "
		case l.First < l.Last:
			what = "events at "
		}
		fmt.Fprintf(&b, "  run %d: %s%s", l.Run, what, positions(l.First, l.Last))
		switch {
		case !l.After.IsZero() && !l.Before.IsZero():
			fmt.Fprintf(&b, ", stored from %s to %s", instant(l.After), instant(l.Before))
		case !l.After.IsZero():
			fmt.Fprintf(&b, ", stored after %s", instant(l.After))
		case !l.Before.IsZero():
			fmt.Fprintf(&b, ", stored before %s", instant(l.Before))
		}
		b.WriteByte('\n')
	}
	for i, c := range s.Chains {
		if i == 0 {
			b.WriteString("affected (such a session takes no more events; what is before the loss can be read and forked):\n")
		}
		if i == maxLines {
			fmt.Fprintf(&b, "  and %d others\n", len(s.Chains)-i)
			break
		}
		fmt.Fprintf(&b, "  %s of tenant %s: %s", nameOf(c.Chain), c.Tenant, lost(c.Lost, 0))
		switch {
		case c.After > 0:
			fmt.Fprintf(&b, ", after position %d", c.After)
		case c.Before > 0:
			fmt.Fprintf(&b, ", before position %d: its beginning, and it can't be read", c.Before)
		}
		b.WriteByte('\n')
	}
	for i, c := range s.Content {
		if i == 0 {
			b.WriteString("content that can't be read, its chunks are lost:\n")
		}
		if i == maxLines {
			fmt.Fprintf(&b, "  and %d others\n", len(s.Content)-i)
			break
		}
		fmt.Fprintf(&b, "  %s of tenant %s: of the event at position %d\n", nameOf(c.Chain), c.Tenant, c.Seq)
	}
	return b.String()
}

func nameOf(c Chain) string {
	if id, ok := (turns.Chain{Entity: c.Entity, ID: c.ID}).Session(); ok {
		return "session " + id.String()
	}
	return string(c.Entity) + " " + c.ID
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func positions(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("position %d", first)
	}
	return fmt.Sprintf("positions %d to %d", first, last)
}

func lost(events, chunks uint64) string {
	var parts []string
	for _, p := range []struct {
		n    uint64
		name string
	}{{events, "event"}, {chunks, "chunk"}} {
		switch {
		case p.n == 1:
			parts = append(parts, "1 "+p.name)
		case p.n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", p.n, p.name))
		}
	}
	return strings.Join(parts, ", ")
}
