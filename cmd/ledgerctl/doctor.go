package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
)

// The results of a check, from best to worst.
const (
	checkOK      = "ok"
	checkSkipped = "skipped"
	checkWarn    = "warn"
	checkFail    = "fail"
)

// check is one line of doctor.
type check struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Text   string `json:"text"`
	Do     string `json:"do,omitempty,omitzero"`
	exit   int    // status of the command, of a fail
}

// doctor collects checks. No check stops the others.
type doctor struct {
	env    *env
	checks []check
	http   string
	creds  string // the file in use; "" if none
	ca     string // a PEM file of authorities; "": the system's
}

func doctorCmd(e *env) *cobra.Command {
	d := &doctor{env: e}
	c := verb("doctor", "what is wrong with this ledger, and what to do", 0, 0, func(cmd *cobra.Command, _ []string) error {
		d.files()
		if d.connect() {
			d.whoAmI(cmd.Context())
		}
		d.daemon(cmd.Context())
		return d.report()
	})
	c.Flags().StringVar(&d.http, "http", "", "nexusd's HTTP address (else: as nexusd wrote it)")
	return c
}

func (d *doctor) add(name, result, text, do string) {
	d.checks = append(d.checks, check{Name: name, Result: result, Text: text, Do: do})
}

func (d *doctor) fail(name string, exit int, text, do string) {
	if !slices.Contains([]int{5, 6, 8}, exit) {
		exit = 1
	}
	d.checks = append(d.checks, check{Name: name, Result: checkFail, Text: text, Do: do, exit: exit})
}

// report prints the checks. Its error has the exit status of the worst of them.
func (d *doctor) report() error {
	e, worst := d.env, 0
	rank := []int{0, 1, 8, 5, 6} // exit statuses, each worse than those before it
	for _, c := range d.checks {
		if c.Result == checkFail && slices.Index(rank, c.exit) > slices.Index(rank, worst) {
			worst = c.exit
		}
	}
	if e.json {
		if err := e.print(map[string]any{"ok": worst == 0, "checks": d.checks}); err != nil {
			return err
		}
	} else {
		styles := map[string]string{checkOK: good.Render("ok     "), checkSkipped: faint.Render("skipped"), checkWarn: folded.Render("warn   "), checkFail: bad.Render("fail   ")}
		for _, c := range d.checks {
			text := printable(c.Name + ": " + c.Text)
			if c.Do != "" {
				text += "; " + printable(c.Do)
			}
			e.tell("%s  %s", styles[c.Result], text)
		}
	}
	if worst != 0 {
		return exitError{worst}
	}
	return nil
}

// exitError ends the command with a status, after it has said everything.
type exitError struct{ status int }

func (x exitError) Error() string { return "a check failed" }

// files checks the files of this user's side.
func (d *doctor) files() {
	e := d.env
	d.ca = e.tlsCA
	c, err := api.FindServerContext(e.server)
	switch {
	case err == nil:
		d.add("context", checkOK, "nexusd of this user wrote one for "+plainURL(e.server), "")
		d.http, d.ca = cmp.Or(d.http, strings.NewReplacer("//0.0.0.0:", "//127.0.0.1:", "//[::]:", "//127.0.0.1:").Replace(c.HTTP)), cmp.Or(d.ca, c.CA)
	case errors.Is(err, fs.ErrNotExist):
		d.add("context", checkSkipped, "no nexusd of this user wrote one for "+plainURL(e.server), "--creds, --tls-ca and --http name what it would hold")
	default:
		d.fail("context", 1, plainly(nil, err), "start nexusd again, or remove the file")
	}
	if d.creds = e.creds; d.creds == "" && e.natsContext == "" && err == nil {
		d.creds = c.Operator
	}
	if d.creds == "" {
		d.add("credentials", checkSkipped, "no file is named", "")
		return
	}
	info, err := os.Stat(d.creds)
	switch {
	case err != nil:
		d.fail("credentials", 1, plainly(nil, err), "--creds FILE or NEXUS_CREDS names the file; nexusd prints it when it starts")
	case info.Mode().Perm()&0o077 != 0:
		d.add("credentials", checkWarn, fmt.Sprintf("%s has mode %04o: others of this machine may read the key", d.creds, info.Mode().Perm()), "chmod 600 "+quoted(d.creds))
	default:
		d.add("credentials", checkOK, d.creds+", for its owner alone", "")
	}
}

// connect checks the connection to the NATS server; false: there is none.
func (d *doctor) connect() bool {
	e := d.env
	began := time.Now()
	if _, err := e.client("main"); err != nil {
		var h hinted
		do := hint(nil, err)
		if errors.As(err, &h) {
			do = h.hint
		}
		d.fail("connection", max(1, api.Exit(err)), plainly(nil, err), do)
		return false
	}
	took := time.Since(began)
	rtt, err := e.nc.RTT()
	if err != nil {
		d.fail("connection", 5, "the server does not answer a ping: "+err.Error(), "try again")
		return false
	}
	secure := "without TLS"
	if state, err := e.nc.TLSConnectionState(); err == nil {
		secure = tls.VersionName(state.Version)
	}
	d.add("connection", checkOK, fmt.Sprintf("%s, nats-server %s, %s, connected in %v, a ping takes %v", e.nc.ConnectedUrlRedacted(), e.nc.ConnectedServerVersion(), secure,
		took.Round(time.Millisecond), rtt.Round(10*time.Microsecond)), "")
	if size := e.nc.MaxPayload(); size < 1<<20 {
		d.add("max_payload", checkWarn, fmt.Sprintf("%s bytes: large turns are refused", grouped(uint64(size))), "set max_payload: 8MB on the server")
	} else {
		d.add("max_payload", checkOK, grouped(uint64(size))+" bytes", "")
	}
	return true
}

// whoAmI asks as the operator and as an agent.
func (d *doctor) whoAmI(ctx context.Context) {
	e := d.env
	agents := []string{api.Operator, cmp.Or(e.agent, "main")}
	if e.agent == api.Operator {
		agents = agents[:1]
	}
	allowed := 0
	var down error
	for _, agent := range agents {
		err := ask(ctx, e.link.As(agent).Within(askPatience))
		switch {
		case err == nil:
			allowed++
			d.add("user", checkOK, fmt.Sprintf("may act as agent %s of tenant %s", agent, e.tenant), "")
		case coded(err, api.Denied) && agent == api.Operator:
			d.add("user", checkOK, plainly(nil, err)+": an agent's user", "")
		case coded(err, api.Denied):
			d.add("user", checkWarn, plainly(nil, err), "--agent names an agent that this user may act as, --creds another user")
		default:
			down = err
		}
	}
	switch {
	case down != nil:
		d.fail("service", max(1, api.Exit(down)), "nexusd does not answer on this server: "+plainly(nil, down), "is nexusd running there, and is this an account that imports the service?")
	case allowed == 0:
		d.fail("user", 8, "it may act as none of the agents "+strings.Join(agents, ", "), "--agent NAME")
	default:
		d.add("service", checkOK, "nexusd answers", "")
	}
}

// askPatience is how long doctor waits for nexusd behind a server.
const askPatience = 10 * time.Second

// ask sends a read that every agent may send.
func ask(ctx context.Context, c *api.Client) error {
	for _, err := range c.Sessions(ctx) {
		return err
	}
	return nil
}

// httpPatience is how long doctor waits for HTTP.
const httpPatience = 5 * time.Second

// daemon checks what nexusd says of itself over HTTP.
func (d *doctor) daemon(ctx context.Context) {
	if d.http == "" {
		d.add("http", checkSkipped, "its address is not known here: whether nexusd is ready, its version, disk, scrub and clock are not checked", "--http http://HOST:8422 names it")
		return
	}
	if !strings.Contains(d.http, "://") {
		d.http = "http://" + d.http
	}
	client := &http.Client{Timeout: httpPatience}
	if d.ca != "" {
		b, err := os.ReadFile(d.ca)
		roots := x509.NewCertPool()
		if err != nil || !roots.AppendCertsFromPEM(b) {
			d.fail("http", 1, d.ca+" holds no certificate in PEM", "--tls-ca FILE")
			return
		}
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	}
	get := func(path string) (status int, body string, date time.Time, err error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(d.http, "/")+path, nil)
		if err != nil {
			return 0, "", date, err
		}
		if token := os.Getenv("NEXUS_TOKEN"); token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		a, err := client.Do(r)
		if err != nil {
			return 0, "", date, err
		}
		defer a.Body.Close()
		b, err := io.ReadAll(io.LimitReader(a.Body, 8<<20))
		date, _ = http.ParseTime(a.Header.Get("Date"))
		return a.StatusCode, string(b), date, err
	}
	began := time.Now()
	status, body, date, err := get("/readyz")
	ended := time.Now()
	switch {
	case err != nil:
		d.fail("http", 5, d.http+" does not answer: nexusd is down, or elsewhere ("+rootCause(err)+")", "start nexusd, or name the address with --http")
		return
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		d.fail("http", 8, strings.TrimSpace(body), "NEXUS_TOKEN has a token of nexusd's configuration (nexusd token makes one)")
		return
	case status == http.StatusServiceUnavailable:
		d.fail("ready", 5, "nexusd is up, and not ready: "+strings.TrimSpace(body), "its log says more")
	case status != http.StatusOK:
		d.fail("http", 1, fmt.Sprintf("%s/readyz answers %d", d.http, status), "is this nexusd's address?")
		return
	default:
		d.add("ready", checkOK, "the log is sound, and reads have caught up", "")
	}
	// The answer's time has whole seconds, and lies between the request and its answer.
	if skew := max(began.Add(-time.Second).Sub(date), date.Sub(ended)); date.IsZero() {
		d.add("clock", checkSkipped, "nexusd sent no time", "")
	} else if skew > 5*time.Second {
		d.add("clock", checkWarn, fmt.Sprintf("this machine's clock is %v from nexusd's: ids and times are out of order", skew.Round(time.Second)), "set both by NTP")
	} else {
		d.add("clock", checkOK, "within 5 s of nexusd's", "")
	}
	if status, body, _, err = get("/metrics"); err != nil || status != http.StatusOK {
		d.add("metrics", checkWarn, "they can't be read, so the rest is not checked", "look at "+d.http+"/metrics")
		return
	}
	d.measure(parseMetrics(body))
}

// rootCause is the innermost error, without the URL that surrounds it.
func rootCause(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}

// metrics is what doctor reads of nexusd's metrics.
type metrics struct {
	values map[string]float64
	info   map[string]string
}

// parseMetrics reads the samples without labels, and the labels of nexus_info.
func parseMetrics(text string) metrics {
	m := metrics{make(map[string]float64), make(map[string]string)}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), " ")
		if labels, found := strings.CutPrefix(s.Text(), "nexus_info{"); found {
			labels, _, _ = strings.Cut(labels, "}")
			for pair := range strings.SplitSeq(labels, ",") {
				k, v, _ := strings.Cut(pair, "=")
				if v, err := strconv.Unquote(v); err == nil {
					m.info[k] = v
				}
			}
		}
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.Contains(name, "{") {
			m.values[name] = v
		}
	}
	return m
}

// measure judges what nexusd counts.
func (d *doctor) measure(m metrics) {
	info := m.info
	if len(info) == 0 {
		d.add("version", checkWarn, "nexusd does not say its version", "is it older than this ledgerctl "+version+"?")
		return
	}
	if info["version"] != version && info["version"] != "0.0.0-dev" {
		d.add("version", checkWarn, fmt.Sprintf("nexusd is %s, ledgerctl is %s", info["version"], version), "use both of one release")
	} else {
		d.add("version", checkOK, "nexusd and ledgerctl are "+version, "")
	}
	kept := fmt.Sprintf("%s server, replicas %s, seal %s", info["server"], info["replicas"], info["seal"])
	switch {
	case info["sync"] == "always" && info["server"] == "external" && info["replicas"] == "1":
		d.add("durability", checkWarn, kept+": one copy, on one server", "a cluster of three keeps three")
	case info["sync"] == "always":
		d.add("durability", checkOK, kept+"; an event is on the disk before it is acknowledged", "")
	case info["sync"] == "later":
		d.add("durability", checkWarn, kept+"; the servers acknowledge events before they are on the disk", "set sync_interval: always in the jetstream block of each server")
	default:
		d.add("durability", checkWarn, kept+"; it can't be known from here whether the servers write to the disk before they acknowledge",
			"check that each has sync_interval: always (docs/OPERATIONS.md shows how to let nexusd ask)")
	}
	if fsync, ok := m.values["nexus_fsync_seconds"]; !ok {
		d.add("fsync", checkSkipped, "the disks are the external server's", "")
	} else if took := time.Duration(fsync * float64(time.Second)); took > 10*time.Millisecond {
		d.add("fsync", checkWarn, fmt.Sprintf("%v at the start: every append waits for it", took.Round(time.Microsecond)), "use a faster local disk")
	} else if took < 50*time.Microsecond {
		d.add("fsync", checkWarn, fmt.Sprintf("%v at the start: it probably does not reach a disk", took.Round(time.Microsecond)), "put --data on a disk without a volatile write cache")
	} else {
		d.add("fsync", checkOK, fmt.Sprintf("%v at the start", took.Round(time.Microsecond)), "")
	}
	switch free, ok := m.values["nexus_disk_free_bytes"]; {
	case !ok || free < 0:
		d.add("disk", checkSkipped, "its free room is not known", "")
	case free < 1<<30:
		d.add("disk", checkWarn, grouped(uint64(free))+" bytes are free", "make room: on a full disk appends stop")
	default:
		d.add("disk", checkOK, grouped(uint64(free))+" bytes are free", "")
	}
	switch done, ok := m.values["nexus_scrub_completed_timestamp_seconds"]; {
	case m.values["nexus_damaged"] > 0:
		d.fail("scrub", 6, "a stored record is damaged: appends are refused", "stop nexusd, and run nexusd repair with the same --data")
	case !ok:
		d.add("scrub", checkSkipped, "the files are the external server's", "")
	case done == 0:
		d.add("scrub", checkOK, "no damage found; not all was read since the start yet", "")
	default:
		d.add("scrub", checkOK, "all that was stored then was read without a fault at "+time.Unix(int64(done), 0).UTC().Format(time.RFC3339), "")
	}
	if n := m.values["nexus_chains_set_aside"]; n > 0 {
		d.add("sessions", checkWarn, fmt.Sprintf("%.0f are read-only, because a stored event breaks a rule", n), "ledgerctl verify names them")
	}
}
