package apply

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"hclbench/engines"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

// TestSameModel: what is compared between hosts is one revision of a repository, or what lies at
// one place of them.
func TestSameModel(t *testing.T) {
	of := func(repo, revision, source string) sameModel {
		in := plan.Member{}
		in.Engine = &engines.Engine{Model: &engines.Model{Repo: repo, Revision: revision}}
		in.Container.Mounts = []provision.Mount{{Source: source, Target: "/model"}}
		return sameModelOf(in)
	}
	for _, c := range []struct {
		a, b sameModel
		same bool
	}{
		{of("org/m", "", "/a"), of("org/m", "main", "/b"), true},
		{of("org/m", "", "/a"), of("org/m", "v2", "/a"), false},
		{of("/model", "", "/a"), of("/model", "", "/a"), true},
		{of("/model", "", "/a"), of("/model", "", "/b"), false},
		{of("/model/m", "", "/a"), of("/a/m", "", "/b"), true},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%+v and %+v: the same is %v", c.a, c.b, !c.same)
		}
	}
}

// TestOnHosts: hosts work side by side, each in the members' order; the first failure ends the
// others, of which only what costs a host is told, and that once.
func TestOnHosts(t *testing.T) {
	var members []plan.Member
	hosts := []*provision.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for _, h := range []int{0, 1, 0, 2} {
		m := plan.Member{}
		m.Host = hosts[h]
		members = append(members, m)
	}
	var meet sync.WaitGroup
	meet.Add(len(hosts))
	var mu sync.Mutex
	var done []int
	first, lost, unclean := errors.New("first"), errors.New("lost"), errors.New("unclean")
	var dropped []string
	note := func(_ string, err error) { dropped = append(dropped, err.Error()) }
	err := onHosts(t.Context(), members, note, func(ctx context.Context, i int) error {
		mu.Lock()
		done = append(done, i)
		mu.Unlock()
		if i == 2 {
			return errors.Join(first, failed(ofHost, members[i].Host, lost))
		}
		meet.Done()
		meet.Wait() // all hosts are at it
		switch i {
		case 0:
			return nil
		case 1:
			<-ctx.Done()
			return errors.Join(context.Cause(ctx), failed(ofHost, members[i].Host, unclean))
		default:
			<-ctx.Done()
			return ctx.Err()
		}
	})
	if slices.Sort(done); !slices.Equal(done, []int{0, 1, 2, 3}) {
		t.Errorf("done for %v", done)
	}
	if all := failures(err, ofDeployment); len(all) != 3 || all[0].err != first || all[1].err != lost || all[2].err != unclean || all[2].host != hosts[1] {
		t.Errorf("failures of %q: %+v", err, all)
	}
	if slices.Sort(dropped); !slices.Equal(dropped, []string{"context canceled", "first"}) {
		t.Errorf("dropped is %q", dropped)
	}
}

// TestAlike: members of a role run one image; that a host knows no digest of it is a doubt.
func TestAlike(t *testing.T) {
	for name, c := range map[string]struct {
		digests []string
		refused bool
		doubts  int
	}{
		"the same":         {[]string{"a", "a", "a"}, false, 0},
		"none is known":    {[]string{"", ""}, false, 0},
		"one is not known": {[]string{"a", "", "a"}, false, 2},
		"the first is not": {[]string{"", "a", "b"}, true, 0},
		"two others":       {[]string{"a", "b"}, true, 0},
	} {
		var rows []results.Member
		for _, d := range c.digests {
			rows = append(rows, results.Member{Role: "serve", Digest: d})
		}
		doubts, err := alike(rows)
		if (err != nil) != c.refused || len(doubts) != c.doubts {
			t.Errorf("%s: %q, %v", name, doubts, err)
		}
	}
}
