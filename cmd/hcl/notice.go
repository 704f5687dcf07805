package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/apply"
	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/provision"
)

type notice struct {
	Time    time.Time `json:"time"`
	Notice  string    `json:"notice"` // "end", "failure" or "idle"
	Text    string    `json:"text"`   // all of it, for people
	Lab     string    `json:"lab"`
	Run     string    `json:"run"`
	Host    string    `json:"host,omitempty"`
	Engine  string    `json:"engine,omitempty"`
	Outcome *ended    `json:"outcome,omitempty"` // of the run, when it is over
}

// noticeTimeout is how long telling one of them may take. The end of apply waits for it.
const noticeTimeout = 15 * time.Second

// notices is the audience that tells those whom the lab names. Not being able to
// is kept for the end: it must not disturb a measurement.
type notices struct {
	ctx  context.Context
	all  []hcl.Notice
	run  begun
	paid map[string]bool          // hosts that have a price
	idle map[string][]*time.Timer // by host: running while it has nothing to do

	sending sync.WaitGroup
	mu      sync.Mutex
	over    bool // the run is: a timer that has just run out says nothing
	failed  []error
}

// newNotices returns the audience for a lab's notices. They are sent even when
// ctx has ended, since its end is worth a notice.
func newNotices(ctx context.Context, all []hcl.Notice) *notices {
	return &notices{ctx: context.WithoutCancel(ctx), all: all, paid: map[string]bool{}, idle: map[string][]*time.Timer{}}
}

func (n *notices) hear(what any) {
	switch what := what.(type) {
	case begun:
		n.run = what
		for _, h := range what.Hosts {
			n.paid[h.Name] = h.PricePerHour > 0
		}
	case apply.Event:
		n.event(what)
	case ended:
		n.end(what)
	}
}

func (n *notices) event(e apply.Event) {
	for _, t := range n.idle[e.Host] {
		t.Stop()
	}
	delete(n.idle, e.Host)
	if e.Type == apply.Failed {
		what, _, _ := strings.Cut(e.Message, "\n")
		n.tell(hcl.NoticeFailure, notice{Host: e.Host, Engine: e.Engine, Text: strings.TrimSpace(e.Host+" "+e.Engine) + ": " + what})
	}
	if !n.paid[e.Host] || e.Type != apply.Down && e.Type != apply.Failed {
		return
	}
	for _, one := range n.all {
		if slices.Contains(one.On, hcl.NoticeIdle) {
			n.idle[e.Host] = append(n.idle[e.Host], time.AfterFunc(one.Idle, func() {
				text := fmt.Sprintf("host %s is paid for and has had nothing to do for %s", e.Host, one.Idle)
				n.tellOne(one, hcl.NoticeIdle, notice{Host: e.Host, Text: text})
			}))
		}
	}
}

func (n *notices) end(e ended) {
	for _, timers := range n.idle {
		for _, t := range timers {
			t.Stop()
		}
	}
	about := hcl.NoticeEnd
	if e.Error != "" {
		about = hcl.NoticeFailure
	}
	n.tell(about, notice{Text: e.String(), Outcome: &e})
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	n.sending.Wait()
}

// problems are those who could not be told, once the run is over.
func (n *notices) problems() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.failed...)
}

func (n *notices) tell(about string, what notice) {
	for _, one := range n.all {
		if slices.Contains(one.On, about) {
			n.tellOne(one, about, what)
		}
	}
}

func (n *notices) tellOne(one hcl.Notice, about string, what notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return
	}
	what.Time, what.Notice, what.Lab, what.Run = time.Now(), about, n.run.Lab, n.run.Run
	what.Text = fmt.Sprintf("hcl %s of %s: %s", n.run.Command, n.run.Lab, what.Text)
	n.sending.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, noticeTimeout)
		defer cancel()
		if err := send(ctx, one, what); err != nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.failed = append(n.failed, fmt.Errorf("notice of %s: %w", about, err))
		}
	})
}

func send(ctx context.Context, to hcl.Notice, what notice) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	var errs []error
	if len(to.Command) > 0 {
		errs = append(errs, runNotice(ctx, to.Command, text))
	}
	if to.URL.Reveal() != "" {
		errs = append(errs, post(ctx, to.URL, text))
	}
	return errors.Join(errs...)
}

func runNotice(ctx context.Context, command []provision.Text, text []byte) error {
	var words []string
	for _, w := range command {
		words = append(words, w.Reveal())
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w: %s", command[0], err, quoted(out, command...))
	}
	return nil
}

// post names the address only as the lab shows it: a webhook's is its password.
func post(ctx context.Context, to provision.Text, text []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Reveal(), bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("post to %s: it is not an address", to)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if inner, ok := err.(*url.Error); ok {
		err = inner.Err
	}
	if err != nil {
		return fmt.Errorf("post to %s: %w", to, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return fmt.Errorf("post to %s: %s: %s", to, resp.Status, quoted(said, to, provision.Secret(r.URL.RequestURI())))
	}
	return nil
}

// quoted is what somebody said who was told secrets, and may have quoted them.
func quoted(said []byte, told ...provision.Text) string {
	const shown = 300 // bytes
	var secrets []string
	for _, text := range told {
		secrets = append(secrets, text.Secrets()...)
	}
	return plain.Cut(plain.NewSecrets(secrets...).Line(string(bytes.TrimSpace(said))), shown)
}
