package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"hclbench/results"
)

// watchPage follows /events and draws what it hears.
//
//go:embed watch.html
var watchPage []byte

// serveRun serves the page of a run until ctx ends.
func serveRun(ctx context.Context, w io.Writer, store, run, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	at := listener.Addr().(*net.TCPAddr)
	page := &runPage{store: store, run: run}
	link := "http://" + at.String() + "/"
	if !at.IP.IsLoopback() {
		page.token = rand.Text()
		link += "?token=" + page.token
	}
	fmt.Fprintf(w, "Run %s: %s\n", run, link)

	server := &http.Server{
		Handler:           page,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // a page that is followed ends with us
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return context.Cause(ctx)
}

// runPage is the page and the events that it draws. Nothing can be changed
// through it.
type runPage struct {
	store, run string
	token      string // asked for; empty on loopback
}

const nothingFromElsewhere = "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (p *runPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", nothingFromElsewhere)
	head.Set("Cache-Control", "no-store")
	head.Set("Referrer-Policy", "no-referrer") // the link may hold the token
	head.Set("X-Content-Type-Options", "nosniff")
	switch {
	case !p.allows(r):
		http.Error(w, "this page needs the link that hcl watch printed", http.StatusForbidden)
	case r.Method != http.MethodGet:
		http.Error(w, "this page is read-only", http.StatusMethodNotAllowed)
	case r.URL.Path == "/":
		head.Set("Content-Type", "text/html; charset=utf-8")
		w.Write(watchPage)
	case r.URL.Path == "/events":
		p.events(w, r)
	default:
		http.NotFound(w, r)
	}
}

// allows reports whether a request may see the run. On loopback a name that is
// not loopback's is refused: a page from elsewhere could have itself resolved to
// this machine (DNS rebinding).
func (p *runPage) allows(r *http.Request) bool {
	if p.token != "" {
		return subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(p.token)) == 1
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// events sends the run's journal as server-sent events. A reader that was cut
// off says how many lines it has.
func (p *runPage) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	var have int
	fmt.Sscan(r.Header.Get("Last-Event-ID"), &have)
	n := 0
	err := results.Follow(r.Context(), p.store, p.run, func(line []byte) error {
		if n++; n <= have {
			return nil
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", n, line); err != nil {
			return err
		}
		return flush.Flush()
	})
	if err == nil {
		// Nothing more will come: the page need not ask again.
		fmt.Fprint(w, "event: over\ndata: {}\n\n")
	}
}
