package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/apply"
	"hclbench/hcl"
	"hclbench/provision"
)

func TestNotices(t *testing.T) {
	got := make(chan notice, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n notice
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil || r.Method != "POST" {
			t.Errorf("%s with %v", r.Method, err)
		}
		n.Time = time.Time{}
		got <- n
	}))
	defer hook.Close()
	file := filepath.Join(t.TempDir(), "said")
	all := []hcl.Notice{
		{On: []string{hcl.NoticeEnd, hcl.NoticeFailure, hcl.NoticeIdle}, URL: provision.Secret(hook.URL + "/secret"), Idle: time.Millisecond},
		{On: []string{hcl.NoticeEnd}, Command: []provision.Text{provision.Plain("sh"), provision.Plain("-c"), provision.Plain("cat >" + file)}},
	}
	next := func() notice {
		t.Helper()
		select {
		case n := <-got:
			return n
		case <-time.After(time.Minute):
			t.Fatal("no notice came")
		}
		return notice{}
	}

	n := newNotices(t.Context(), all)
	n.hear(begun{Run: "r1", Lab: "lab", Command: "apply", Hosts: []begunHost{{Name: "paid", PricePerHour: 20}, {Name: "free"}}})
	n.hear(apply.Event{Type: apply.Down, Host: "free"})
	n.hear(apply.Event{Type: apply.Down, Host: "paid"})
	want := notice{Notice: "idle", Lab: "lab", Run: "r1", Host: "paid", Text: "hcl apply of lab: host paid is paid for and has had nothing to do for 1ms"}
	if diff := cmp.Diff(want, next()); diff != "" {
		t.Errorf("notice (-want +got):\n%s", diff)
	}
	n.hear(apply.Event{Type: apply.Failed, Host: "free", Engine: "vllm.h200", Message: "out of memory\nwith a page of log"})
	want = notice{Notice: "failure", Lab: "lab", Run: "r1", Host: "free", Engine: "vllm.h200", Text: "hcl apply of lab: free vllm.h200: out of memory"}
	if diff := cmp.Diff(want, next()); diff != "" {
		t.Errorf("notice (-want +got):\n%s", diff)
	}
	outcome := ended{Run: "r1", Planned: 2, Valid: 2}
	n.hear(outcome)
	want = notice{Notice: "end", Lab: "lab", Run: "r1", Text: "hcl apply of lab: Run r1 is over: 2 valid", Outcome: &outcome}
	if diff := cmp.Diff(want, next()); diff != "" {
		t.Errorf("notice (-want +got):\n%s", diff)
	}
	if err := n.problems(); err != nil {
		t.Errorf("problems: %v", err)
	}
	var said notice
	if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &said) != nil || said.Notice != "end" {
		t.Errorf("the command read %q, %v", text, err)
	}
}

func TestNoticesThatFail(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "no such channel: "+r.URL.Path)
	}))
	gone := httptest.NewServer(nil)
	gone.Close()
	defer hook.Close()
	n := newNotices(t.Context(), []hcl.Notice{
		{On: []string{hcl.NoticeFailure}, URL: provision.Secret(hook.URL + "/canary")},
		{On: []string{hcl.NoticeFailure}, URL: provision.Secret(gone.URL + "/canary")},
		{On: []string{hcl.NoticeFailure}, Command: []provision.Text{provision.Plain("sh"), provision.Plain("-c"), provision.Plain("echo broken $0; exit 3"), provision.Secret("canary")}},
		{On: []string{hcl.NoticeEnd}, Command: []provision.Text{provision.Plain("not told, for this is no good end")}},
	})
	n.hear(begun{Run: "r1"})
	n.hear(ended{Run: "r1", Error: "the box burns"})
	err := n.problems()
	if err == nil {
		t.Fatal("no problem")
	}
	for _, want := range []string{"post to (sensitive): 403 Forbidden: no such channel: (sensitive)", "post to (sensitive): dial tcp", "run sh: exit status 3: broken (sensitive)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("problems = %v\nwithout %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "not told") {
		t.Errorf("problems = %v", err)
	}
}
