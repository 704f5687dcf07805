package testhost

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browserPatience bounds every wait for the browser: a page that hangs has to name
// itself, and a busy machine is given its time.
const browserPatience = 60 * time.Second

// Browser is a headless Chromium of a test's own, with a profile that nobody had
// before. It is spoken to through two pipes in the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol), so it listens nowhere.
type Browser struct {
	cmd *exec.Cmd
	in  io.Writer

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	tabs    map[string]*Tab // by session
	ended   error           // why nothing comes any more
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Tab is one page in a browser.
type Tab struct {
	browser *Browser
	session string
	loaded  chan struct{}

	mu       sync.Mutex
	requests []string
	problems []string
}

// View is how a page is looked at.
type View struct {
	Width, Height int
	Dark          bool
	Print         bool // as printed, not as on a screen
}

// NewBrowser starts a browser that ends with the test.
func NewBrowser(t testing.TB) *Browser {
	t.Helper()
	profile := t.TempDir()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+profile)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // its 3 and 4
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = browserPatience
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the browser (scripts/prepare installs it): %v", err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &Browser{cmd: cmd, in: in, waiting: map[int]chan reply{}, tabs: map[string]*Tab{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read(out)
	}()
	t.Cleanup(func() {
		in.Close()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and its children
		cmd.Wait()
		<-done
		out.Close()
		if t.Failed() && said.Len() > 0 {
			t.Logf("the browser said:\n%s", said.String())
		}
	})
	return b
}

// read hands out what the browser says until it ends.
func (b *Browser) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.ended = fmt.Errorf("the browser has ended: %w", err)
			for id, c := range b.waiting {
				close(c)
				delete(b.waiting, id)
			}
			return
		}
		var m struct {
			ID        int
			SessionID string
			Method    string
			Params    json.RawMessage
			reply
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			continue // not for us
		}
		b.mu.Lock()
		tab := b.tabs[m.SessionID]
		if c := b.waiting[m.ID]; c != nil && m.ID > 0 {
			delete(b.waiting, m.ID)
			c <- m.reply // it has room
		}
		b.mu.Unlock()
		if tab != nil && m.Method != "" {
			tab.event(m.Method, m.Params)
		}
	}
}

// call sends a command and reads its answer into v, which may be nil.
func (b *Browser) call(session, method string, params, v any) error {
	b.mu.Lock()
	if b.ended != nil {
		b.mu.Unlock()
		return b.ended
	}
	b.last++
	id, c := b.last, make(chan reply, 1)
	b.waiting[id] = c
	message := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		message["sessionId"] = session
	}
	text, err := json.Marshal(message)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case r, ok := <-c:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", method)
		case r.Error != nil:
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		case v == nil:
			return nil
		}
		return json.Unmarshal(r.Result, v)
	case <-time.After(browserPatience):
		return fmt.Errorf("%s: no answer in %s", method, browserPatience)
	}
}

// event keeps what a test wants to know of a page.
func (tab *Tab) event(method string, params json.RawMessage) {
	var p struct {
		Request          struct{ URL string }
		Type             string // of a console message
		Args             []struct{ Value any }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Entry struct{ Level, Text string }
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch method {
	case "Page.loadEventFired":
		close(tab.loaded)
	case "Network.requestWillBeSent":
		tab.requests = append(tab.requests, p.Request.URL)
	case "Runtime.exceptionThrown":
		tab.problems = append(tab.problems, p.ExceptionDetails.Text+" "+p.ExceptionDetails.Exception.Description)
	case "Runtime.consoleAPICalled":
		if p.Type == "error" || p.Type == "warning" {
			tab.problems = append(tab.problems, fmt.Sprint(p.Type, ": ", p.Args))
		}
	case "Log.entryAdded":
		if p.Entry.Level == "error" || p.Entry.Level == "warning" {
			tab.problems = append(tab.problems, p.Entry.Level+": "+p.Entry.Text)
		}
	}
}

// Open shows a page and waits until it is loaded.
func (b *Browser) Open(t testing.TB, url string, view View) *Tab {
	t.Helper()
	tab := &Tab{browser: b, loaded: make(chan struct{})}
	var target struct{ TargetID, SessionID string }
	err := b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true}, &target) // what lies behind another is not drawn
	if err == nil {
		err = b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	}
	if err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	tab.session = target.SessionID
	for _, method := range []string{"Network.enable", "Page.enable", "Runtime.enable", "Log.enable"} {
		tab.prepare(t, method, map[string]any{})
	}
	tab.Look(t, view)
	b.mu.Lock()
	b.tabs[tab.session] = tab // events count from here
	b.mu.Unlock()
	if err := b.call(tab.session, "Page.navigate", map[string]any{"url": url}, nil); err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	select {
	case <-tab.loaded:
	case <-time.After(browserPatience):
		t.Fatalf("%s is not loaded after %s", url, browserPatience)
	}
	return tab
}

// Look has the page looked at in another way from now on.
func (tab *Tab) Look(t testing.TB, view View) {
	t.Helper()
	media, scheme := "screen", "light"
	if view.Print {
		media = "print"
	}
	if view.Dark {
		scheme = "dark"
	}
	tab.prepare(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": view.Width, "height": view.Height, "deviceScaleFactor": 1, "mobile": view.Width < 600})
	tab.prepare(t, "Emulation.setEmulatedMedia", map[string]any{"media": media, "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

func (tab *Tab) prepare(t testing.TB, method string, params map[string]any) {
	t.Helper()
	if err := tab.browser.call(tab.session, method, params, nil); err != nil {
		t.Fatalf("prepare the tab: %v", err)
	}
}

// Eval runs JavaScript in the page and reads its value, or that of its promise,
// into v, which may be nil.
func (tab *Tab) Eval(t testing.TB, script string, v any) {
	t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := tab.browser.call(tab.session, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &answer)
	if err == nil && answer.ExceptionDetails != nil {
		err = errors.New(answer.ExceptionDetails.Text + " " + answer.ExceptionDetails.Exception.Description)
	}
	if err == nil && v != nil {
		err = json.Unmarshal(answer.Result.Value, v)
	}
	if err != nil {
		t.Fatalf("evaluate %s: %v", script, err)
	}
}

// Move puts the mouse somewhere in the window.
func (tab *Tab) Move(t testing.TB, x, y float64) {
	t.Helper()
	if err := tab.browser.call(tab.session, "Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": x, "y": y}, nil); err != nil {
		t.Fatal(err)
	}
}

// Requests are the addresses that the page asked for, its own first.
func (tab *Tab) Requests() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return append([]string{}, tab.requests...)
}

// Problems are the page's exceptions, and errors and warnings on its console.
func (tab *Tab) Problems() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return append([]string{}, tab.problems...)
}

// Picture is the whole page as PNG.
func (tab *Tab) Picture(t testing.TB) []byte {
	t.Helper()
	var answer struct{ Data []byte } // as base64, like every JSON of bytes
	if err := tab.browser.call(tab.session, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Data
}
