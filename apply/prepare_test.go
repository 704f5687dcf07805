package apply

import (
	"testing"

	"hclbench/engines"
	"hclbench/plan"
	"hclbench/provision"
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
