package testhost

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browserPatience bounds every wait for the browser: a page that hangs has to name
// itself, and a busy machine is given its time.
const browserPatience = 60 * time.Second

// Browser is a headless Chromium of a test's own, with a profile that nobody had
// before. It is spoken to through two pipes in the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol), so it listens nowhere, and by
// one goroutine at a time.
type Browser struct {
	in, out *os.File
	said    *bufio.Reader // out
	last    int           // id of a command
	tabs    map[string]*Tab
}

// Tab is one page in a browser.
type Tab struct {
	browser  *Browser
	session  string
	loaded   bool
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
	program := tool("chromium")
	if !filepath.IsAbs(program) {
		program = tool("google-chrome-stable") // on Ubuntu
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
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
	t.Cleanup(func() {
		in.Close()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and its children
		cmd.Wait()
		out.Close()
		if t.Failed() && said.Len() > 0 {
			t.Logf("the browser said:\n%s", said.String())
		}
	})
	return &Browser{in: in, out: out, said: bufio.NewReader(out), tabs: map[string]*Tab{}}
}

// message is what the browser says: the answer to a command, or an event of a tab.
type message struct {
	ID        int
	SessionID string
	Method    string
	Params    json.RawMessage
	Result    json.RawMessage
	Error     *struct{ Message string }
}

// read hands out events until done says that the last message was the one to wait for.
func (b *Browser) read(done func(message) bool) error {
	b.out.SetReadDeadline(time.Now().Add(browserPatience))
	for {
		text, err := b.said.ReadBytes(0)
		if err != nil {
			return fmt.Errorf("wait for the browser: %w", err)
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			return fmt.Errorf("read what the browser says: %w", err)
		}
		if tab := b.tabs[m.SessionID]; tab != nil && m.ID == 0 {
			tab.event(m.Method, m.Params)
		}
		if done(m) {
			return nil
		}
	}
}

func (b *Browser) call(session, method string, params map[string]any, v any) error {
	b.last++
	text, err := json.Marshal(struct {
		ID        int            `json:"id"`
		SessionID string         `json:"sessionId,omitempty"`
		Method    string         `json:"method"`
		Params    map[string]any `json:"params,omitempty"`
	}{b.last, session, method, params})
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var answer message
	err = b.read(func(m message) bool { answer = m; return m.ID == b.last })
	if err == nil && answer.Error != nil {
		err = errors.New(answer.Error.Message)
	}
	if err == nil && v != nil {
		err = json.Unmarshal(answer.Result, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

type thrown struct {
	Text      string
	Exception struct{ Description string }
}

func (e thrown) String() string { return e.Text + " " + e.Exception.Description }

// event keeps what a test wants to know of a page.
func (tab *Tab) event(method string, params json.RawMessage) {
	var p struct {
		Request          struct{ URL string }
		Type             string // of a console message
		Args             []struct{ Value any }
		ExceptionDetails thrown
		Entry            struct{ Level, Text string }
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return
	}
	switch method {
	case "Page.loadEventFired":
		tab.loaded = true
	case "Network.requestWillBeSent":
		tab.requests = append(tab.requests, p.Request.URL)
	case "Runtime.exceptionThrown":
		tab.problems = append(tab.problems, p.ExceptionDetails.String())
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
	tab := &Tab{browser: b}
	var target struct{ TargetID, SessionID string }
	err := b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true}, &target) // what lies behind another is not drawn
	if err == nil {
		err = b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	}
	if err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	tab.session = target.SessionID
	for _, domain := range []string{"Network", "Page", "Runtime", "Log"} {
		tab.call(t, domain+".enable", nil, nil)
	}
	tab.Look(t, view)
	b.tabs[tab.session] = tab // events count from here
	tab.call(t, "Page.navigate", map[string]any{"url": url}, nil)
	if !tab.loaded {
		err = b.read(func(message) bool { return tab.loaded })
	}
	if err != nil {
		t.Fatalf("load %s: %v", url, err)
	}
	return tab
}

func (tab *Tab) call(t testing.TB, method string, params map[string]any, v any) {
	t.Helper()
	if err := tab.browser.call(tab.session, method, params, v); err != nil {
		t.Fatal(err)
	}
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
	tab.call(t, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": view.Width, "height": view.Height, "deviceScaleFactor": 1, "mobile": view.Width < 600}, nil)
	tab.call(t, "Emulation.setEmulatedMedia",
		map[string]any{"media": media, "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Eval runs JavaScript in the page and reads its value, or that of its promise,
// into v, which may be nil.
func (tab *Tab) Eval(t testing.TB, script string, v any) {
	t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *thrown
	}
	tab.call(t, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		t.Fatalf("evaluate %s: %v", script, answer.ExceptionDetails)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(answer.Result.Value, v); err != nil {
		t.Fatalf("evaluate %s: %v", script, err)
	}
}

// Move puts the mouse somewhere in the window.
func (tab *Tab) Move(t testing.TB, x, y float64) {
	t.Helper()
	tab.call(t, "Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": x, "y": y}, nil)
}

// Requests are the addresses that the page asked for, its own first.
func (tab *Tab) Requests(t testing.TB) []string {
	t.Helper()
	tab.Eval(t, "0", nil) // what was said before its answer has been read then
	return tab.requests
}

// Problems are the page's exceptions, and errors and warnings on its console.
func (tab *Tab) Problems(t testing.TB) []string {
	t.Helper()
	tab.Eval(t, "0", nil)
	return tab.problems
}

// Picture is the whole page as PNG.
func (tab *Tab) Picture(t testing.TB) []byte {
	t.Helper()
	var answer struct{ Data []byte } // as base64, like every JSON of bytes
	tab.call(t, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &answer)
	return answer.Data
}
