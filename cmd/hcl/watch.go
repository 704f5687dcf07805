package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/plain"
	"hclbench/report/draw"
	"hclbench/report/figure"
	"hclbench/report/page"
	"hclbench/results"
)

func attachVerb(t *console) *cobra.Command {
	var lab labFlags
	var asJSON bool
	c := verb("attach", atMost(1),
		func(ctx context.Context, args []string) error { return runAttach(ctx, t, lab, args, asJSON) })
	lab.addPath(c, "")
	c.Flags().BoolVar(&asJSON, "json", false, "print what happens as one JSON object a line, and nothing else")
	c.ValidArgsFunction = firstOnly(journalNames)
	return c
}

func runAttach(ctx context.Context, t *console, lab labFlags, args []string, asJSON bool) error {
	store, run, err := journalOf(lab, args)
	if err != nil {
		return err
	}
	end, err := follow(ctx, store, run, t.audience(asJSON))
	if ctx.Err() != nil {
		return &exit{exitInterrupted, errors.New("interrupted; the run goes on")}
	}
	if err == nil && !asJSON {
		_, err = fmt.Fprintln(t.stdout, end)
	}
	return err
}

func watchVerb(t *console) *cobra.Command {
	var lab labFlags
	var address string
	c := verb("watch", atMost(1),
		func(ctx context.Context, args []string) error { return runWatch(ctx, t, lab, args, address) })
	lab.addPath(c, "")
	lab.addStore(c)
	c.Flags().StringVar(&address, "web", "", "serve the page at `address`; port 0 takes a free one")
	c.ValidArgsFunction = firstOnly(journalNames)
	return c
}

func runWatch(ctx context.Context, t *console, lab labFlags, args []string, address string) error {
	if address == "" {
		return usage("say where to serve the page: --web 127.0.0.1:0\nTo follow the run in this terminal: hcl attach")
	}
	store, run, err := journalOf(lab, args)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	at := listener.Addr().(*net.TCPAddr)
	page := newRunPage(t, lab, store, run)
	link := "http://" + at.String() + "/"
	if !at.IP.IsLoopback() {
		page.token = rand.Text()
		link += "?token=" + page.token
	}
	fmt.Fprintf(t.stdout, "Run %s: %s\n", run, link)

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
	return &exit{exitInterrupted, errors.New("interrupted; the run is not")}
}

func journalOf(of labFlags, args []string) (store, run string, err error) {
	store = storeDir(of.dir())
	runs, err := results.Journals(store)
	switch {
	case err != nil:
		return "", "", err
	case len(runs) == 0:
		return "", "", fmt.Errorf("nothing was run in %s yet", relative(of.dir()))
	case len(args) == 0:
		return store, runs[0], nil
	}
	run, err = oneRun(args[0], runs)
	return store, run, err
}

const wasKilled = "run %s ended without a word: its process was killed. Its hosts clean themselves when the lease runs out; " +
	"hcl destroy does it now, and the next apply goes on from there"

// follow tells an audience what a run's journal says, and returns its end.
func follow(ctx context.Context, store, run string, to audience) (end ended, err error) {
	err = results.Follow(ctx, store, run, func(line []byte) error {
		what, err := heardOf(line)
		if err != nil {
			return fmt.Errorf("read the journal of run %s: %w", run, err)
		}
		if e, ok := what.(ended); ok {
			end = e
		}
		to(what)
		return nil
	})
	if end.Type == "" {
		to(ended{Type: "outcome", Run: run}) // the view is taken down in any case
		err = cmp.Or(err, fmt.Errorf(wasKilled, run))
	}
	return end, err
}

func heardOf(line []byte) (any, error) {
	var kind struct{ Type string }
	err := json.Unmarshal(line, &kind)
	switch {
	case err != nil:
		return nil, err
	case kind.Type == "run":
		return decoded[begun](line)
	case kind.Type == "outcome":
		return decoded[ended](line)
	}
	return decoded[apply.Event](line)
}

func decoded[T any](line []byte) (any, error) {
	var v T
	err := json.Unmarshal(line, &v)
	return v, err
}

// soFar gives what a run has measured by now, for its report.
func soFar(ctx context.Context, t *console, lab labFlags, run string, to reader) error {
	store, err := lab.existing(ctx, t)
	if err != nil {
		return err
	}
	defer store.Close()
	of, err := runNamed(ctx, store, "", run)
	if err != nil {
		return err
	}
	v := &shown{store: store}
	if err := v.ofRun(ctx, of); err != nil {
		return err
	}
	var published []figure.Reference
	if v.said != nil {
		published = v.said.References
	}
	rows, about, err := v.about(ctx, published)
	if err != nil {
		return err
	}
	return to(rows, about)
}

// watchPage follows /events and draws what it hears.
//
//go:embed watch.html
var watchPage []byte

// runPage is the page and the events that it draws. Nothing can be changed through it.
type runPage struct {
	store, run string
	token      string // asked for; empty on loopback
	// measured gives what the run has measured by now.
	measured func(ctx context.Context, to reader) error
}

// reader makes something of results.
type reader func(rows []results.Row, about figure.About) error

func newRunPage(t *console, lab labFlags, store, run string) *runPage {
	return &runPage{store: store, run: run, measured: func(ctx context.Context, to reader) error {
		return soFar(ctx, t, lab, run, to)
	}}
}

const nothingFromElsewhere = "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

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
		p.serveEvents(w, r)
	case r.URL.Path == "/chart.svg":
		p.serveChart(w, r)
	case r.URL.Path == "/report":
		p.serveReport(w, r)
	default:
		http.NotFound(w, r)
	}
}

// allows reports whether a request may see the run. On loopback a name that is not loopback's is refused:
// a page from elsewhere could have itself resolved to this machine (DNS rebinding).
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

// serveEvents sends the run's journal as server-sent events. A reader that was cut off says how many lines it has.
func (p *runPage) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	var have int
	fmt.Sscan(r.Header.Get("Last-Event-ID"), &have)
	n, told, still := 0, 0, forecasts{}
	var at time.Time // of what was heard last
	err := results.Follow(r.Context(), p.store, p.run, func(line []byte) error {
		if what, err := heardOf(line); err == nil { // of another version's the page makes what it can
			still.hear(what)
			if e, ok := what.(apply.Event); ok {
				at = e.Time
			}
		}
		if n++; n <= have {
			return nil
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", n, line); err != nil {
			return err
		}
		if left := int(still.left(at).Seconds()); left > 0 || told > 0 { // said again, as the page counts down from when it was
			told = left
			if _, err := fmt.Fprintf(w, "event: left\ndata: %d\n\n", left); err != nil {
				return err
			}
		}
		return flush.Flush()
	})
	if err == nil {
		// Nothing more will come: the page need not ask again.
		fmt.Fprint(w, "event: over\ndata: {}\n\n")
	}
}

// serveChart gives what a benchmark's report would show first, drawn of what is measured by now.
func (p *runPage) serveChart(w http.ResponseWriter, r *http.Request) {
	const wide, narrow = 960, 400
	ask, width := r.URL.Query(), wide
	if ask.Has("narrow") {
		width = narrow
	}
	svg := ""
	err := p.measured(r.Context(), func(rows []results.Row, about figure.About) error {
		svg = draw.HeroSVG(rows, about, ask.Get("benchmark"), float64(width), ask.Has("dark"))
		return nil
	})
	switch {
	case err != nil:
		http.Error(w, plain.Text(err.Error()), http.StatusInternalServerError)
	case svg == "":
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "image/svg+xml")
		fmt.Fprint(w, svg)
	}
}

// serveReport gives the page that hcl report would write by now. It has a policy of its own.
func (p *runPage) serveReport(w http.ResponseWriter, r *http.Request) {
	var html bytes.Buffer
	err := p.measured(r.Context(), func(rows []results.Row, about figure.About) error {
		return page.HTML(&html, rows, about)
	})
	if err != nil {
		http.Error(w, plain.Text(err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	html.WriteTo(w)
}
