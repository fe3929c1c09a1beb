package views

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/explorer/costs"
	"nexus/cmd/internal/explorer/login"
	"nexus/cmd/internal/explorer/visit"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// A list says of a session that its cost can't be read: an empty place would read as nothing.
func TestAListSaysThatACostCannotBeRead(t *testing.T) {
	nc, err := nats.Connect("nats://127.0.0.1:1", nats.RetryOnFailedConnect(true))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	w := httptest.NewRecorder()
	v := &visitor{&visit.Visit{Site: &visit.Site{Now: time.Now, Looks: visit.NewLooks()}, W: w, R: httptest.NewRequest("GET", "/ui/", nil), Who: login.Who{Tenant: "default", Agent: "main"}, C: client.New(nc, "default", "main")}, New(costs.New(t.Context()), false)}
	s := &api.Session{ID: api.NewID(), Title: "mend the roof", Turns: 2}
	rows := []sessionRow{rowOf(v.Visit, s)}
	v.addCosts(rows, []*api.Session{s})
	v.Render("sessions", "Sessions", "sessions", &sessionsPage{Rows: rows})
	page := w.Body.String()
	if !strings.Contains(page, "mend the roof") || !strings.Contains(page, `title="its calls can&#39;t be added up; tried again after `) && !strings.Contains(page, `title="its calls can't be added up; tried again after `) {
		t.Error(page)
	}
}
