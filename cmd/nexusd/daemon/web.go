package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// web serves health and metrics.
type web struct {
	server   *http.Server
	listener net.Listener
	url      string
}

// startWeb listens on addr and serves until stop. failed is called if serving
// ends before that.
func startWeb(addr string, registry *prometheus.Registry, ready func() error, failed func(error)) (*web, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, portInUse("http: %w", "--http", "NEXUS_HTTP", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	w := &web{url: "http://" + l.Addr().String(), listener: l, server: &http.Server{
		Handler: localHosts(addr, l.Addr(), mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}}
	go func() {
		if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed(fmt.Errorf("http on %s: %w", l.Addr(), err))
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

// localHosts lets through only requests for this machine's own names, if the
// listener is on loopback. A page of another site can make its name resolve to
// 127.0.0.1 (DNS rebinding) and would read the answers; its Host header gives it
// away. listen is the address as it was configured.
func localHosts(listen string, at net.Addr, next http.Handler) http.Handler {
	a, ok := at.(*net.TCPAddr)
	if !ok || !a.IP.IsLoopback() {
		return next
	}
	configured, _, _ := net.SplitHostPort(listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch host := strings.ToLower(hostName(r.Host)); host {
		case "localhost", "127.0.0.1", "::1", a.IP.String(), strings.ToLower(configured):
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "the Host header names no host of this listener", http.StatusForbidden)
		}
	})
}

// hostName returns a Host header without its port and without the brackets of an
// IPv6 address.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func (w *web) stop(ctx context.Context) error { return w.server.Shutdown(ctx) }
