package acts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// eraseMost is how many sessions one form erases with the one that it names.
const eraseMost = 100

// relative is a session that comes from the one that a form erases, and is erased with it.
type relative struct {
	ID      turns.ID
	Title   string
	What    string // fork, sub-agent
	Looked  bool   // there was time for it
	Pending bool   // something of it is still being done
	Error   string
}

// erase says what the form reaches that erases a session, or erases it, and those that come from it where the form says so.
// What a form has no time for the next one does: an erasure that is asked for twice is one.
func (p *takeOutPage) erase(v *visit.Visit, c *client.Client) (err error) {
	f := v.R.PostForm
	r := api.EraseSession{DryRun: f.Get("sure") == "", Ground: f.Get("ground"), WithEvents: f.Get("events") != ""}
	p.Agents, p.Forks, p.Events, p.Ground = f.Get("agents") != "", f.Get("forks") != "", r.WithEvents, r.Ground
	if err := p.findFamily(v); err != nil {
		return err
	}
	if !r.DryRun && f.Get("as") != p.As {
		return api.Errorf(api.Conflict, nil, "other sessions come from this one than the preview named: look at it again")
	}
	if p.Erased, err = c.Erase(v.R.Context(), p.ID, r); err != nil {
		return err
	}
	p.addStores(p.Erased)
	until := time.Now().Add(timeAForm)
	ctx, cancel := context.WithDeadline(v.R.Context(), until.Add(timeAForm/2))
	defer cancel()
	for i := range p.Family {
		x := &p.Family[i]
		if time.Now().After(until) {
			break
		}
		receipt, err := c.Erase(ctx, x.ID, r)
		switch {
		case err != nil && v.R.Context().Err() != nil:
			return err
		case err != nil && tooLong(ctx, v):
			x.Error = takesLonger
			continue
		case err != nil:
			x.Error = pages.Line(api.FromError(err).Message, 300)
			continue
		}
		x.Looked, x.Pending = true, !r.DryRun && !receipt.Done
		p.addStores(receipt)
	}
	return nil
}

// findFamily finds the sessions that are erased with the one of the page, and names all of them by a digest.
func (p *takeOutPage) findFamily(v *visit.Visit) error {
	var kin client.Kin
	if p.Agents {
		kin |= client.SubAgents
	}
	if p.Forks {
		kin |= client.Forks
	}
	list, err := v.C.Descendants(v.R.Context(), []turns.ID{p.ID}, kin)
	if err != nil {
		return err
	}
	if len(list) > eraseMost {
		return api.Errorf(api.TooLarge, nil, "%d sessions come from this one, a form erases %d: ledgerctl erase has no such limit", len(list), eraseMost)
	}
	slices.SortFunc(list, func(a, b api.Session) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
	sum := sha256.New()
	for i := range list {
		s := &list[i]
		if about, err := v.C.GetSession(v.R.Context(), s.ID, api.GetSession{About: api.About{About: true}}); err == nil { // else it has its id
			s = about
		}
		what := "sub-agent"
		if s.ForkedFrom != nil {
			what = "fork"
		}
		p.Family = append(p.Family, relative{ID: s.ID, Title: cmp.Or(pages.Title(s, 80), prose.Short(s.ID)), What: what})
		sum.Write(s.ID[:])
	}
	if len(list) > 0 {
		p.As = hex.EncodeToString(sum.Sum(nil)[:16])
	}
	return nil
}

// addStores adds what became of one session in each store to that of the others.
func (p *takeOutPage) addStores(r *api.Receipt) {
	for _, s := range r.Stores {
		if s.Store == "forks" && p.Forks { // they are erased too
			continue
		}
		i := slices.IndexFunc(p.Stores, func(x api.ErasedStore) bool { return x.Store == s.Store })
		if i < 0 {
			p.Stores = append(p.Stores, s)
			continue
		}
		if p.Stores[i].Count += s.Count; s.State == api.StorePending {
			p.Stores[i].State = s.State
		}
	}
}

// Left is how many sessions of the form are not looked at, or not erased, yet.
func (p *takeOutPage) Left() (n int) {
	for _, x := range p.Family {
		if !x.Looked {
			n++
		}
	}
	return n
}
