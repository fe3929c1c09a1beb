package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer"
	"nexus/cmd/internal/web"
)

// webServer serves health, metrics, the Model Context Protocol and /v1.
type webServer struct {
	server   *http.Server
	listener net.Listener
	url      string
}

// maxConnections bounds the connections of HTTP: a quarter of the fewest files that systems
// give a process.
const maxConnections = 256

// startWeb listens and serves until stop. failed is called if serving ends before that.
//
// /healthz is open to all. /readyz and /metrics are open on loopback; beyond it they
// need a token, and so does /tlog/checkpoint, unless it is public. mcp, v1 and pages decide for
// themselves who may use them.
func startWeb(c config.Config, registry *prometheus.Registry, ready func() error, notes func() []string, newest func() []byte, mcp, v1 http.Handler, pages *explorer.Explorer, failed func(error)) (*webServer, error) {
	host, _, err := net.SplitHostPort(c.HTTP)
	if err != nil {
		return nil, err
	}
	guard, scheme := c.Guard(host), "http"
	guard.Connections, guard.Pages = &web.Connections{Max: maxConnections}, pages.Caller
	l, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return nil, portInUse("http: %w", "--http", "NEXUS_HTTP", err)
	}
	address := l.Addr().String()
	private := func(h http.Handler) http.Handler { return h }
	if !config.IsLoopback(host) {
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("tls_cert, tls_key: %w", err), l.Close())
		}
		l, scheme = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}), "https"
		private = func(h http.Handler) http.Handler { return web.Require(web.Read, h) }
	}
	mux := http.NewServeMux()
	mux.Handle("/ui/", pages)
	mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusSeeOther))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	if !c.PagesOnly {
		mux.Handle("GET /readyz", private(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
			for _, note := range notes() {
				fmt.Fprintln(w, note)
			}
		})))
		mux.Handle("GET /metrics", private(promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
		tree := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			note := newest()
			if note == nil {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write(note)
		})
		if c.Checkpoint.Public {
			mux.Handle("GET /tlog/checkpoint", tree)
		} else {
			mux.Handle("GET /tlog/checkpoint", private(tree))
		}
		mux.Handle("/mcp", mcp)
		mux.Handle("/v1/", v1)
	}
	w := &webServer{url: scheme + "://" + address, listener: l, server: &http.Server{
		Handler: guard.Handler(mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		ConnState: guard.Connections.Changed, ConnContext: guard.Connections.Context,
	}}
	go func() {
		if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed(fmt.Errorf("http on %s: %w", address, err))
		}
	}()
	return w, nil
}

// portInUse returns err in format. If another program has the port, it names the setting
// that takes another one.
func portInUse(format, flag, variable string, err error) error {
	err = fmt.Errorf(format, err)
	if errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "address already in use") { // the embedded server hands on the text only
		return fmt.Errorf("%w; choose another port with %s or %s, or stop the program that has this one", err, flag, variable)
	}
	return err
}

func (w *webServer) stop(ctx context.Context) error { return w.server.Shutdown(ctx) }
